"""The order of blocks on GPUs of several dies: each die gets neighbors, and every block runs once."""

import numpy as np
import pytest
from gpu import assert_simulates, lower_func

import tilelang.language as T
from tilelang.ir.printer import to_text
from tilelang.passes.base import PassContext
from tilelang.targets.amd.machines import XCDS
from tilelang.targets.amd.passes import remap_xcds
from tilelang.targets.target import Target


def numbered(*grid, gemm=True):
    """Every block counts itself in an element of its own."""

    @T.prim_func
    def main(A: T.Tensor((16, 16), "float16"), B: T.Tensor(grid[::-1], "float32")):
        with T.Kernel(*grid, threads=64) as blocks:
            a, c = T.alloc_shared((16, 16), "float16"), T.alloc_fragment((16, 16), "float32")
            T.copy(A, a)
            T.clear(c)
            if gemm:
                T.gemm(a, a, c)
            for i, j in T.Parallel(16, 16):
                if i + j == 0:
                    B[(blocks,) if len(grid) == 1 else tuple(reversed(blocks))] += c[i, j] + 1

    return main


@pytest.mark.slow(every=12)
@pytest.mark.parametrize("grid", [(4, 4), (5, 7), (3, 2, 5), (1, 3, 4), (9, 1, 3)])
@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_every_block_runs_once(arch, grid):
    main = numbered(*grid)
    assert "start_x" in to_text(lower_func(main, arch).body)
    assert_simulates(main, np.zeros((16, 16), np.float16), np.zeros(grid[::-1], np.float32), arch=arch, seeds=(0,))


def test_a_die_gets_successive_blocks():
    width, height = 5, 7
    total = width * height
    started = np.arange(total)
    die = started % XCDS
    block = die * (total // XCDS) + np.minimum(die, total % XCDS) + started // XCDS
    assert sorted(block) == list(started)
    assert all((np.diff(block[die == each]) == 1).all() for each in range(XCDS))
    text = to_text(remap_xcds.PASS.run(numbered(width, height), PassContext(target=Target("hip", "gfx942"))).body)
    assert "started = start_x + start_y * 5" in text
    assert "block = T.min(started % 8 * 4 + T.min(started % 8, 3) + started // 8, 34)" in text
    assert "= block % 5" in text and "= T.min(block // 5, 6)" in text


@pytest.mark.parametrize(
    ("arch", "main"),
    [
        ("gfx90a", numbered(4, 4)),  # one die
        ("gfx1100", numbered(4, 4)),
        ("gfx942", numbered(4, 2)),  # a block for each die
        ("gfx942", numbered(32)),
        ("gfx942", numbered(32, 1)),
        ("gfx942", numbered(4, 4, gemm=False)),
    ],
)
def test_other_launches_keep_their_order(arch, main):
    assert main is remap_xcds.PASS.run(main, PassContext(target=Target("hip", arch)))


def test_it_follows_a_rasterization():
    @T.prim_func
    def main(A: T.Tensor((64, 32), "float16"), B: T.Tensor((32, 80), "float16"), C: T.Tensor((64, 80), "float32")):
        with T.Kernel(5, 4, threads=64) as (bx, by):
            T.use_swizzle(2)
            a, b = T.alloc_shared((16, 32), "float16"), T.alloc_shared((32, 16), "float16")
            c = T.alloc_fragment((16, 16), "float32")
            T.copy(A[by * 16, 0], a)
            T.copy(B[0, bx * 16], b)
            T.clear(c)
            T.gemm(a, b, c)
            T.copy(c, C[by * 16, bx * 16])

    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, shape).astype(np.float16) for shape in ((64, 32), (32, 80)))
    assert_simulates(main, a, b, np.zeros((64, 80), np.float32), arch="gfx942", seeds=(0,))
