"""The vote on a limit counts what is not a number as beyond it, and waits for what is to be complete."""

import numpy as np
import pytest

import tilelang.language as T
from tilelang.dtypes import SCALARS
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import const
from tilelang.lowering.regions import whole
from tilelang.ops.any_exceeds import AnyExceeds


def tile(name):
    return whole(Buffer(name, (const(4, SCALARS["int32"]),), SCALARS["float32"], Scope.FRAGMENT))


ANSWER = Region(Buffer("exceeds", (), SCALARS["bool"], Scope.VAR), (), ())


class Memory:
    """Holds one tile, and what is written."""

    def __init__(self, values):
        self.values, self.written = np.array(values, np.float32), {}

    def read(self, region):
        return self.values

    def write(self, region, values):
        self.written[region.buffer.name] = bool(values)


@pytest.mark.parametrize(
    ("values", "answer"),
    [([1, 2, -3, 8], False), ([1, 2, 8.5, 0], True), ([np.nan, 0, 0, 0], True), ([np.inf] * 4, True), ([-np.inf] * 4, False)],
)
def test_an_element_exceeds_the_limit_unless_it_is_at_most_that(values, answer):
    memory = Memory(values)
    AnyExceeds(tile("terms"), 8.0, ANSWER).reference(memory)
    assert {"exceeds": answer} == memory.written


def test_it_reads_the_tile_and_what_is_to_be_complete_and_writes_the_answer():
    terms, sums = tile("terms"), tile("sums")
    vote = AnyExceeds(terms, 8.0, ANSWER, (sums,))
    vote.check()
    assert (terms, sums) == vote.reads()
    assert (ANSWER,) == vote.writes()
    assert "vote on a limit" == vote.name
    assert not hasattr(T, "any_exceeds")  # the compiler writes it, no user
