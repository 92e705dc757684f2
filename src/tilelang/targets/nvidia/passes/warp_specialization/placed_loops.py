"""Loops whose statements the user places, by `order` and `stage` of `T.Pipelined`, for a producer and consumers.

Takes a launch, gives one whose loops are the compiler's, and the placements of the user. What these say of loads, a
producer does in any case: it runs ahead by as many stages as fit. Consumers keep what they say of all other statements,
in relation to each other; where that is no more than the order of the program, in one stage, the compiler is as free as
without it. Invariant: a loop has the statements that the user counts, but for clears that its gemms do.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from tilelang.ir.buffer import Scope
from tilelang.ir.expr import Var
from tilelang.ir.stmt import For, Launch, PipelineSpec, Seq, Stmt
from tilelang.ir.visit import Rewriter, walk
from tilelang.ops.copy import Copy
from tilelang.ops.gemm import Gemm
from tilelang.records import record
from tilelang.saved_schedule import Placement, in_sequence
from tilelang.schedule.loop_body import LoopBody
from tilelang.schedule.placement_legality import by_hand


@record(slots=True, eq=False)
class PlacedLoop:
    """The statements of a loop as the user counts them, and their placement."""

    statements: tuple[Stmt, ...]
    placement: Placement

    def of_consumers(self, body: LoopBody) -> Placement | None:
        """The placement of the statements that consumers run; None if they are not the user's."""
        left, numbers = list(body.statements), list[int]()
        for number, stmt in enumerate(self.statements):
            if left and (stmt is left[0] or isinstance(stmt, Gemm) and isinstance(left[0], Gemm)):
                numbers.append(number)
                del left[0]
        if left:
            return None
        return self._among(numbers)

    @property
    def places_loads_alone(self) -> bool:
        """Whether all statements but loads keep the order of the program, in one stage."""
        others = [number for number, stmt in enumerate(self.statements) if not _loads(stmt)]
        return self._among(others) == in_sequence((0,) * len(others), range(len(others)))

    def _among(self, numbers: Sequence[int]) -> Placement:
        """The placement of some of the statements in relation to each other."""
        stage = [self.placement.stage[number] for number in numbers]
        sequence = sorted(range(len(numbers)), key=lambda each: self.placement.order[numbers[each]])
        return in_sequence([each - min(stage, default=0) for each in stage], sequence)


def _loads(stmt: Stmt) -> bool:
    return isinstance(stmt, Copy) and (stmt.src.buffer.scope, stmt.dst.buffer.scope) == (Scope.GLOBAL, Scope.SHARED)


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
