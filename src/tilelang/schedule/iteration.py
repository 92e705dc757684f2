"""The iterations of a loop of which one of the pipelined loop runs parts: each stage runs those of another iteration.

Takes a loop and its stages; gives the loop variable's value for each stage at each time, and `Iteration`s, which write
the statements of one iteration. Invariant: each iteration has names of its own for what its statements bind, unless it
is written in place, and uses its own versions of tiles.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from tilelang.dtypes import INT32
from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Expr, Var, const, int_const
from tilelang.ir.stmt import Bind, For, Seq, Stmt
from tilelang.ir.visit import substitute, substitute_stmt
from tilelang.schedule.loop_body import LoopBody
from tilelang.transforms.versions import OnVersion


def times_before(loop: For, last: int) -> list[dict[int, Expr]]:
    """The loop variable's value for each stage that runs at each time before the pipelined loop."""
    return [{stage: _value(loop, time - stage) for stage in range(time + 1)} for time in range(last)]


def time_within(loop: For, last: int) -> dict[int, Expr]:
    """The loop variable's value for each stage in an iteration of the pipelined loop."""
    return {**{stage: loop.var + (last - stage) * loop.step for stage in range(last)}, last: loop.var}


def trip_count(loop: For) -> Expr:
    """The trip count of a loop; where it has no iteration, anything below 1."""
    start, stop, step = loop.start, loop.stop, loop.step
    length = stop - start if step > 0 else start - stop
    length = stop if step > 0 and int_const(start) == 0 else length
    return length if abs(step) == 1 else (length + (abs(step) - 1)) // abs(step)


def iteration_number(loop: For, value: Expr | None = None) -> Expr:
    """The number of an iteration, counted from 0; that of another value of the loop variable if one is given."""
    at = loop.var if value is None else value
    if loop.step < 0:
        number = loop.start - at
    else:
        number = at if int_const(loop.start) == 0 else at - loop.start
    return number if abs(loop.step) == 1 else number // abs(loop.step)


def versions_in(loop: For, value: Expr, versioned: Mapping[Buffer, Buffer]) -> dict[Buffer, tuple[Buffer, Expr]]:
    """The versions of tiles in an iteration: for each tile, the buffer of all of them and the index."""
    number = iteration_number(loop, value)
    return {old: (new, number % new.shape[0]) for old, new in versioned.items()}


def _value(loop: For, number: int) -> Expr:
    """The loop variable's value in an iteration counted from 0."""
    start = int_const(loop.start)
    step = number * loop.step
    return const(start + step, INT32) if start is not None else loop.start + step


class Iteration:
    """One iteration of the original loop.

    Args:
        body: The loop.
        value: The loop variable's value.
        versions: For each tile with several versions, the buffer of all of them and the index of the iteration's.
        in_place: Statements that stay behind the bindings that stand before them, under the original names.

    Attributes:
        values: What stands for the loop's variable and for the bindings so far.
        buffers: What stands for buffers that its statements allocate.
        versions: As above.
    """

    def __init__(
        self, body: LoopBody, value: Expr, versions: Mapping[Buffer, tuple[Buffer, Expr]], in_place: Sequence[int] = ()
    ) -> None:
        self._body, self._in_place = body, in_place
        self.values: dict[Var, Expr] = {} if value is body.loop.var else {body.loop.var: value}
        self.buffers: dict[Buffer, Buffer] = {}
        self.versions = dict(versions)

    def renamed(self, expr: Expr) -> Expr:
        """An expression of this iteration."""
        return OnVersion(self.versions).expr(substitute(expr, self.values, self.buffers))

    def moved(self, stmt: Stmt) -> Stmt:
        """A statement of this iteration."""
        return OnVersion(self.versions).visit(substitute_stmt(stmt, self.values, self.buffers)) or Seq((), loc=stmt.loc)

    def bindings(self, number: int) -> Iterator[Bind]:
        """The bindings that a statement needs, and that have not been written before."""
        body, in_place = self._body, self._in_place
        stmt = body.statements[number]
        for var in body.bound_variables_before(number, in_place) if in_place else body.bound_variables(stmt):
            if var not in self.values:
                bind = body.bind(var)
                value = self.renamed(bind.value)
                new = self.values[var] = var if in_place else Var(var.name, var.dtype, index=var.index)
                yield dataclasses.replace(bind, var=new, value=value, loc=stmt.loc)
