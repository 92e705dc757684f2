"""Kernels whose warps have roles, on a GPU: every schedule of products, and attention, against torch, many times.

Elements of products are small integers, so that sums are exact and one wrong element in any run is seen.
"""

import numpy as np
import pytest
from device_launch import GPUS, architecture, needs_gpu
from examples_of import load
from held_queries import attention
from tiled_gemm import tiled_gemm

import tilelang

pytestmark = [
    needs_gpu,
    pytest.mark.skipif(GPUS > 0 and architecture() != "sm_90a", reason="needs a Hopper GPU"),
]
RUNS = 10
SCHEDULES = {
    "as chosen": {},
    "together, in flight": {"persistent": True, "ping_pong": False, "in_flight": 1},
    "together, one product at a time": {"persistent": True, "ping_pong": False, "in_flight": 0},
    "by turns": {"persistent": True, "ping_pong": True},
    "one tile per block": {"persistent": False},
    "one tile per block, one at a time": {"persistent": False, "in_flight": 0},
    "one warpgroup": {"persistent": True, "ping_pong": False, "consumers": 1},
    "two versions": {"persistent": True, "stages": 2},
    "results from registers": {"persistent": True, "staged": False},
    "in clusters of two": {"persistent": True, "ping_pong": False, "cluster": (1, 2)},
    "in clusters of two, by turns": {"persistent": True, "ping_pong": True, "cluster": (2, 1)},
    "in clusters of four": {"cluster": (2, 2)},
    "in clusters of four, one tile per block": {"persistent": False, "cluster": (4, 1)},
    "no roles": {"disable_warp_specialized": True},
}


def product(m, n, k, tile, *, dtype="float16", out="float16", a=False, b=False):
    """A gemm; A or B lies transposed if `a` or `b`."""
    return tiled_gemm((m, n, k), tile, dtype=dtype, out=out, trans_a=a, trans_b=b, num_stages=3)


def check(sizes, tile, *, dtype="float16", out=None, a=False, b=False, runs=RUNS, **pass_configs):
    torch = pytest.importorskip("torch")
    m, n, k = sizes
    out = out or dtype
    configs = {f"tl.{name}": value for name, value in pass_configs.items()}
    func = product(m, n, k, tile, dtype=dtype, out=out, a=a, b=b)
    kernel = tilelang.compile(func, out_idx=[2], target="cuda", pass_configs=configs)
    assert kernel.resources.spill_bytes == 0
    shapes = (k, m) if a else (m, k), (n, k) if b else (k, n)
    torch.manual_seed(0)
    left, right = (torch.randint(-3, 4, shape, device="cuda").to(getattr(torch, dtype)) for shape in shapes)
    wide = (left.double().T if a else left.double()) @ (right.double().T if b else right.double())
    want = wide.to(getattr(torch, out))
    for _ in range(runs):
        assert torch.equal(want, kernel(left, right))


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize(
    ("sizes", "tile"),
    [
        ((2048, 2048, 512), (128, 128, 64)),
        ((3000, 1000, 328), (128, 128, 32)),
        ((256, 4096, 4096), (64, 128, 64)),
    ],
)
def test_schedules_of_products(name, sizes, tile):
    check(sizes, tile, **SCHEDULES[name])


@pytest.mark.parametrize("name", ["together, in flight", "by turns"])
@pytest.mark.parametrize("tile", [(128, 256, 64), (256, 128, 64), (128, 64, 64), (64, 256, 32), (192, 128, 64), (128, 224, 64), (64, 112, 64)])
def test_tiles_of_products(name, tile):
    if tile[0] * tile[1] > 128 * 128 and name == "by turns":
        pytest.skip("one warpgroup has not enough registers for its sums")
    check((4000, 3080, 200), tile, **SCHEDULES[name])


@pytest.mark.parametrize("name", ["as chosen", "together, in flight", "by turns"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(("a", "b"), [(False, True), (True, False), (True, True)])
def test_products_that_lie_the_other_way_round(name, dtype, a, b):
    check((1000, 520, 328), (128, 128, 64), dtype=dtype, a=a, b=b, **SCHEDULES[name])


@pytest.mark.parametrize("name", ["as chosen", "together, in flight", "by turns"])
@pytest.mark.parametrize("out", ["bfloat16", "float32"])
def test_products_of_bfloat16(name, out):
    check((1000, 520, 1000), (128, 128, 64), dtype="bfloat16", out=out, **SCHEDULES[name])


@pytest.mark.parametrize("sizes", [(1, 8, 8), (65, 136, 72), (999, 517, 77), (131, 1000, 1001), (5, 2048, 4096)])
def test_sizes_that_nothing_divides(sizes):
    check(sizes, (128, 128, 64))
    check(sizes, (64, 64, 32), persistent=True)


@pytest.mark.parametrize("name", ["together, in flight", "by turns"])
def test_many_tiles_per_block(name):
    check((8192, 8192, 128), (128, 128, 64), runs=3, **SCHEDULES[name])
    check((8192, 8192, 192), (128, 64, 64), runs=3, **SCHEDULES[name])


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize(
    ("shape", "tile"),
    [
        ((2, 4, 1024, 64), (64, 64)),
        # NVRTC 13.0 keeps one register of its persistent causal kernel in local memory, 13.5 none
        pytest.param((1, 8, 1000, 128), (128, 128), marks=pytest.mark.filterwarnings("ignore:.*spills registers")),
        ((3, 2, 129, 64), (128, 64)),
        ((1, 2, 4096, 128), (64, 128)),
    ],
)
def test_attention(shape, tile, persistent, causal):
    torch = pytest.importorskip("torch")
    factory = load("03_attention/flash_attention.py").flash_attention
    func = factory.get_tir(*shape, *tile, causal=causal)
    kernel = tilelang.compile(func, out_idx=[3], target="cuda", pass_configs={"tl.persistent": persistent})
    torch.manual_seed(0)
    q, k, v = (torch.randn(shape, device="cuda", dtype=torch.float16) for _ in range(3))
    expected = torch.nn.functional.scaled_dot_product_attention(q.double(), k.double(), v.double(), is_causal=causal)
    first = kernel(q, k, v)
    np.testing.assert_allclose(first.float().cpu(), expected.float().cpu(), rtol=2e-2, atol=4e-3)
    for _ in range(RUNS):
        assert torch.equal(first, kernel(q, k, v))  # what roles do when changes no bit


@pytest.mark.parametrize("schedule", [{}, {"stages": 1}, {"consumers": 2, "stages": 1}, {"disable_warp_specialized": 1}])
def test_operands_that_a_loop_keeps_in_registers(schedule):
    # with two consumers and one stage, ptxas 13.0 gave P the registers of Q_l before gemms renewed these
    torch = pytest.importorskip("torch")
    configs = {f"tl.{name}": value for name, value in schedule.items()}
    kernel = tilelang.compile(attention(), out_idx=[3], target="cuda", pass_configs=configs)
    torch.manual_seed(0)
    q, k, v = (torch.randint(-2, 3, (rows, 64), device="cuda").half() for rows in (64, 192, 192))
    want = (q.double() @ k.double().T @ v.double()).float()
    for _ in range(RUNS):
        assert torch.equal(want, kernel(q, k, v))
