"""Operands of gemms that threads compute are kept in registers, as operand A of wgmma."""

import numpy as np
import pytest
from dequantized_gemm import dequantized
from gpu import assert_simulates

import tilelang
from tilelang.ir.buffer import Scope
from tilelang.ir.func import PrimFunc
from tilelang.ir.stmt import Alloc
from tilelang.ir.visit import walk
from tilelang.ops.gemm import Gemm
from tilelang.options import CompileOptions
from tilelang.passes.base import PassContext
from tilelang.targets.nvidia.backend import BACKEND, LOWERINGS
from tilelang.targets.nvidia.passes.keep_computed_operands import keep_computed_operands
from tilelang.targets.target import Target


def after_the_pass(func: PrimFunc, **pass_configs) -> tuple[Gemm, Scope]:
    """The gemm, and the scope of the computed tile."""
    context = PassContext(CompileOptions.from_user(pass_configs), Target("cuda", "sm_90a"))
    own = keep_computed_operands(LOWERINGS)
    for each in BACKEND.passes:
        func = (own if each.name == own.name else each).run(func, context)
        if each.name == own.name:
            break
    gemm = next(s for s in walk(func.body) if isinstance(s, Gemm))
    return gemm, next(s.buffer.scope for s in walk(func.body) if isinstance(s, Alloc) and s.buffer.name == "W_s")


def test_a_computed_b_becomes_operand_a_of_the_transposed_gemm():
    gemm, scope = after_the_pass(dequantized())
    assert Scope.FRAGMENT is scope
    assert ("W_s", "A_s", True) == (gemm.a.buffer.name, gemm.b.buffer.name, gemm.transpose_c)
    assert (64, 16, 64) == tuple(int(size.value) for size in gemm.sizes)


def test_a_computed_a_stays_operand_a():
    gemm, scope = after_the_pass(dequantized(64, 32, side="A"))
    assert Scope.FRAGMENT is scope
    assert ("W_s", False) == (gemm.a.buffer.name, gemm.transpose_c)


@pytest.mark.parametrize("other", ["loop is not pipelined", "read by threads", "two gemms"])
def test_what_else_uses_a_tile_keeps_it_in_shared_memory(other):
    gemm, scope = after_the_pass(dequantized(64, other=other))
    assert (Scope.SHARED, False) == (scope, gemm.transpose_c)


def test_tiles_of_fewer_rows_than_an_instruction_stay_in_shared_memory():
    assert Scope.SHARED is after_the_pass(dequantized(64, 32))[1]


def test_nothing_changes_where_warps_are_not_specialized():
    assert Scope.SHARED is after_the_pass(dequantized(), **{"tl.disable_warp_specialized": True})[1]


@pytest.mark.slow(every=8)
@pytest.mark.parametrize(
    ("rows", "columns", "side", "along_k", "dtype"),
    [
        (16, 64, "B", True, "float16"), (8, 128, "B", False, "bfloat16"), (64, 128, "B", True, "bfloat16"),
        (128, 192, "B", True, "float16"), (128, 16, "A", True, "float16"), (64, 16, "A", False, "float16"),
    ],
)  # fmt: skip
def test_it_computes_the_same(rows, columns, side, along_k, dtype):
    func = dequantized(rows, columns, side=side, along_k=along_k, dtype=dtype, tiles=2)
    rng = np.random.default_rng(rows)
    shapes = [tuple(int(extent.value) for extent in param.buffer.shape) for param in func.params]
    a = rng.integers(-3, 4, shapes[0]).astype(tilelang.dtypes.SCALARS[dtype].numpy)
    w = rng.integers(0, 256, shapes[1]).astype(np.uint8)
    assert_simulates(func, a, w, np.full(shapes[2], np.nan, np.float32), arch="sm_90a", seeds=(0,))
