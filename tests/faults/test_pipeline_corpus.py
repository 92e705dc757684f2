"""What is wrong with the pipelines of partitions is refused when programs are verified, or found by the simulator.

Faults are seeded at tile level, one at a time, into programs as `specialize_warps` and the passes behind it leave them.
"""

from collections import Counter
from functools import cache

import numpy as np
import pytest
from hopper_programs import PROGRAMS, with_pipelines, without_pipelines
from seeded import sample, seeded_faults
from seeded_pipelines import CHANGES
from test_hopper_corpus import WHOLE, run

from tilelang.errors import TileLangError
from tilelang.ir.verify import verify

SAMPLED = 24  # of each kind, one fault in so many runs otherwise
NAMES = (
    "gemm",
    "gemm, asynchronous mma",
    "gemm, ping-pong",
    "gemm, ping-pong with one stage",
    "gemm, ping-pong by counters",
    "gemm, split-K in a cluster",
    "gemm, loads in several places",
    "gemm, steps left out",
    "gemm, tiles from a counter",
    "gemm, clusters of two",
    "attention",
    "attention, variable lengths",
    "attention, three warpgroups",
)
# Faults that change nothing. Each of two groups computes every other tile of three steps in two stages, so that the last
# step of a tile is always in the first stage for one of them; so is the first step of three in three stages. And the
# producer's waits for K and V hold it until Q has been read, though that was released before.
IMPLIED = {"gemm, ping-pong": 1, "attention": 2, "attention, three warpgroups": 2}


@cache
def corpus(name):
    """A program, its arguments, what it should give, and its variants with a fault."""
    func, arguments, expected = with_pipelines(PROGRAMS[name].make)
    verify(func)
    return func, arguments, expected, list(seeded_faults(func, CHANGES))


@cache
def sampled():
    """Of each program the faults that run."""
    corpora = {name: corpus(name)[3] for name in NAMES}
    return corpora if WHOLE else sample(corpora, SAMPLED)


def is_found(fault, arguments, expected):
    try:
        verify(fault.func)
        return not np.array_equal(run(without_pipelines(fault.func), arguments), expected)
    except TileLangError:
        return True


def test_the_corpus_holds_many_faults_of_every_kind():
    kinds = Counter(fault.kind for name in NAMES for fault in corpus(name)[3])
    assert 200 <= sum(kinds.values())
    assert set(CHANGES) == set(kinds)


@pytest.mark.parametrize("name", NAMES)
def test_seeded_faults_are_found(name):
    _, arguments, expected, _ = corpus(name)
    missed = [f"{fault.kind}, {fault.place}" for fault in sampled()[name] if not is_found(fault, arguments, expected)]
    assert len(missed) <= IMPLIED.get(name, 0), missed


def test_nothing_is_wrong_with_a_program_itself():
    func, arguments, expected, _ = corpus("gemm")
    np.testing.assert_array_equal(run(without_pipelines(func), arguments), expected)
