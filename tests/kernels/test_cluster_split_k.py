"""Split-K within a cluster gives the result of the program, however the iterations divide."""

import numpy as np
import pytest
from dequantized_gemm import dequantized
from device_text import needs_cuda_compiler
from specialized import gemm_kernel
from split_k_gemm import ALL_TIMINGS, TARGET, TWO_TIMINGS, check, check_gemm, draw, lowered

import tilelang.language as T
from tilelang.sim.run import simulate
from tilelang.targets.nvidia.codegen.cuda import emit
from tilelang.targets.nvidia.runtime.device_code import build


@pytest.mark.slow(every=12)
@pytest.mark.parametrize(("lazy", "seed"), ALL_TIMINGS)
def test_two_blocks_with_as_many_steps_each(lazy, seed):
    check_gemm((64, 32, 192), (64, 32, 32), 2, (lazy, seed), stages=2)


def test_four_blocks_some_of_which_have_a_step_more():
    check_gemm((64, 64, 6 * 32), (64, 64, 32), 4)


def test_the_last_step_may_reach_beyond_the_sums_and_tiles_beyond_the_results():
    check_gemm((50, 48, 104), (64, 32, 32), 2, out="float32")


def test_two_warpgroups_share_a_tile_of_each_block():
    check_gemm((128, 32, 96), (128, 32, 32), 2)


def test_one_warpgroup_has_two_blocks_of_rows():
    check_gemm((128, 32, 64), (128, 32, 32), 2, consumers=1)


def test_products_that_land_at_once():
    check_gemm((64, 32, 5 * 32), (64, 32, 32), 2, in_flight=0, stages=2, staged=False)


def test_one_of_three_blocks_has_all_results_where_these_do_not_divide_the_columns():
    check_gemm((64, 32, 4 * 32), (64, 32, 32), 3, owners=1)


@pytest.mark.parametrize("steps", [1, 3])
def test_a_number_of_steps_that_only_the_call_knows(steps):
    k = T.dynamic("k")
    made = lowered(gemm_kernel(64, 64, k * 8, 64, 64, 64), 2)
    a, b = draw((64, steps * 64)), draw((steps * 64, 64), seed=1)
    for lazy, seed in TWO_TIMINGS[:1] if steps > 1 else TWO_TIMINGS:
        c = np.full((64, 64), np.nan, np.float16)
        simulate(made, [a, b, c], target=TARGET, lazy=lazy, seed=seed)
        np.testing.assert_array_equal((a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16), c)


def test_results_do_not_depend_on_the_order_in_which_parts_come():
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(np.float16) for shape in ((64, 192), (192, 48)))
    made = lowered(gemm_kernel(64, 48, 192, 64, 48, 64, out="float32"), 3)

    def result(timing):
        c = np.zeros((64, 48), np.float32)
        simulate(made, [a, b, c], target=TARGET, lazy=timing[0], seed=timing[1])
        return c

    first, *others = map(result, ALL_TIMINGS[1:5])
    assert all(np.array_equal(first, other) for other in others)
    np.testing.assert_allclose(a.astype(np.float32) @ b.astype(np.float32), first, rtol=1e-4, atol=1e-3)


@pytest.mark.slow(every=8)
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
    made = build(emit(lowered(gemm_kernel(*sizes, *tile), blocks)), TARGET.arch, "nvrtc")
    (used,) = made.resources.values()
    assert (0, 0, False, ()) == (used.spill_bytes, used.local_bytes, used.serialized, made.warnings)


@pytest.mark.slow(every=8)
@pytest.mark.parametrize("blocks", [2, 4])
def test_operands_that_threads_compute(blocks):
    func = dequantized(16, 64, steps=9)
    a, w = draw((16, 9 * 64)), np.random.default_rng(0).integers(0, 256, (9, 64, 32)).astype(np.uint8)
    check(func, blocks, [a, w, np.full((16, 64), np.nan, np.float32)], TWO_TIMINGS, owners=1)
