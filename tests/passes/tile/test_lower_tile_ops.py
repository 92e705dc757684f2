"""Tile operators become loops and calls of the target's table; parallel and pipelined loops become serial ones."""

import pytest

import tilelang.language as T
from tilelang.errors import CompilerBug
from tilelang.ir.func import Level
from tilelang.ir.stmt import For, ForKind, ParallelLoop, TileOp
from tilelang.ir.visit import walk
from tilelang.passes.runner import run_passes
from tilelang.passes.tile.choose_lowerings import choose_lowerings
from tilelang.passes.tile.lower_tile_ops import lower_tile_ops
from tilelang.targets.cpu.backend import LOWERINGS


@T.prim_func
def add_one(A: T.Tensor((8, 4), "float32")):
    with T.Kernel(2) as bx:
        s = T.alloc_shared((4, 4), "float32")
        for _ in T.Pipelined(2, num_stages=2):
            T.copy(A[bx * 4, 0], s)
            for i, j in T.Parallel(4, 4):
                A[bx * 4 + i, j] = s[i, j] + 1.0


def test_nothing_of_the_tile_level_is_left():
    lowered = run_passes(add_one, (choose_lowerings(LOWERINGS), lower_tile_ops(LOWERINGS)))
    assert Level.THREAD is lowered.level
    assert not [s for s in walk(lowered.body) if isinstance(s, TileOp | ParallelLoop)]
    assert {ForKind.SERIAL} == {s.kind for s in walk(lowered.body) if isinstance(s, For)}


def test_lowered_statements_keep_the_line_of_their_operator():
    lowered = run_passes(add_one, (choose_lowerings(LOWERINGS), lower_tile_ops(LOWERINGS)))
    loops = {s.loc.line for s in walk(lowered.body) if isinstance(s, For)}
    assert 3 == len(loops)


def test_a_parallel_loop_has_no_loops_of_one_iteration():
    @T.prim_func
    def func(A: T.Tensor((1, 4, 1), "float32")):
        with T.Kernel(1):
            for i, j, k in T.Parallel(1, 4, 1):
                A[i, j, k] = A[i, j, k] + 1.0

    lowered = run_passes(func, (lower_tile_ops(LOWERINGS),))
    assert ["j"] == [s.var.name for s in walk(lowered.body) if isinstance(s, For)]


def test_an_operator_whose_lowering_nobody_chose_is_our_fault():
    with pytest.raises(CompilerBug, match="T.copy: there is no lowering ''"):
        run_passes(add_one, (lower_tile_ops(LOWERINGS),))
