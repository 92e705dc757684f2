"""Blocks are walked in panels, each tile exactly once, and what is known of block indices stays known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tilelang.language as T
from tilelang.arith.domain import of_function
from tilelang.arith.prove import proves
from tilelang.dtypes import INT32
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Var, const
from tilelang.ir.stmt import Bind, Launch, LaunchHints, Seq
from tilelang.ir.verify import verify
from tilelang.ir.visit import walk
from tilelang.passes.base import PassContext
from tilelang.passes.tile.rasterize_grid import PASS, rasterized
from tilelang.sim.tile_interp import run_reference


def launch(extents, panel, order):
    names = [Var(name, INT32, index=True) for name in ("bx", "by", "bz")[: len(extents)]]
    grid = tuple(const(e, INT32) for e in extents)
    return Launch(tuple(names), grid, (128, 1, 1), Seq(()), LaunchHints(swizzle=(panel, order)))


def visited(node, extents):
    """The user's indices of each block, in the order in which blocks start."""
    places = []
    ranges = [range(e) for e in extents]
    for z in ranges[2] if len(extents) == 3 else (0,):
        for y in ranges[1]:
            for x in ranges[0]:
                env = dict(zip(node.block_vars, (x, y, z), strict=False))
                for bind in node.body.body:
                    env[bind.var] = evaluate(bind.value, env)
                named = {v.name: value for v, value in env.items()}
                places.append(tuple(int(named[n]) for n in ("bx", "by", "bz")[: len(extents)]))
    return places


@given(
    st.lists(st.integers(0, 13), min_size=2, max_size=3),
    st.integers(1, 6),
    st.sampled_from(["row", "column"]),
)
def test_every_block_of_the_grid_is_visited_exactly_once(extents, panel, order):
    places = visited(rasterized(launch(extents, panel, order)), extents)
    assert len(places) == len(set(places)) == int(np.prod(extents))
    assert all(0 <= c < e for place in places for c, e in zip(place, extents, strict=True))


def test_a_panel_of_rows_is_walked_column_by_column():
    places = visited(rasterized(launch((3, 5), 2, "row")), (3, 5))
    assert [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1), (0, 2)] == places[:7]
    assert [(0, 4), (1, 4), (2, 4)] == places[-3:]  # the last panel has one row


def test_a_panel_of_columns_is_walked_row_by_row():
    places = visited(rasterized(launch((5, 3), 2, "column")), (5, 3))
    assert [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2), (2, 0)] == places[:7]


@pytest.mark.parametrize("extents", [(7,), (7, 5)])
def test_grids_without_panels_stay_as_they_are(extents):
    node = launch(extents, 4, "row")
    if len(extents) == 2:
        node = Launch(node.block_vars, node.grid, node.threads, node.body)
    assert rasterized(node) is node


def doubled(panel, order, m=None, n=None):
    M = T.dynamic("M") if m is None else m
    N = T.dynamic("N") if n is None else n

    @T.prim_func
    def main(A: T.Tensor((M, N), "int32"), B: T.Tensor((M, N), "int32")):
        with T.Kernel(T.ceildiv(N, 4), T.ceildiv(M, 8)) as (bx, by):
            T.use_swizzle(panel, order=order)
            for i, j in T.Parallel(8, 4):
                B[by * 8 + i, bx * 4 + j] = 2 * A[by * 8 + i, bx * 4 + j]

    return main


@pytest.mark.parametrize("order", ["row", "column"])
@pytest.mark.parametrize("shape", [(0, 9), (9, 0), (33, 17), (8, 4), (70, 5)])
def test_kernels_of_any_size_mean_the_same_as_before(shape, order):
    func = PASS.run(doubled(3, order), PassContext())
    a = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
    b = np.zeros_like(a)
    run_reference(func, [a, b])
    np.testing.assert_array_equal(2 * a, b)


@pytest.mark.parametrize("order", ["row", "column"])
@pytest.mark.parametrize("sizes", [(None, None), (800, 360), (T.dynamic("M", "int64"), T.dynamic("N", "int64"))])
def test_indices_are_known_to_lie_in_the_grid(order, sizes):
    func = PASS.run(doubled(4, order, *sizes), PassContext())
    verify(func)
    (node,) = (s for s in walk(func.body) if isinstance(s, Launch))
    domain = of_function(func)
    for var, extent in zip(node.block_vars, node.grid, strict=True):
        domain = domain.with_loop(var, 0, extent)
    names: dict[str, Var] = {}
    for stmt in node.body.body:
        if isinstance(stmt, Bind):
            names[stmt.var.name] = stmt.var
            domain = domain.with_value(stmt.var, stmt.value)
    width, height = node.grid
    n, m = func.params[0].shape[1], func.params[0].shape[0]
    for var, extent, size, tile in ((names["bx"], width, n, 4), (names["by"], height, m, 8)):
        assert proves(var >= 0, domain)
        assert proves(var < extent, domain)
        assert proves(var * tile < size, domain)
