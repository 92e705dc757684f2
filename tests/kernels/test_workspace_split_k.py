"""Split-K through memory gives the result of the program, however iterations, columns and tiles divide."""

import numpy as np
import pytest
from device_text import needs_cuda_compiler
from harness import run_reference_on_copies
from specialized import gemm_kernel
from split_k_gemm import TARGET, TWO_TIMINGS, draw

import tilelang.language as T
from tilelang.ir.stmt import Launch
from tilelang.ir.visit import walk
from tilelang.options import CompileOptions
from tilelang.passes.base import PassContext
from tilelang.passes.runner import run_passes
from tilelang.sim.run import simulate
from tilelang.targets.nvidia.backend import BACKEND
from tilelang.targets.nvidia.codegen.cuda import emit
from tilelang.targets.nvidia.runtime.device_code import build


def lowered(func, parts, **pass_configs):
    configs = {"workspace_split": parts, **pass_configs}
    options = CompileOptions.from_user({f"tl.{name}": value for name, value in configs.items()})
    made = run_passes(func, BACKEND.passes, PassContext(options, TARGET))
    filling, adding = (stmt for stmt in walk(made.body) if isinstance(stmt, Launch))
    assert (parts, 1) == (filling.plan.workspace_split, adding.plan.workspace_split), filling.plan.notes
    assert filling.plan.schedule is not None, filling.plan.notes
    return made


def check(func, parts, arguments, timings=TWO_TIMINGS, **pass_configs):
    """The simulator agrees with the reference, bit by bit: elements are small integers."""
    want, made = run_reference_on_copies(func, arguments)[-1], lowered(func, parts, **pass_configs)
    for lazy, seed in timings:
        actual = [np.array(a) for a in arguments]
        simulate(made, actual, target=TARGET, lazy=lazy, seed=seed)
        np.testing.assert_array_equal(want.astype(np.float64), actual[-1].astype(np.float64))


def check_gemm(sizes, tile, parts, *, out="float16", **pass_configs):
    m, n, k = sizes
    arguments = [draw((m, k)), draw((k, n), seed=1), np.full((m, n), np.nan, out)]
    check(gemm_kernel(m, n, k, *tile, out=out), parts, arguments, **pass_configs)


def test_two_blocks_with_as_many_steps_each():
    check_gemm((64, 64, 128), (64, 64, 32), 2)


def test_blocks_some_of_which_have_a_step_more():
    check_gemm((64, 64, 7 * 32), (64, 64, 32), 3)


def test_more_parts_than_are_loaded_together():
    check_gemm((64, 32, 11 * 32), (64, 32, 32), 11)


def test_the_last_step_may_reach_beyond_the_sums_and_tiles_beyond_the_results():
    check_gemm((50, 72, 104), (64, 64, 32), 2, out="float32")


def test_columns_that_do_not_divide_are_added_up_by_one_block():
    check_gemm((64, 24, 128), (64, 24, 32), 2)


def test_two_warpgroups_share_a_tile():
    check_gemm((128, 64, 128), (128, 64, 32), 2)


def batched(out="float16"):
    @T.prim_func
    def main(
        A: T.Tensor((2, 100, 128), "float16"), B: T.Tensor((2, 128, 80), "float16"), C: T.Tensor((2, 100, 80), out)
    ):
        with T.Kernel(T.ceildiv(80, 64), T.ceildiv(100, 64), 2, threads=128) as (bx, by, bz):
            A_s, B_s = T.alloc_shared((64, 32), "float16"), T.alloc_shared((32, 64), "float16")
            C_l = T.alloc_fragment((64, 64), "float32")
            T.clear(C_l)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[bz, by * 64, k * 32], A_s)
                T.copy(B[bz, k * 32, bx * 64], B_s)
                T.gemm(A_s, B_s, C_l)
            T.copy(C_l, C[bz, by * 64, bx * 64])

    return main


def test_a_grid_of_three_dimensions():
    check(batched(), 2, [draw((2, 100, 128)), draw((2, 128, 80), seed=1), np.full((2, 100, 80), np.nan, np.float16)])


def with_epilogue(kind):
    m, n, k = 64, 48, 128

    @T.prim_func
    def main(
        A: T.Tensor((m, k), "float16"),
        B: T.Tensor((k, n), "float16"),
        bias: T.Tensor((n,), "float32"),
        C: T.Tensor((m, n), "float32"),
    ):
        with T.Kernel(T.ceildiv(n, 64), threads=128) as bx:
            A_s, B_s = T.alloc_shared((64, 32), "float16"), T.alloc_shared((32, 64), "float16")
            C_l = T.alloc_fragment((64, 64), "float32")
            bias_l = T.alloc_fragment((64,), "float32")
            T.copy(bias[bx * 64], bias_l)
            T.clear(C_l)
            for i in T.Pipelined(k // 32, num_stages=2):
                T.copy(A[0, i * 32], A_s)
                T.copy(B[i * 32, bx * 64], B_s)
                T.gemm(A_s, B_s, C_l)
            if kind == "bias":
                for i, j in T.Parallel(64, 64):
                    C_l[i, j] = T.max(C_l[i, j] + bias_l[j], 0)
            else:
                rows = T.alloc_fragment((64,), "float32")
                T.reduce_max(C_l, rows, dim=1)
                for i, j in T.Parallel(64, 64):
                    C_l[i, j] = rows[i] - C_l[i, j] + bias_l[j]
            T.copy(C_l, C[0, bx * 64])

    return main


@pytest.mark.parametrize("kind", ["bias", "largest of a row"])
def test_epilogues_are_run_by_the_blocks_that_add_up(kind):
    arguments = [draw((64, 128)), draw((128, 48), seed=1), draw((48,), "float32", 2), np.full((64, 48), np.nan, "float32")]
    check(with_epilogue(kind), 4, arguments)


@pytest.mark.slow(every=8)
@needs_cuda_compiler
@pytest.mark.parametrize(
    ("sizes", "tile", "parts"),
    [((512, 512, 16384), (128, 128, 64), 8), ((1024, 1024, 16384), (128, 256, 64), 4), ((64, 64, 32768), (64, 64, 64), 64)],
)
def test_products_stay_under_way_and_registers_suffice(sizes, tile, parts):
    made = build(emit(lowered(gemm_kernel(*sizes, *tile), parts)), TARGET.arch, "nvrtc")
    for used in made.resources.values():
        assert (0, 0, False, ()) == (used.spill_bytes, used.local_bytes, used.serialized, made.warnings)
