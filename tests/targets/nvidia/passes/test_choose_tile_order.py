"""Persistent blocks get equal shares of tiles that take different times."""

import numpy as np
import pytest
from specialized import TABLE, launch_of, warp_specialize

import tilelang.language as T
from tilelang.ir.evaluate import evaluate
from tilelang.ir.stmt import Bind
from tilelang.passes.tile import inline_bindings
from tilelang.targets.nvidia.passes.choose_schedule import choose_schedule
from tilelang.targets.nvidia.passes.choose_tile_order import imbalance
from tilelang.targets.nvidia.passes.persist_grid import persist
from tilelang.targets.nvidia.schedule import TileOrder

BLOCKS = 132


def scores(batch, heads, length, dim=128, block_M=128, block_N=128, *, causal=True, share=1, window=None, axis=0):
    """The sums of the rows of Q K^T: only those of keys that queries see, where causal."""
    rows = -(-length // block_M)
    grid = [heads, batch]
    grid.insert(axis, rows)

    @T.prim_func
    def main(Q: T.Tensor((batch, heads, length, dim), "float16"),
             K: T.Tensor((batch, heads // share, length, dim), "float16"),
             O: T.Tensor((batch, heads, length, block_N), "float32")):
        with T.Kernel(*grid, threads=128) as indices:
            rest = [index for number, index in enumerate(indices) if number != axis]
            row, head, bz = indices[axis], rest[0], rest[1]
            Q_s = T.alloc_shared((block_M, dim), "float16")
            K_s = T.alloc_shared((block_N, dim), "float16")
            S = T.alloc_fragment((block_M, block_N), "float32")
            T.copy(Q[bz, head, row * block_M, 0], Q_s)
            T.clear(S)
            seen = T.min(T.ceildiv(length, block_N), T.ceildiv((row + 1) * block_M, block_N))
            first = 0 if window is None else T.max(row * block_M - window, 0) // block_N
            for k in T.Pipelined(first, seen if causal else T.ceildiv(length, block_N), num_stages=2):
                T.copy(K[bz, head // share, k * block_N, 0], K_s)
                T.gemm(Q_s, K_s, S, transpose_B=True)
            T.copy(S, O[bz, head, row * block_M, 0])

    return main


def scheduled(func, **configs):
    return warp_specialize(func, passes=(inline_bindings.PASS, choose_schedule(TABLE)), **configs)


def order_of(func, **configs):
    return launch_of(scheduled(func, **configs)).plan.schedule.tile_order


def shares(func, axis, work):
    """The work of each block: what `work` gives for an index along an axis, summed over its tiles; and all tiles."""
    made = scheduled(func)
    grid = [int(evaluate(extent, {})) for extent in launch_of(made).grid]
    names = launch_of(made).block_vars
    launch = launch_of(persist(made, BLOCKS))
    (block,), (loop,) = launch.block_vars, launch.body.body
    binds = [s for s in loop.body.body if isinstance(s, Bind)]
    total, seen = [], []
    for number in range(BLOCKS):
        turns = np.arange(int(evaluate(loop.stop, {block: number})), dtype=np.int64)
        env = {block: np.full_like(turns, number), loop.var: turns}
        for bind in binds:
            env[bind.var] = evaluate(bind.value, env)
        indices = [np.broadcast_to(env[name], turns.shape) for name in names]
        seen.append(np.ravel_multi_index(indices, grid))
        total.append(int(np.sum(work(indices[axis]))))
    assert sorted(np.concatenate(seen)) == list(range(int(np.prod(grid))))
    return np.array(total)


@pytest.mark.parametrize(
    ("batch", "heads", "length", "block_M", "block_N"),
    [(4, 32, 4096, 128, 128), (4, 32, 4096, 192, 64), (4, 32, 4096, 192, 128), (2, 32, 16384, 128, 128)],
)
def test_blocks_get_equal_shares_of_causal_tiles(batch, heads, length, block_M, block_N):
    func = scores(batch, heads, length, block_M=block_M, block_N=block_N)

    def work(row):
        return np.minimum(-(-length // block_N), -(-(row + 1) * block_M // block_N))

    found = shares(func, 0, work)
    assert found.max() <= 1.05 * found.mean()


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_every_tile_is_computed_once_whichever_dimension_differs(axis):
    func = scores(3, 10, 2048, block_M=64, axis=axis)
    order = order_of(func)
    assert (order.axis, order.descending) == (axis, True)
    assert shares(func, axis, lambda row: row + 1).sum() == 30 * sum(range(1, 33))


def test_groups_of_heads_fit_in_the_cache():
    assert order_of(scores(4, 32, 4096)).group == 32  # 1 MB of keys each
    assert order_of(scores(4, 32, 16384, block_N=64)).group == 8
    assert order_of(scores(4, 32, 16384, share=4)).group >= 32


def test_grids_of_equal_tiles_keep_their_order():
    assert order_of(scores(4, 32, 4096, causal=False)) is None
    assert order_of(scores(1, 8, 512)) is None  # fewer tiles than blocks
    assert order_of(scores(4, 32, T.dynamic("length"))) is None


def test_a_sliding_window_has_its_short_tiles_last():
    order = order_of(scores(4, 32, 4096, window=1024))
    assert order.descending


def test_shares_are_those_of_blocks_that_walk_the_order():
    order = TileOrder(0, 2, True, snake=False)
    # tiles 3 3 1 1 3 1 for three heads, rounds of two blocks: (3, 3), (1, 1), (3, 1)
    assert imbalance(order, np.array([3, 1]), 3, 2) == 7 / 6
    assert imbalance(TileOrder(0, 2, True, snake=True), np.array([3, 1]), 3, 4) == 4 / 3


def test_the_order_is_explained():
    text = str(launch_of(scheduled(scores(4, 32, 4096, block_M=64))).plan.schedule)
    assert "heaviest first (descending x) in groups of 32 along the other dimensions" in text
