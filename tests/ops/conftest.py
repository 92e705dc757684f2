"""Fixtures of the tests of tile operators: operands, and the execution of one operator on arrays."""

from collections.abc import Callable, Mapping
from types import SimpleNamespace

import numpy as np
import pytest

from tilelang.dtypes import DType, as_dtype
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import Expr, as_expr
from tilelang.ir.func import PrimFunc, TensorParam
from tilelang.ir.stmt import TileOp
from tilelang.sim.tile_interp import run_reference


def region(buffer: Buffer, *box: tuple[int, int]) -> Region:
    """A box of a buffer by (start, extent) per dimension; all of it without a box."""
    if not box:
        return Region(buffer, tuple(as_expr(0) for _ in buffer.shape), buffer.shape)
    return Region(buffer, tuple(as_expr(start) for start, _ in box), tuple(as_expr(extent) for _, extent in box))


def tile(
    name: str, shape: tuple[int | Expr, ...], dtype: str | DType = "float32", scope: Scope = Scope.SHARED
) -> Region:
    """All of a new buffer."""
    return region(Buffer(name, tuple(as_expr(extent) for extent in shape), as_dtype(dtype), scope))


def apply(op: TileOp, contents: Mapping[Region | Buffer, np.ndarray]) -> None:
    """Checks an operator and runs its meaning on arrays, in place."""
    op.check()
    buffers = {(key.buffer if isinstance(key, Region) else key): array for key, array in contents.items()}
    # The reference of an operator does not depend on scopes, so that arrays can stand for on-chip tiles.
    run_reference(PrimFunc("test", tuple(TensorParam(buffer) for buffer in buffers), op), list(buffers.values()))


@pytest.fixture
def ops() -> SimpleNamespace:
    """`tile`, `region` and `apply` of this file."""
    return SimpleNamespace(tile=tile, region=region, apply=apply)


@pytest.fixture
def draw() -> Callable[[tuple[int, ...], str], np.ndarray]:
    """Small integers of a dtype, so that sums are exact in all of them."""
    generator = np.random.default_rng(7)

    def make(shape: tuple[int, ...], dtype: str) -> np.ndarray:
        row = as_dtype(dtype)
        low = 0 if row.limits[0] == 0 else -3
        return generator.integers(low, 2 if row.is_bool else 4, shape).astype(row.numpy)

    return make
