"""Statements of `T.online_softmax` stand where the user places those of the step that compute the same tiles."""

import dataclasses

import attention_programs
import pytest
from specialized import launch_of

from tilelang.analysis.accesses import storages
from tilelang.analysis.softmax_step import softmax_step
from tilelang.ir.sequences import effectful, flat_statements
from tilelang.ir.stmt import Alloc, For
from tilelang.ir.visit import walk
from tilelang.lowering.regions import whole
from tilelang.ops.online_softmax import OnlineSoftmax
from tilelang.transforms.placed_softmax import with_placed_step

# K, clear, gemm, V, copy of the maxima, search, factors, exponentials, sum, sums, conversion, rescaling, gemm
IN_ORDER, ONE_STAGE = [*range(13)], [0] * 13


def placed(order, stage):
    func = attention_programs.flash(1, 128, 64, 64, 64, places=(order, stage))
    (loop,) = (s for s in walk(launch_of(func).body) if isinstance(s, For) and s.pipeline is not None)
    step = softmax_step(loop)
    tiles = map(whole, (step.scores, step.output, step.maximum, step.total))
    operator = OnlineSoftmax(*tiles, step.scale, whole(step.converted))
    return with_placed_step(loop, loop, {s: s for s in flat_statements(loop.body)}, step, operator)


def places(loop):
    """The stage and the position of the statements that write some tiles."""
    found = {}
    for number, stmt in enumerate(effectful(loop.body)):
        for tile in storages(stmt).written:
            found.setdefault(tile.name, []).append((loop.pipeline.stage[number], loop.pipeline.order[number]))
    return found


def test_a_step_in_one_run_stays_together_in_the_order_of_the_program():
    allocations, loop = placed(IN_ORDER, ONE_STAGE)
    assert ["scores_max", "scores_exponent"] == [each.buffer.name for each in allocations]
    assert not any(isinstance(stmt, Alloc) for stmt in flat_statements(loop.body))
    count = len(effectful(loop.body))
    assert (tuple(range(count)), (0,) * count) == (loop.pipeline.order, loop.pipeline.stage)


def test_what_another_stage_computes_is_computed_there():
    rescaling = [0, 1, 2, 3, *range(6, 13), 4, 5], [*ONE_STAGE[:11], 1, 1]
    found = places(placed(*rescaling)[1])
    assert [(1, 4), (1, 6)] == found["sums"]  # and the gemm
    assert [(1, 5)] == found["top"]  # a reference moves where the output is rescaled
    assert {0} == {stage for name in ("scores", "weights", "total") for stage, _ in found[name]}


def test_parts_between_which_others_stand_keep_apart():
    amidst = [0, 1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 12, 7], [*ONE_STAGE[:12], 1]  # the last gemm behind the factors
    found = places(placed(*amidst)[1])
    gemm = found["sums"][-1]
    assert max(found["scores_max"]) < (0, gemm[1]) < min(found["weights"])
    assert 1 == gemm[0]


@pytest.mark.parametrize(("order", "stage"), [(IN_ORDER[:-1], ONE_STAGE), ([-1, *IN_ORDER[:-1]], ONE_STAGE)])
def test_places_that_leave_statements_out_are_none(order, stage):
    assert placed(order, stage) is None


def test_parts_of_statements_count_as_their_originals():
    func = attention_programs.flash(1, 128, 64, 64, 64, places=(IN_ORDER, ONE_STAGE))
    (loop,) = (s for s in walk(launch_of(func).body) if isinstance(s, For) and s.pipeline is not None)
    copies = {stmt: dataclasses.replace(stmt) for stmt in flat_statements(loop.body)}
    parted = dataclasses.replace(loop, body=dataclasses.replace(loop.body, body=tuple(copies.values())))
    step = softmax_step(parted)
    tiles = map(whole, (step.scores, step.output, step.maximum, step.total))
    operator = OnlineSoftmax(*tiles, step.scale, whole(step.converted))
    _, made = with_placed_step(loop, parted, {new: old for old, new in copies.items()}, step, operator)
    assert places(placed(IN_ORDER, ONE_STAGE)[1]) == places(made)
