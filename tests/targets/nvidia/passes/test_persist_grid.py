"""Blocks that stay work on each tile of the grid exactly once, and what is known of block indices stays known."""

import itertools
import math

from hypothesis import given
from hypothesis import strategies as st
from specialized import TABLE, gemm_kernel, launch_of, warp_specialize

import tilelang.language as T
from tilelang.arith.domain import of_function
from tilelang.arith.prove import proves
from tilelang.dtypes import INT32
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Var, const
from tilelang.ir.stmt import Bind, For, Launch, Seq
from tilelang.passes.base import PassContext
from tilelang.passes.tile import inline_bindings
from tilelang.targets.nvidia.passes.choose_schedule import choose_schedule
from tilelang.targets.nvidia.passes.persist_grid import PASS, persist, persistent
from tilelang.targets.nvidia.schedule import Schedule
from tilelang.targets.target import Target


def visited(extents, panel, blocks, cluster=(1, 1, 1)):
    """The user's indices of each tile, block after block, one turn after another."""
    names = [Var(name, INT32, index=True) for name in ("bx", "by", "bz")[: len(extents)]]
    grid = tuple(const(e, INT32) for e in extents)
    schedule = Schedule(2, 3, panel=panel, cluster=cluster)
    node = persistent(Launch(tuple(names), grid, (128, 1, 1), Seq(())), schedule, blocks)
    ((count,), (block,), (loop,)) = node.grid, node.block_vars, node.body.body
    assert isinstance(loop, For)
    assert (math.prod(cluster), 1, 1) == node.hints.cluster
    places = []
    for number in range(int(evaluate(count, {}))):
        places.append([])
        for turn in range(int(evaluate(loop.stop, {block: number}))):
            env = {block: number, loop.var: turn}
            for bind in loop.body.body:
                env[bind.var] = evaluate(bind.value, env)
            places[-1].append(tuple(int(env[name]) for name in names))
    return places


PANELS = st.sampled_from([None, (1, "row"), (4, "row"), (3, "column")])


@given(st.lists(st.integers(1, 9), min_size=1, max_size=3), PANELS, st.integers(1, 40))
def test_every_tile_is_worked_on_exactly_once(extents, panel, blocks):
    places = list(itertools.chain(*visited(extents, panel, blocks)))
    assert sorted(places) == sorted(itertools.product(*map(range, extents)))


@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(1, 3)), min_size=1, max_size=3), PANELS, st.integers(1, 40)
)
def test_blocks_of_a_cluster_work_on_neighboring_tiles_at_the_same_time(sides, panel, blocks):
    sizes = (*(size for _, size in sides), 1, 1)[:3]
    extents, size = [count * size for count, size in sides], math.prod(sizes)
    found = visited(extents, panel, blocks, sizes)
    assert sorted(itertools.chain(*found)) == sorted(itertools.product(*map(range, extents)))
    assert len(found) % size == 0 and len(found) <= max(blocks, size)
    for first in range(0, len(found), size):
        for together in zip(*found[first : first + size], strict=True):
            for rank, place in enumerate(together):
                at = (rank % sizes[0], rank // sizes[0] % sizes[1], rank // (sizes[0] * sizes[1]))
                corner = [c // by * by for c, by in zip(together[0], sizes, strict=False)]
                assert place == tuple(c + a for c, a in zip(corner, at, strict=False))


def test_one_block_walks_row_by_row_or_in_panels():
    assert [(0, 0), (1, 0), (2, 0), (0, 1)] == visited((3, 4), None, 1)[0][:4]
    assert [(0, 0), (0, 1), (1, 0), (1, 1)] == visited((3, 4), (2, "row"), 1)[0][:4]


def test_indices_are_visibly_within_a_symbolic_grid():
    M, N = T.dynamic("M"), 4096
    func = gemm_kernel(M, N, 256)
    ((width, height), variables) = launch_of(func).grid, launch_of(func).block_vars
    func = persist(warp_specialize(func, passes=(inline_bindings.PASS, choose_schedule(TABLE))), 132)
    launch = launch_of(func)
    (block,), (count,) = launch.block_vars, launch.grid
    (loop,) = launch.body.body
    domain = of_function(func).with_loop(block, 0, count)
    for bind in (s for s in loop.body.body if isinstance(s, Bind)):
        domain = domain.with_value(bind.var, bind.value)
    for var, extent in zip(variables, (width, height), strict=True):
        assert proves(var < extent, domain)


def test_launches_without_a_schedule_stay_as_they_are():
    func = gemm_kernel(4096, 4096, 4096)
    for target in (Target("cpu"), Target("cuda", "sm_90a"), Target("cuda", "sm_80")):
        assert PASS.run(func, PassContext(target=target)) is func
