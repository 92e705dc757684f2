"""Blocks that stay work on each tile of the grid exactly once, and what is known of block indices stays known."""

from hypothesis import given
from hypothesis import strategies as st
from roles import TABLE, launch_of, product, split

import tilelang.language as T
from tilelang.arith.domain import of_function
from tilelang.arith.prove import proves
from tilelang.dtypes import INT32
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Var, const
from tilelang.ir.schedule import Schedule
from tilelang.ir.stmt import Bind, For, Launch, Seq
from tilelang.passes.base import PassContext
from tilelang.passes.tile import inline_bindings
from tilelang.passes.tile.choose_schedule import choose_schedule
from tilelang.passes.tile.persist_grid import PASS, persist, persistent
from tilelang.target import Target


def visited(extents, panel, blocks):
    """The user's indices of each tile, block after block."""
    names = [Var(name, INT32, index=True) for name in ("bx", "by", "bz")[: len(extents)]]
    grid = tuple(const(e, INT32) for e in extents)
    node = persistent(Launch(tuple(names), grid, (128, 1, 1), Seq(())), Schedule(2, 3, panel=panel), blocks)
    ((count,), (block,), (loop,)) = node.grid, node.block_vars, node.body.body
    assert isinstance(loop, For)
    places = []
    for number in range(int(evaluate(count, {}))):
        for turn in range(int(evaluate(loop.stop, {block: number}))):
            env = {block: number, loop.var: turn}
            for bind in loop.body.body:
                env[bind.var] = evaluate(bind.value, env)
            places.append(tuple(int(env[name]) for name in names))
    return places


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=3),
    st.sampled_from([None, (1, "row"), (4, "row"), (3, "column")]),
    st.integers(1, 40),
)
def test_every_tile_is_worked_on_exactly_once(extents, panel, blocks):
    places = visited(extents, panel, blocks)
    assert sorted(places) == sorted({*places})
    total = 1
    for extent in extents:
        total *= extent
    assert total == len(places)
    assert all(0 <= c < e for place in places for c, e in zip(place, extents, strict=True))


def test_one_block_walks_row_by_row_or_in_panels():
    assert [(0, 0), (1, 0), (2, 0), (0, 1)] == visited((3, 4), None, 1)[:4]
    assert [(0, 0), (0, 1), (1, 0), (1, 1)] == visited((3, 4), (2, "row"), 1)[:4]


def test_indices_are_visibly_within_a_symbolic_grid():
    M, N = T.dynamic("M"), 4096
    func = product(M, N, 256)
    ((width, height), variables) = launch_of(func).grid, launch_of(func).block_vars
    func = persist(split(func, passes=(inline_bindings.PASS, choose_schedule(TABLE))), 132)
    launch = launch_of(func)
    (block,), (count,) = launch.block_vars, launch.grid
    (loop,) = launch.body.body
    domain = of_function(func).with_loop(block, 0, count)
    for bind in (s for s in loop.body.body if isinstance(s, Bind)):
        domain = domain.with_value(bind.var, bind.value)
    for var, extent in zip(variables, (width, height), strict=True):
        assert proves(var < extent, domain)


def test_launches_without_a_schedule_stay_as_they_are():
    func = product(4096, 4096, 4096)
    for target in (Target("cpu"), Target("cuda", "sm_90a"), Target("cuda", "sm_80")):
        assert PASS.run(func, PassContext(target=target)) is func
