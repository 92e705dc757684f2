"""Kernels with explicit TMA, wgmma and clusters on a GPU, many times, as on the simulator."""

import numpy as np
import pytest
from device_launch import GPUS, SLOW_BY_OTHER_COMPILERS, architecture, needs_gpu
from hopper import integers
from kernels.test_explicit_clusters import exchange, multicast_halves, push
from kernels.test_explicit_tma import overlapped_stores
from kernels.test_explicit_warp_specialization import by_branches, by_one_thread, gemm
from kernels.test_explicit_wgmma import async_gemms, whole_block

import tilelang
from tilelang.testing import to_device, to_host

pytestmark = [
    needs_gpu,
    pytest.mark.skipif(GPUS > 0 and architecture() != "sm_90a", reason="needs a Hopper GPU"),
    pytest.mark.filterwarnings(SLOW_BY_OTHER_COMPILERS),
]
RUNS = 10
TARGET = {"kind": "cuda", "arch": "sm_90a"}


def check(func, inputs, expected):
    """The last parameter after each of several runs."""
    kernel = tilelang.compile(func, out_idx=[-1], target=TARGET)
    assert kernel.resources.spill_bytes == 0
    given = [to_device(np.array(a), target=TARGET) for a in inputs]
    for _ in range(RUNS):
        np.testing.assert_array_equal(expected, to_host(kernel(*given)))


def product(a, b, dtype=np.float16):
    return (a.astype(np.float32) @ b.astype(np.float32)).astype(dtype)


@pytest.mark.parametrize(
    ("sizes", "tile"),
    [
        ((1024, 1024, 1024), (128, 128, 64, 4)),
        ((2048, 1536, 512), (128, 256, 64, 3)),
        ((1000, 520, 328), (128, 128, 64, 4)),
        ((300, 72, 104), (128, 64, 32, 2)),
    ],
)
@pytest.mark.parametrize("in_flight", [0, 1])
def test_explicit_warp_specialization(sizes, tile, in_flight):
    m, n, k = sizes
    a, b = integers(m, k), integers(k, n)
    check(gemm(m, n, k, *tile, in_flight=in_flight), (a, b), product(a, b))


def test_warp_specialization_by_branches():
    a, b = integers(128, 128), integers(128, 64)
    check(by_branches, (a, b), 2 * product(a, b, np.float32))


@pytest.mark.parametrize("kind", [(load, by) for load in ("engine", "both") for by in ("wgmma", "gemm")])
def test_engines_mixed_with_tile_operators(kind):
    a, b = integers(64, 96), integers(96, 64)
    check(whole_block(kind), (a, b), product(a, b, np.float32))


@pytest.mark.parametrize("who", ["index", "elect"])
def test_engines_that_a_single_thread_starts(who):
    a = integers(64, 200)
    padded = np.zeros((64, 256), np.float16)
    padded[:, :200] = a
    tiles = padded.reshape(64, 4, 64)
    check(by_one_thread(who), (a,), (tiles + tiles[:, :, ::-1]).reshape(64, 256)[:, :200])


@pytest.mark.parametrize("case", [{}, {"awaited": "by the next one"}, {"held": True}, {"rows": 32}])
def test_gemms_that_are_awaited_later(case):
    a, b = integers(case.get("rows", 64), 64), integers(64, 64)
    check(async_gemms(**case), (a, b), product(a, b.T, np.float32))


def test_stores_under_way():
    check(overlapped_stores, (), np.arange(100)[:, None] * 128 + np.arange(120))


def test_blocks_of_clusters_reach_each_other():
    a = integers(4, 64, dtype=np.float32)
    swapped = a[[1, 0, 3, 2]][:, ::-1]
    check(exchange, (a,), swapped)
    check(push, (a,), swapped + 2)
    halves = integers(64, 64)
    check(multicast_halves, (halves,), np.stack([halves, halves]))
