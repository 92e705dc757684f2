import numpy as np

from tilelang.sim.block import Block, Grid
from tilelang.sim.clocks import Clocks
from tilelang.sim.clusters import Cluster
from tilelang.sim.proxies import Proxies
from tilelang.targets.machine import Machine


def blocks(count, threads):
    clocks = Clocks(threads, count, warp_size=32)
    cluster, grid = Cluster((count, 1, 1), clocks), Grid(Proxies(clocks), None)
    made = [
        Block(
            (n,), grid, cluster, threads,
            machine=Machine("warps", warp_size=32), clocks=clocks, window=None, buffers=(), lazy=True, counters=None, printer=print,
        )
        for n in range(count)
    ]  # fmt: skip
    return made, cluster


def test_blocks_are_numbered_in_the_order_of_beginning():
    made, cluster = blocks(3, 48)
    assert [0, 1, 2] == [block.rank for block in made]
    assert made == cluster.blocks


def test_state_belongs_to_one_block():
    (first, second), cluster = blocks(2, 32)
    first.state("names", list).append("x")
    assert (["x"], []) == (first.state("names", list), second.state("names", list))


def test_threads_of_a_block_meet_without_those_of_others():
    (first, second), _ = blocks(2, 48)
    clocks = first.clocks
    before = clocks.now
    clocks.tick()
    for warp in (0, 1):
        list(zip(second.barriers.barrier_sync(0, warp, None, None), [0], strict=False))
    assert 1 == second.barriers.full_syncs
    there, here, time = np.array([64 + 40]), np.array([64]), np.array([before])
    assert clocks.happened_before(there, here, time).all()
    assert not clocks.happened_before(np.array([0]), here, time).any()
