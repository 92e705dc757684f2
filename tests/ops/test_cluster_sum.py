"""Reductions over clusters: owners, partial sums and their shared memory."""

import numpy as np
import pytest

from tilelang.dtypes import INT32, SCALARS
from tilelang.errors import CompilerBug, ProgramError
from tilelang.ir.buffer import Scope
from tilelang.ir.expr import Var
from tilelang.ops.cluster_sum import ClusterSum


@pytest.fixture
def made(ops):
    def make(own=(64, 16), room=64 * 16 * 3, blocks=4, scope=Scope.SHARED, dtype="float32"):
        sums = ops.tile("C", (64, 64), scope=Scope.FRAGMENT)
        parts = ops.tile("parts", (room,), dtype, scope)
        barrier = ops.tile("sent", (1,), SCALARS["uint64"], Scope.BARRIER)
        owned = ops.tile("C_own", own, scope=Scope.FRAGMENT)
        return ClusterSum(sums, owned, parts, barrier, Var("rank", INT32, index=True), blocks)

    return make


def test_the_number_of_owners(made):
    for own, room, owners in (((64, 16), 64 * 16 * 3, 4), ((64, 32), 64 * 32 * 3, 2), ((64, 64), 64 * 64 * 3, 1)):
        op = made(own, room)
        op.check()
        assert owners == op.owners


def test_reads_and_writes(made):
    op = made()
    assert ((op.sums, op.parts), (op.own, op.parts)) == (op.reads(), op.writes())


@pytest.mark.parametrize("own", [(64, 24), (32, 16), (64, 8)])
def test_owned_columns_must_divide_the_tile(made, own):
    with pytest.raises(ProgramError, match="'C_own' is no part of 'C'"):
        made(own, own[0] * own[1] * 3).check()


@pytest.mark.parametrize("wrong", [{"room": 100}, {"scope": Scope.FRAGMENT}, {"dtype": "float16"}])
def test_the_size_of_the_partial_sums_is_checked(made, wrong):
    with pytest.raises(ProgramError, match="'parts' does not hold 3072 sums"):
        made(**wrong).check()


def test_one_block_cannot_be_interpreted(made, ops):
    op = made()
    arrays = [np.zeros(r.buffer.static_shape, "float32") for r in (op.sums, op.own, op.parts)]
    with pytest.raises(CompilerBug, match="interpreted without the others of its cluster"):
        ops.apply(op, dict(zip((op.sums, op.own, op.parts), arrays, strict=True)))
