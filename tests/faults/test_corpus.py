"""The simulator finds what is wrong with GPU kernels, and finds nothing wrong with right ones.

Faults are seeded into the thread-level programs of the examples, one at a time. One is found if the simulator reports
it, or if the result differs from the reference. The whole corpus runs with TILELANG_SLOW_TESTS=1; continuous
integration runs some faults of each kind.
"""

import os
from collections import Counter
from functools import cache

import numpy as np
import pytest
from gpu import assert_simulates, lower_func
from harness import run_reference_on_copies
from programs_with_faults import PROGRAMS
from seeded import sample, seeded_faults

from tilelang.errors import TileLangError
from tilelang.sim.run import simulate
from tilelang.targets.target import Target

WHOLE = os.environ.get("TILELANG_SLOW_TESTS") == "1"
SAMPLED = 64  # of each kind, one fault in so many runs otherwise
TARGET = Target("cuda", "sm_80")


@cache
def corpus(name):
    """The arguments of a program, what it should give, and its variants with a fault."""
    func, arguments = PROGRAMS[name]()
    faults = list(seeded_faults(lower_func(func, TARGET.arch)))
    return arguments, run_reference_on_copies(func, arguments), faults


@cache
def sampled():
    """Of each program the faults that run."""
    corpora = {name: corpus(name)[2] for name in sorted(PROGRAMS)}
    return corpora if WHOLE else sample(corpora, SAMPLED)


def is_found(fault, arguments, expected):
    copies = [np.array(a) for a in arguments]
    try:
        simulate(fault.func, copies, target=TARGET)
    except TileLangError:
        return True
    return any(not np.array_equal(a, b, equal_nan=a.dtype.kind == "f") for a, b in zip(expected, copies, strict=True))


def test_the_corpus_holds_many_faults_of_many_kinds():
    kinds = Counter(fault.kind for name in PROGRAMS for fault in corpus(name)[2])
    assert 100 <= sum(kinds.values())
    assert 10 <= len(kinds)


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_seeded_faults_are_found(name):
    arguments, expected, _ = corpus(name)
    chosen = sampled()[name]
    missed = [f"{fault.kind}, {fault.place}" for fault in chosen if not is_found(fault, arguments, expected)]
    assert len(missed) <= 0.02 * len(chosen), missed


@pytest.mark.slow(every=8)
@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_nothing_is_wrong_with_the_programs_themselves(name):
    func, arguments = PROGRAMS[name]()
    assert_simulates(func, *arguments, arch=TARGET.arch, seeds=range(3 if WHOLE else 1))
