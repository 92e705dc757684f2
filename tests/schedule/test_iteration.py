"""Iterations of pipelined loops: which iteration each stage is in at a time, and the names and versions of its statements."""

import pytest

import tilelang.language as T
from tilelang.ir.evaluate import evaluate
from tilelang.ir.printer import to_text
from tilelang.ir.stmt import Bind, For
from tilelang.ir.visit import accessed_buffers, walk
from tilelang.schedule.iteration import Iteration, iteration_number, time_within, times_before, versions_in
from tilelang.schedule.loop_body import LoopBody
from tilelang.transforms.versions import versioned


@T.prim_func
def stepping(n: T.int32, C: T.Tensor((64,), "float32")):
    with T.Kernel(1, threads=32):
        for i in T.serial(2, 11, 3):
            C[i] = 0
        for i in T.serial(9, -1, -4):
            C[i] = 0
        for i in T.serial(n, 60, 2):
            C[i] = 0


@T.prim_func
def kernel(A: T.Tensor((8, 64), "float32"), index: T.Tensor((8,), "int32"), C: T.Tensor((8, 8), "float32")):
    with T.Kernel(1, threads=32):
        tile = T.alloc_shared((8, 8), "float32")
        for k in T.Pipelined(8, num_stages=2):
            row = index[k]
            column = row * 2
            T.copy(A[0, k * 8], tile)
            T.clear(C)
            for i, j in T.Parallel(8, 8):
                C[i, j] = tile[i, j] + T.float32(column)


BODY = LoopBody(next(s for s in walk(kernel.body) if isinstance(s, For)))
LOOPS = [s for s in walk(stepping.body) if isinstance(s, For)]
VALUES = [[2, 5, 8], [9, 5, 1], [7, 9, 11]]
N = dict.fromkeys((param.var for param in stepping.params if hasattr(param, "var")), 7)


@pytest.mark.parametrize("loop,values", [*zip(LOOPS, VALUES, strict=True)])
def test_iterations_are_counted_from_zero(loop, values):
    assert [0, 1, 2] == [evaluate(iteration_number(loop), {**N, loop.var: value}) for value in values]
    assert 2 == evaluate(iteration_number(loop, loop.var + 2 * loop.step), {**N, loop.var: values[0]})


@pytest.mark.parametrize("loop,values", [*zip(LOOPS, VALUES, strict=True)])
def test_a_stage_is_an_iteration_behind_the_one_before(loop, values):
    first, second = times_before(loop, 2)
    assert {0: values[0]} == {stage: evaluate(value, N) for stage, value in first.items()}
    assert {0: values[1], 1: values[0]} == {stage: evaluate(value, N) for stage, value in second.items()}
    within = time_within(loop, 2)
    assert loop.var is within[2]
    at = {**N, loop.var: values[0]}
    assert {0: values[2], 1: values[1], 2: values[0]} == {stage: evaluate(value, at) for stage, value in within.items()}


def statements(iteration, *numbers):
    return [s for n in numbers for s in (*iteration.bindings(n), iteration.moved(BODY.statements[n]))]


def test_each_iteration_binds_names_of_its_own_once():
    twice = [statements(Iteration(BODY, BODY.loop.var + ahead, {}), 2, 2) for ahead in (1, 2)]
    bound = [[s.var for s in each if isinstance(s, Bind)] for each in twice]
    assert [["row", "column"]] * 2 == [[var.name for var in each] for each in bound]
    assert set(bound[0]).isdisjoint(bound[1])
    assert "index[k + 2]" == to_text(next(s.value for s in twice[1] if isinstance(s, Bind)))


def test_in_place_statements_and_names_stay_as_they_are():
    iteration = Iteration(BODY, BODY.loop.var, {}, in_place=[1, 2])
    made = statements(iteration, 1, 2)
    assert ["row", "column"] == [s.var.name for s in made[:2]]  # before the first statement behind them
    assert list(BODY.statements[1:]) == made[2:]
    assert [BODY.bind(s.var).var for s in made[:2]] == [s.var for s in made[:2]]


def test_an_iteration_uses_its_version():
    tile = next(buffer for buffer in BODY.storages if buffer.name == "tile")
    three = versioned(tile, 3)
    versions = versions_in(BODY.loop, BODY.loop.var + 2, {tile: three})
    moved = Iteration(BODY, BODY.loop.var + 2, versions).moved(BODY.statements[0])
    assert three in accessed_buffers(moved) and tile not in accessed_buffers(moved)
    assert "(k + 2) % 3" == to_text(moved.dst.start[0])
