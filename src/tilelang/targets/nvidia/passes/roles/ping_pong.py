"""Two warpgroups that take turns: each computes every other tile of a block, one stores while the other multiplies.

Takes the consumers' program of one tile after another, gives that of one of the two warpgroups. Invariant: the products
of a tile begin only when those of the tile before have been issued, so that the machine serves one warpgroup at a time,
and versions are given back in the order in which they were filled.
"""

from __future__ import annotations

import dataclasses

from tilelang.dtypes import INT32, SCALARS
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import Expr, Var, const
from tilelang.ir.stmt import Alloc, Atomic, Bind, CallStmt, For, If, ParallelLoop, Stmt
from tilelang.ir.visit import Rewriter, walk
from tilelang.records import record
from tilelang.targets.nvidia.isa.mbarrier import MBARRIER_ARRIVE, MBARRIER_INIT, MBARRIER_WAIT
from tilelang.targets.nvidia.schedule import WARPGROUP_THREADS

GROUPS = 2


@record(slots=True, eq=False)
class Turns:
    """The order of the two warpgroups.

    Attributes:
        barriers: One for each of them; the other one arrives when it has issued the products of a tile.
        tiles: The loop over the tiles of a block.
        number: Which of the two this is.
    """

    barriers: Buffer
    tiles: For
    number: int

    def inits(self) -> list[Stmt]:
        """Initializes the barriers."""
        return [CallStmt(MBARRIER_INIT, (self._at(n), const(1, INT32))) for n in range(GROUPS)]

    def begin(self) -> list[Stmt]:
        """Waits until the other one has issued the products of the tile before; the very first tile has none."""
        own = self.tiles.var // GROUPS  # tiles that this warpgroup has done
        phase = own % 2 if self.number else (own + 1) % 2
        return [CallStmt(MBARRIER_WAIT, (self._at(self.number), phase))]

    def end(self, thread: Expr) -> list[Stmt]:
        """Lets the other one begin."""
        arrive = CallStmt(MBARRIER_ARRIVE, (self._at(GROUPS - 1 - self.number),))
        return [If(thread % WARPGROUP_THREADS == 0, arrive)]

    def own_program(self, program: Stmt) -> Stmt:
        """The program for the tiles of this warpgroup, with names and tiles of its own."""
        made = _OwnTiles(self).visit(program)
        assert made is not None
        return made if self.number == 0 else renamed(made)

    def _at(self, number: int) -> Region:
        return Region(self.barriers, (const(number, INT32),), (const(1, INT32),))


def turns_of(tiles: For) -> tuple[Turns, ...]:
    """The turns of both warpgroups."""
    barriers = Buffer("turn_order", (const(GROUPS, INT32),), SCALARS["uint64"], Scope.BARRIER)
    return tuple(Turns(barriers, tiles, number) for number in range(GROUPS))


class _OwnTiles(Rewriter):
    def __init__(self, turns: Turns) -> None:
        self._turns = turns

    def stmt(self, node: Stmt) -> Stmt | None:
        if isinstance(node, For) and node.var is self._turns.tiles.var:
            return dataclasses.replace(node, start=const(self._turns.number, INT32), step=GROUPS)
        return self.rebuild_stmt(node)


def renamed(program: Stmt) -> Stmt:
    """The program with fresh variables and buffers for all that it defines itself."""
    made = _Renamed(program).visit(program)
    assert made is not None
    return made


class _Renamed(Rewriter):
    def __init__(self, program: Stmt) -> None:
        self._vars: dict[Var, Var] = {}
        self._buffers: dict[Buffer, Buffer] = {}
        for stmt in walk(program):
            match stmt:
                case For(var=var) | Bind(var=var):
                    self._define(var)
                case ParallelLoop(vars=variables):
                    for var in variables:
                        self._define(var)
                case CallStmt(result=result) | Atomic(result=result) if result is not None:
                    self._define(result)
                case Alloc(buffer=buffer):
                    view_of = buffer.view_of
                    own = view_of if view_of is None else self._buffers.get(view_of, view_of)
                    self._buffers[buffer] = dataclasses.replace(buffer, view_of=own)

    def _define(self, var: Var) -> None:
        self._vars[var] = Var(var.name, var.dtype, index=var.index)

    def expr(self, node: Expr) -> Expr:
        return self._vars.get(node, node) if isinstance(node, Var) else self.rebuild_expr(node)

    def buffer(self, node: Buffer) -> Buffer:
        return self._buffers.get(node, node)

    def stmt(self, node: Stmt) -> Stmt | None:
        made = self.rebuild_stmt(node)
        match made:
            case For(var=var) | Bind(var=var):
                return dataclasses.replace(made, var=self._vars[var])
            case ParallelLoop(vars=variables):
                return dataclasses.replace(made, vars=tuple(self._vars[var] for var in variables))
            case CallStmt(result=result) | Atomic(result=result) if result is not None:
                return dataclasses.replace(made, result=self._vars[result])
        return made
