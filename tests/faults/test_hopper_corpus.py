"""The simulator finds what is wrong with kernels for Hopper, and finds nothing wrong with right ones.

As in `test_corpus`, one fault at a time; the whole corpus runs with TILELANG_SLOW_TESTS=1.
"""

import os
from collections import Counter
from functools import cache

import numpy as np
import pytest
from hopper_programs import PROGRAMS, TARGET
from seeded import sample, seeded_faults
from seeded_hopper import CHANGES

from tilelang.errors import TileLangError
from tilelang.ir.verify import verify
from tilelang.sim.run import simulate

WHOLE = os.environ.get("TILELANG_SLOW_TESTS") == "1"
SAMPLED = 60  # of each kind, one fault in so many runs otherwise


@cache
def corpus(name):
    """A program, its arguments, what it should give, and its variants with a fault."""
    program = PROGRAMS[name]
    func, arguments, expected = program.make()
    verify(func)
    changes = {kind: change for kind, change in CHANGES.items() if kind not in program.without}
    return func, arguments, expected, list(seeded_faults(func, changes))


def run(func, arguments, **options):
    copies = [np.array(a) for a in arguments]
    simulate(func, copies, target=TARGET, **options)
    return copies[-1]


@cache
def sampled():
    """Of each program the faults that run."""
    corpora = {name: corpus(name)[3] for name in sorted(PROGRAMS)}
    return corpora if WHOLE else sample(corpora, SAMPLED)


def is_found(fault, arguments, expected):
    try:
        return not np.array_equal(run(fault.func, arguments), expected)
    except TileLangError:
        return True


def test_the_corpus_holds_many_faults_of_every_kind():
    kinds = Counter(fault.kind for name in PROGRAMS for fault in corpus(name)[3])
    assert 1000 <= sum(kinds.values())
    assert set(CHANGES) == set(kinds)


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_seeded_faults_are_found(name):
    _, arguments, expected, _ = corpus(name)
    chosen = sampled()[name]
    missed = [f"{fault.kind}, {fault.place}" for fault in chosen if not is_found(fault, arguments, expected)]
    assert len(missed) <= PROGRAMS[name].implied + 0.02 * len(chosen), missed


@pytest.mark.slow(every=18)
@pytest.mark.parametrize(
    ("name", "lazy"),
    [(name, lazy) for n, name in enumerate(sorted(PROGRAMS)) for lazy in (True, False) if WHOLE or lazy == (n % 2 == 0)],
)
def test_nothing_is_wrong_with_the_programs_themselves(name, lazy):
    func, arguments, expected, _ = corpus(name)
    for seed in range(3 if WHOLE else 1):
        np.testing.assert_array_equal(run(func, arguments, lazy=lazy, seed=seed), expected)
