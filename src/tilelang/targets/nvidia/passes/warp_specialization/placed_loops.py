"""Loops whose statements the user places, by `order` and `stage` of `T.Pipelined`, for a producer and consumers.

Takes a launch, gives one whose loops are the compiler's, and the placements of the user. What these say of loads, a
producer does in any case: it runs ahead by as many stages as fit. Consumers keep what they say of all other statements,
in relation to each other; where that is no more than the order of the program, in one stage, the compiler is as free as
without it. Invariant: a loop has the statements that the user counts, but for clears that its gemms do.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from tilelang.ir.expr import Var
from tilelang.ir.stmt import For, Launch, PipelineSpec, Seq, Stmt
from tilelang.ir.visit import Rewriter, walk
from tilelang.ops.gemm import Gemm
from tilelang.records import record
from tilelang.saved_schedule import Placement
from tilelang.schedule.loop_body import LoopBody
from tilelang.transforms.statement_places import by_hand, runs


@record(slots=True, eq=False)
class PlacedLoop:
    """The statements of a loop as the user counts them, and their placement."""

    statements: tuple[Stmt, ...]
    placement: Placement

    def places_of(self, statements: Sequence[Stmt]) -> list[tuple[int, int]] | None:
        """The stage and the run of statements of consumers; None if they are not the user's.

        Args:
            statements: What is left of the user's in program order; an operator may have become several.
        """
        found = runs(self.placement, self.statements)
        low = min((self.placement.stage[n] for n, run in enumerate(found) if run is not None), default=0)
        places: list[tuple[int, int]] = []
        number = -1
        for stmt in statements:
            number = self._number_of(stmt, number)
            run = None if number < 0 else found[number]
            if run is None:
                return None
            places.append((self.placement.stage[number] - low, run))
        return places

    def _number_of(self, stmt: Stmt, before: int) -> int:
        """The number of a statement behind one with another number, or of which both are parts; -1 if it is none."""
        later = range(before + 1, len(self.statements))
        return next((n for n in (*later, before) if n >= 0 and _is_made_of(stmt, self.statements[n])), -1)

    @property
    def places_loads_alone(self) -> bool:
        """Whether all statements but loads keep the order of the program, in one stage."""
        return set(runs(self.placement, self.statements)) <= {None, 0}


def _is_made_of(stmt: Stmt, original: Stmt) -> bool:
    return type(stmt) is type(original) and stmt.loc == original.loc


Placed = Mapping[Var, PlacedLoop]
"""The loops that the user places, by their variables."""


def with_free_loops(launch: Launch) -> tuple[Launch, Placed]:
    """The launch with stages of all its pipelined loops left to the compiler, and how the user places the others."""
    free = _FreeLoops()
    body = free.visit(launch.body) or Seq((), loc=launch.loc)
    return launch if body is launch.body else dataclasses.replace(launch, body=body), free.placed


class _FreeLoops(Rewriter):
    def __init__(self) -> None:
        self.placed: dict[Var, PlacedLoop] = {}

    def stmt(self, node: Stmt) -> Stmt | None:
        spec = node.pipeline if isinstance(node, For) else None
        if not isinstance(node, For) or spec is None or not any(isinstance(stmt, Gemm) for stmt in walk(node)):
            return self.rebuild_stmt(node)
        statements = tuple(LoopBody(node).statements)
        placement = by_hand(spec, len(statements))
        if placement is None:
            return self.rebuild_stmt(node)
        found = PlacedLoop(statements, placement)
        if not found.places_loads_alone:
            self.placed[node.var] = found
        return dataclasses.replace(node, pipeline=PipelineSpec(spec.num_stages or placement.last + 1))
