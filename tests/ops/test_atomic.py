"""`T.atomic_*` on tiles."""

import numpy as np
import pytest

from tilelang.errors import ProgramError
from tilelang.ir.buffer import Scope
from tilelang.ir.expr import as_expr
from tilelang.ir.stmt import AtomicOp
from tilelang.ops.atomic import AtomicTile

NUMPY = {AtomicOp.ADD: np.add, AtomicOp.MAX: np.maximum, AtomicOp.MIN: np.minimum}


@pytest.mark.parametrize("op", list(NUMPY))
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32"])
def test_tiles_are_combined_elementwise_in_the_destinations_dtype(ops, draw, op, dtype):
    src, dst = ops.tile("S", (3, 4)), ops.tile("D", (1, 3, 4), dtype, Scope.GLOBAL)
    values, old = draw((3, 4), "float32"), draw((1, 3, 4), dtype)
    expected = NUMPY[op](old[0].astype("f"), values)
    ops.apply(AtomicTile(op, src, dst), {src: values, dst: old})
    np.testing.assert_array_equal(expected, old[0].astype("f"))


def test_a_scalar_is_broadcast(ops):
    dst = ops.tile("D", (4,), scope=Scope.GLOBAL)
    old = np.arange(4, dtype="f")
    ops.apply(AtomicTile(AtomicOp.ADD, as_expr(2), ops.region(dst.buffer, (1, 2))), {dst: old})
    assert [0, 3, 4, 3] == old.tolist()


def test_extents_must_agree(ops):
    with pytest.raises(ProgramError, match=r"T.atomic_add: 'S' is \(4,\) but 'D' is \(5,\)"):
        AtomicTile(AtomicOp.ADD, ops.tile("S", (4,)), ops.tile("D", (5,), scope=Scope.GLOBAL)).check()


def test_tiles_have_add_min_and_max_only(ops):
    with pytest.raises(ProgramError, match="T.atomic_exchange: works on one element, not on tiles"):
        AtomicTile(AtomicOp.EXCHANGE, as_expr(1), ops.tile("D", (5,))).check()


def test_the_destination_is_read_and_written(ops):
    src, dst = ops.tile("S", (4,)), ops.tile("D", (4,))
    assert (src, dst) == AtomicTile(AtomicOp.ADD, src, dst).reads()
    assert (dst,) == AtomicTile(AtomicOp.ADD, as_expr(1), dst).reads()
    assert (dst,) == AtomicTile(AtomicOp.ADD, src, dst).writes()
