"""Steps of `T.online_softmax` in loops whose statements the user places.

Takes a loop with a step of a softmax, and the operator that does it; gives the loop with the operator's statements,
each in the place of that one of the step that computes the same tile. Runs of statements of which the user says no more
than the order of the program (`statement_places.py`) take what belongs to them of the operator as a whole. Invariant:
the loop computes the same if its places keep the dependences of the new statements, which the caller checks.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from tilelang.analysis.accesses import storages
from tilelang.analysis.softmax_step import SoftmaxStep
from tilelang.ir.builder import Builder
from tilelang.ir.sequences import effectful, flat_statements
from tilelang.ir.stmt import Alloc, For, Seq, Stmt
from tilelang.lowering.library.online_softmax import expand_online_softmax
from tilelang.ops.online_softmax import OnlineSoftmax
from tilelang.transforms.statement_places import by_hand, placed_at, runs


def with_placed_step(
    node: For, loop: For, origins: Mapping[Stmt, Stmt], step: SoftmaxStep, operator: OnlineSoftmax
) -> tuple[list[Alloc], For] | None:
    """Allocations, and the loop with the operator's statements; None if the user does not place all of them.

    Args:
        node: The loop that the user places.
        loop: The same with the statements of the step as `softmax_step` found them.
        origins: For each statement of `loop`, that of `node` that it is a part of.
        step: The step.
        operator: The operator.
    """
    counted = effectful(node.body)
    assert node.pipeline is not None
    placement = by_hand(node.pipeline, len(counted))
    if placement is None:
        return None
    numbers = {stmt: number for number, stmt in enumerate(counted)}
    run_of = runs(placement, counted)
    ends: dict[int | None, int] = {}  # the position of the last statement of the step in each run
    for stmt in step.statements:
        number = numbers[origins[stmt]]
        ends[run_of[number]] = max(placement.order[number], ends.get(run_of[number], 0))
    build = Builder(operator.loc)
    expand_online_softmax(operator, build)
    body: list[Stmt] = []
    places: list[tuple[int, int]] = []
    for stmt in flat_statements(loop.body):
        if stmt is step.last:
            for made in build.statements:
                if not isinstance(made, Alloc):
                    number = numbers[origins[_counterpart(made, step)]]
                    body.append(made)
                    places.append((placement.stage[number], ends[run_of[number]]))
        elif stmt not in step.statements:
            body.append(stmt)
            if (number := numbers.get(origins[stmt], -1)) >= 0:
                places.append((placement.stage[number], placement.order[number]))
    placed = placed_at(places)
    pipeline = dataclasses.replace(node.pipeline, order=placed.order, stage=placed.stage)
    allocations = [stmt for stmt in build.statements if isinstance(stmt, Alloc)]
    return allocations, dataclasses.replace(node, body=Seq(tuple(body), loc=node.body.loc), pipeline=pipeline)


def _counterpart(made: Stmt, step: SoftmaxStep) -> Stmt:
    """The statement of a step that computes what one of the operator does: its search, for all that comes before."""
    written = storages(made).written
    tiles = {step.output if tile is step.maximum else tile for tile in written}  # moves where the output is rescaled
    tiles &= {step.scores, step.total, step.output, step.weights}
    return next((stmt for stmt in reversed(step.statements) if storages(stmt).written & tiles), step.search)
