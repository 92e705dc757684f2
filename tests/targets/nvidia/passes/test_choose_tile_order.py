"""The order in which persistent blocks take tiles that take different times."""

import numpy as np
import pytest
from specialized import TABLE, launch_of, warp_specialize

import tilelang.language as T
from tilelang.ir.evaluate import evaluate
from tilelang.ir.stmt import Bind
from tilelang.passes.tile import inline_bindings
from tilelang.targets.nvidia.passes.choose_schedule import choose_schedule
from tilelang.targets.nvidia.passes.persist_grid import persist


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


def taken(func):
    """The indices of all tiles, in the order in which blocks take them."""
    made = scheduled(func)
    grid = [int(evaluate(extent, {})) for extent in launch_of(made).grid]
    names = launch_of(made).block_vars
    launch = launch_of(persist(made, 1))
    (block,), (loop,) = launch.block_vars, launch.body.body
    turns = np.arange(int(evaluate(loop.stop, {block: 0})), dtype=np.int64)
    env = {block: np.zeros_like(turns), loop.var: turns}
    for bind in (s for s in loop.body.body if isinstance(s, Bind)):
        env[bind.var] = evaluate(bind.value, env)
    indices = [np.broadcast_to(env[name], turns.shape) for name in names]
    assert sorted(np.ravel_multi_index(indices, grid)) == list(range(int(np.prod(grid))))
    return indices


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_the_heaviest_tiles_of_a_group_come_first_whichever_dimension_differs(axis):
    func = scores(3, 10, 2048, block_M=64, axis=axis)
    order = order_of(func)
    assert (order.axis, order.descending, order.tiles) == (axis, True, 30 * 32)
    found = taken(func)[axis][: order.group * 32]
    assert (np.diff(found) <= 0).all() and found[0] == 31


def test_a_group_that_is_smaller_than_others_comes_first():
    func = scores(4, 5, 16384, block_N=64)  # 20 heads of 4 MB
    assert order_of(func).group == 7
    rows, heads, batches = taken(func)
    assert {(batches[n], heads[n]) for n in range(6 * 128)} == {(2, 4)} | {(3, n) for n in range(5)}
    assert rows[0] == rows[6 * 128] == 127


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


def test_the_order_is_explained():
    text = str(launch_of(scheduled(scores(4, 32, 4096, block_M=64))).plan.schedule)
    assert "heaviest first (descending x) in groups of 32 along the other dimensions" in text
