"""Blocks of a cluster that share the sums of a tile compute what the program says, whatever is done with the sums."""

import numpy as np
import pytest
from device_text import needs_cuda_compiler
from harness import run_reference_on_copies
from roles import launch_of, product

import tilelang.language as T
from tilelang.backends.cuda import BACKEND
from tilelang.codegen.cuda import emit
from tilelang.dtypes import as_dtype
from tilelang.options import CompileOptions
from tilelang.passes.base import PassContext
from tilelang.passes.runner import run_passes
from tilelang.runtime.device_code import build
from tilelang.sim.run import simulate
from tilelang.target import Target

TARGET = Target("cuda", "sm_90a")
ALL_TIMINGS = [(lazy, seed) for lazy in (False, True) for seed in (0, 1, 2)]
TWO_TIMINGS = [(False, 0), (True, 1)]


def lowered(func, blocks, **pass_configs):
    wishes = {"split": blocks, **pass_configs}
    options = CompileOptions.from_user({f"tl.{name}": value for name, value in wishes.items()})
    made = run_passes(func, BACKEND.passes, PassContext(options, TARGET))
    plan = launch_of(made).plan
    assert blocks == plan.schedule.split, plan.notes
    return made


def draw(shape, dtype="float16", seed=0):
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(as_dtype(dtype).numpy)


def check(func, blocks, arguments, timings=TWO_TIMINGS, owners=None, **pass_configs):
    """The simulator agrees with the reference, bit by bit: elements are small integers."""
    want, made = run_reference_on_copies(func, arguments)[-1], lowered(func, blocks, **pass_configs)
    notes = [note.text for note in launch_of(made).plan.notes]
    assert (owners == 1) == any("one block of each cluster has all results" in text for text in notes), notes
    for lazy, seed in timings:
        actual = [np.array(a) for a in arguments]
        simulate(made, actual, target=TARGET, lazy=lazy, seed=seed)
        np.testing.assert_array_equal(want.astype(np.float64), actual[-1].astype(np.float64))


def check_product(sizes, tile, blocks, *timings, out="float16", **pass_configs):
    m, n, k = sizes
    arguments = [draw((m, k)), draw((k, n), seed=1), np.full((m, n), np.nan, out)]
    check(product(m, n, k, *tile, out=out), blocks, arguments, timings or TWO_TIMINGS, **pass_configs)


@pytest.mark.parametrize(("lazy", "seed"), ALL_TIMINGS)
def test_two_blocks_with_as_many_steps_each(lazy, seed):
    check_product((64, 64, 384), (64, 64, 64), 2, (lazy, seed), stages=2)


def test_four_blocks_some_of_which_have_a_step_more():
    check_product((64, 64, 6 * 64), (64, 64, 64), 4)


def test_the_last_step_may_reach_beyond_the_sums_and_tiles_beyond_the_results():
    check_product((50, 72, 200), (64, 64, 64), 2, out="float32")


def test_two_warpgroups_share_a_tile_of_each_block():
    check_product((128, 64, 192), (128, 64, 64), 2)


def test_one_warpgroup_has_two_blocks_of_rows():
    check_product((128, 64, 128), (128, 64, 64), 2, consumers=1)


def test_products_that_land_at_once():
    check_product((64, 64, 5 * 64), (64, 64, 64), 2, in_flight=0, stages=2, staged=False)


def test_one_of_three_blocks_has_all_results_where_these_do_not_divide_the_columns():
    check_product((64, 64, 4 * 64), (64, 64, 64), 3, owners=1)


