"""Where users place the statements of a pipelined loop, and where that places statements which these become.

Takes `order` and `stage` of a loop, gives a `Placement`, and the runs of statements of which it says no more than the
order of the program: those of a run come one after another, in program order and in one stage, loads apart. What a run
becomes may be reordered within it as if the user had placed nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilelang.ir.stmt import PipelineSpec, Stmt
from tilelang.ops.copy import is_load
from tilelang.saved_schedule import Placement, in_sequence


def by_hand(spec: PipelineSpec, count: int) -> Placement | None:
    """The user's placement, if it covers every statement."""
    if not spec.places_statements:
        return None
    order = spec.order or tuple(range(count))
    stage = spec.stage or (0,) * count
    if len(order) != count or len(stage) != count:
        return None
    low = min(stage, default=0)
    return Placement(tuple(s - low for s in stage), order)


def divided(spec: PipelineSpec, counts: Sequence[int]) -> PipelineSpec:
    """The places of the statements of a loop of which statement n has become counts[n], one after another."""
    placement = by_hand(spec, len(counts))
    if placement is None or set(counts) <= {1}:
        return spec
    places = zip(placement.stage, placement.order, counts, strict=True)
    made = placed_at([(stage, position) for stage, position, count in places for _ in range(count)])
    return PipelineSpec(spec.num_stages, made.order, made.stage)


def placed_at(places: Sequence[tuple[int, int]]) -> Placement:
    """The placement of statements of which each has a stage and a position; those of one place in program order."""
    sequence = sorted(range(len(places)), key=lambda number: (places[number][1], number))
    return in_sequence([stage for stage, _ in places], sequence)


def runs(placement: Placement, statements: Sequence[Stmt]) -> list[int | None]:
    """For each statement, the number of its run in the order of an iteration; None for loads."""
    found: list[int | None] = [None] * len(statements)
    run, before = 0, -1
    for number in placement.sequence:
        if is_load(statements[number]):
            continue
        if before >= 0 and (number < before or placement.stage[number] != placement.stage[before]):
            run += 1
        found[number], before = run, number
    return found