def epilogues(kind, out="float32", operand="float16"):
    """Tiles of 64 x 64 with a bias and an activation, done in a way of its own."""
    m, n, k = 64, 48, 128

    @T.prim_func
    def main(
        A: T.Tensor((m, k), operand),
        B: T.Tensor((n, k), operand),
        bias: T.Tensor((n,), "float32"),
        R: T.Tensor((m, n), "float32"),
        C: T.Tensor((m, n), out),
    ):
        with T.Kernel(T.ceildiv(n, 64), threads=128) as bx:  # a tile reaches beyond the results
            A_s, B_s = T.alloc_shared((64, 64), operand), T.alloc_shared((64, 64), operand)
            C_l = T.alloc_fragment((64, 64), "float32")
            if kind == "bias in registers":
                bias_l = T.alloc_fragment((64,), "float32")
                T.copy(bias[bx * 64], bias_l)
            if kind == "bias in shared memory":
                bias_s = T.alloc_shared((64,), "float32")
                T.copy(bias[bx * 64], bias_s)
            T.clear(C_l)
            for i in T.Pipelined(k // 64, num_stages=2):
                T.copy(A[0, i * 64], A_s)
                T.copy(B[bx * 64, i * 64], B_s)
                T.gemm(A_s, B_s, C_l, transpose_B=True)
            if kind == "bias in registers":
                for i, j in T.Parallel(64, 64):
                    C_l[i, j] = T.max(C_l[i, j] + bias_l[j], 0)
                T.copy(C_l, C[0, bx * 64])
            elif kind == "bias in shared memory":
                for i, j in T.Parallel(64, 64):
                    C_l[i, j] = T.max(C_l[i, j] + bias_s[j], 0)
                T.copy(C_l, C[0, bx * 64])
            elif kind == "residual":
                R_l = T.alloc_fragment((64, 64), "float32")
                T.copy(R[0, bx * 64], R_l)
                for i, j in T.Parallel(64, 64):
                    R_l[i, j] = R_l[i, j] - C_l[i, j]
                T.copy(R_l, C[0, bx * 64])
            elif kind == "through shared memory":
                C_s = T.alloc_shared((64, 64), out)
                T.copy(C_l, C_s)
                T.copy(C_s, C[0, bx * 64])
            elif kind == "element by element":
                for j, i in T.Parallel(64, 64):
                    C[i, bx * 64 + j] = C_l[i, j] * 2 + j
            elif kind == "sums of rows":
                rows = T.alloc_fragment((64,), "float32")
                T.reduce_sum(C_l, rows, dim=1)
                for i, j in T.Parallel(64, 64):
                    C_l[i, j] = C_l[i, j] - rows[i]
                T.copy(C_l, C[0, bx * 64])

    return main, [
        draw((m, k), operand),
        draw((n, k), operand, 1),
        draw((n,), "float32", 2),
        draw((m, n), "float32", 3),
        np.zeros((m, n), as_dtype(out).numpy),
    ]


@pytest.mark.parametrize(
    ("kind", "owners"),
    [
        ("bias in registers", 2),
        ("bias in shared memory", 2),
        ("residual", 2),
        ("through shared memory", 2),
        ("element by element", 2),
        ("sums of rows", 1),
    ],
)
def test_what_is_done_with_the_results(kind, owners):
    func, arguments = epilogues(kind)
    check(func, 2, arguments, owners=owners)


def test_operands_in_bfloat16():
    func, arguments = epilogues("bias in registers", out="bfloat16", operand="bfloat16")
    check(func, 2, arguments)


def test_sums_in_half_precision():
    m, n, k = 64, 64, 256

    @T.prim_func
    def main(A: T.Tensor((m, k), "float16"), B: T.Tensor((k, n), "float16"), C: T.Tensor((m, n), "float16")):
        with T.Kernel(1, threads=128):
            A_s, B_s = T.alloc_shared((64, 64), "float16"), T.alloc_shared((64, 64), "float16")
            C_l = T.alloc_fragment((64, 64), "float16")
            T.clear(C_l)
            for i in T.Pipelined(k // 64, num_stages=2):
                T.copy(A[0, i * 64], A_s)
                T.copy(B[i * 64, 0], B_s)
                T.gemm(A_s, B_s, C_l)
            T.copy(C_l, C)

    check(main, 2, [draw((m, k)), draw((k, n), seed=1), np.zeros((m, n), np.float16)])


@pytest.mark.parametrize("steps", [1, 3])
def test_a_number_of_steps_that_only_the_call_knows(steps):
    k = T.dynamic("k")
    made = lowered(product(64, 64, k * 8, 64, 64, 64), 2)
    a, b = draw((64, steps * 64)), draw((steps * 64, 64), seed=1)
    for lazy, seed in TWO_TIMINGS[:1] if steps > 1 else TWO_TIMINGS:
        c = np.full((64, 64), np.nan, np.float16)
        simulate(made, [a, b, c], target=TARGET, lazy=lazy, seed=seed)
        np.testing.assert_array_equal((a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16), c)


def test_results_do_not_depend_on_the_order_in_which_parts_come():
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(np.float16) for shape in ((64, 192), (192, 48)))
    made = lowered(product(64, 48, 192, 64, 48, 64, out="float32"), 3)

    def result(timing):
        c = np.zeros((64, 48), np.float32)
        simulate(made, [a, b, c], target=TARGET, lazy=timing[0], seed=timing[1])
        return c

    first, *others = map(result, ALL_TIMINGS[1:5])
    assert all(np.array_equal(first, other) for other in others)
    np.testing.assert_allclose(a.astype(np.float32) @ b.astype(np.float32), first, rtol=1e-4, atol=1e-3)


@needs_cuda_compiler
@pytest.mark.parametrize(
    ("sizes", "tile", "blocks"),
    [
        ((64, 8192, 8192), (64, 128, 64), 2),
        ((64, 8192, 8200), (64, 64, 64), 4),
        ((512, 512, 8192), (128, 128, 64), 4),
        ((512, 512, 8192), (128, 256, 64), 2),
    ],
)
def test_products_stay_under_way_and_registers_suffice(sizes, tile, blocks):
    made = build(emit(lowered(product(*sizes, *tile), blocks)), TARGET.arch, "nvrtc")
    (used,) = made.resources.values()
    assert (0, 0, False, ()) == (used.spill_bytes, used.local_bytes, used.serialized, made.warnings)
