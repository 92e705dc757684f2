"""Loop distribution (fission) that puts the loads of unrolled loops in front of their stores.

    for v in unroll(2):                          for v in unroll(2):
        C[i + v] = A[i + v] + B[i + v]     =>        A_ahead[v] = A[i + v]
                                                     B_ahead[v] = B[i + v]
                                                 for v in unroll(2):
                                                     C[i + v] = A_ahead[v] + B_ahead[v]

Takes a launch at thread level. So all loads of a thread are on their way at the same time, even where the CUDA compiler
must not move loads of global memory in front of stores or barriers: loops behind the first barrier load where the first
loads of the launch are, if it does not write what they load. Invariant: the same values. A loop stays as it is if it
stores to what it loads, if registers or memory decide what it loads, or if too many registers would be needed.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Set

from tilelang.analysis.tensor_map_stores import stored_by_tensor_maps
from tilelang.arith.simplify import simplify
from tilelang.dtypes import INT32, lane_dtype
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.builder import as_body
from tilelang.ir.expr import Binary, Expr, Load, Select, Var, const, int_const
from tilelang.ir.scalar import LOGICAL
from tilelang.ir.sequences import statements_of
from tilelang.ir.stmt import Alloc, Atomic, Bind, CallStmt, For, ForKind, If, Launch, Seq, Stmt, Store
from tilelang.ir.visit import Rewriter, expressions, loads_of, substitute, variables_of, walk, written_buffers
from tilelang.isa.instruction import Effect, Instruction


def loads_first(launch: Launch, registers: int) -> Stmt:
    """The body of a launch with such loops distributed.

    Args:
        launch: The launch.
        registers: How many 32-bit registers of a thread may hold what is loaded ahead.
    """
    if not any(map(loads, walk(launch.body))):
        return launch.body
    written = {buffer.storage for stmt in walk(launch.body) for buffer in written_buffers(stmt)}
    return _Body(registers, written | {each.storage for each in stored_by_tensor_maps(launch)}).rewritten(launch.body)


def stores(stmt: Stmt) -> bool:
    """Whether a statement by itself changes global memory."""
    return isinstance(stmt, Store | Atomic) and stmt.buffer.scope is Scope.GLOBAL


def loads(stmt: Stmt) -> bool:
    """Whether a statement by itself loads from global memory."""
    return any(map(_loads_globally, expressions(stmt)))


def _syncs(stmt: Stmt) -> bool:
    """Whether a statement by itself is a barrier of the block."""
    routine = stmt.routine if isinstance(stmt, CallStmt) else None
    return isinstance(routine, Instruction) and Effect.SYNC_BLOCK in routine.effect


def _loads_globally(expr: Expr) -> bool:
    return any(load.buffer.scope is Scope.GLOBAL for load in loads_of(expr))


class _Body(Rewriter):
    """The statements of a launch.

    Args:
        registers: How many may hold what is loaded ahead.
        written: What the launch writes.
    """

    def __init__(self, registers: int, written: Set[Buffer]) -> None:
        self._left, self._written = registers, written

    def rewritten(self, body: Stmt) -> Stmt:
        """The body; loops behind its first barrier load as early as its first loads are."""
        done: list[Stmt] = []
        first: int | None = None  # the place behind the first statement that loads
        late: set[Var] = set()  # what is bound behind that
        synchronized = False
        for stmt in statements_of(body):
            loop = self._distributed(stmt, needs_stores=first is None or not synchronized)
            if loop is not None and first is not None and synchronized and not self._needs(loop, late):
                done[first:first] = loop.front
                first += len(loop.front)
                done += loop.rest
                self._left = loop.left
            elif loop is not None and any(map(stores, walk(stmt))):
                done += (*loop.front, *loop.rest)
                self._left = loop.left
            else:
                done.append(self.visit(stmt) or Seq(()))
            if first is None and any(map(loads, walk(stmt))):
                first = len(done)
            elif first is not None and isinstance(stmt, Bind):
                late.add(stmt.var)
            synchronized = synchronized or any(map(_syncs, walk(stmt)))
        return Seq(tuple(done), loc=body.loc)

    def _needs(self, loop: _Distribution, late: Set[Var]) -> bool:
        """Whether what a loop loads is known or written only later than the first loads."""
        roots = [root for stmt in loop.front for inner in walk(stmt) for root in expressions(inner)]
        loaded = {load.buffer.storage for root in roots for load in loads_of(root)}
        return not self._written.isdisjoint(loaded) or any(not late.isdisjoint(variables_of(root)) for root in roots)

    def expr(self, node: Expr) -> Expr:
        return node

    def stmt(self, node: Stmt) -> Stmt | None:
        loop = self._distributed(node, needs_stores=True)
        if loop is None:
            return self.rebuild_stmt(node)
        self._left = loop.left
        return Seq((*loop.front, *loop.rest), loc=node.loc)

    def _distributed(self, stmt: Stmt, *, needs_stores: bool) -> _Distribution | None:
        """An unrolled loop distributed; None if it does not load, does not store although it needs to, or stays."""
        if not _trips(stmt) or not any(map(loads, walk(stmt))) or needs_stores and not any(map(stores, walk(stmt))):
            return None
        try:
            return _Distribution(stmt, self._left)
        except _Stays:
            return None


class _Stays(Exception):
    """A loop that is not distributed."""


class _Distribution:
    """The two loops that an unrolled loop becomes.

    Attributes:
        front: The registers that hold what is loaded, and the loop that loads.
        rest: The other loop.
        left: How many registers are left if it is taken.
    """

    def __init__(self, loop: Stmt, registers: int) -> None:
        self._stored = {inner.buffer.storage for inner in walk(loop) if isinstance(inner, Store)}
        self._ahead: list[Alloc] = []
        self.left = registers
        head, self.rest = self._split(loop, const(0, INT32), 1, {})
        self.front = (*self._ahead, *head)

    def _split(
        self, stmt: Stmt, place: Expr, count: int, values: dict[Var, Expr]
    ) -> tuple[tuple[Stmt, ...], tuple[Stmt, ...]]:
        """What a statement loads, and the rest of it.

        Args:
            stmt: The statement.
            place: The number of the iteration of the loops around it.
            count: How many iterations these have together.
            values: The values that bindings and variables of loops have among the loads.
        """
        match stmt:
            case Seq(body=body):
                parts = [self._split(part, place, count, values) for part in body]
                return tuple(s for head, _ in parts for s in head), tuple(s for _, tail in parts for s in tail)
            case For():
                trips = _trips(stmt)
                if not trips:
                    raise _Stays
                var = Var(stmt.var.name, stmt.var.dtype, stmt.var.index)
                inside = place * trips + stmt.var
                head, tail = self._split(stmt.body, inside, count * trips, {**values, stmt.var: var})
                loops = [dataclasses.replace(stmt, var=var, body=part) for part in _joined(head)]
                return tuple(loops), (dataclasses.replace(stmt, body=as_body(tail)),)
            case If(else_body=None, group=None):
                head, tail = self._split(stmt.then_body, place, count, dict(values))
                branches = [If(self._moved(stmt.condition, values), part, loc=stmt.loc) for part in _joined(head)]
                return tuple(branches), (dataclasses.replace(stmt, then_body=as_body(tail)),)
            case Store():
                if any(map(_loads_globally, stmt.indices)):
                    raise _Stays
                found: list[Stmt] = []
                hold = functools.partial(self._held, place=place, count=count, values=values, found=found)
                value = _Replaced(hold).expr(stmt.value)
                return tuple(found), (dataclasses.replace(stmt, value=value),)
            case Bind(var=var) if not loads(stmt):
                values[var] = substitute(stmt.value, values)
            case Alloc() if not loads(stmt):
                pass
            case _:
                raise _Stays
        return (), (stmt,)

    def _held(self, expr: Expr, place: Expr, count: int, values: dict[Var, Expr], found: list[Stmt]) -> Expr:
        """The registers that hold an expression, which is computed in front; adds the statement that does so."""
        lanes, element = expr.dtype.lanes, lane_dtype(expr.dtype)
        self.left -= -(-count * lanes * element.storage_bytes // 4)
        if self.left < 0:
            raise _Stays
        name = next(load.buffer.name for load in loads_of(expr))
        ahead = Buffer(f"{name}_ahead", (const(count * lanes, INT32),), element, Scope.LOCAL)
        self._ahead.append(Alloc(ahead))
        index = simplify(place * lanes)
        found.append(Store(ahead, (substitute(index, values),), self._moved(expr, values)))
        return Load(ahead, (index,), expr.dtype)

    def _moved(self, expr: Expr, values: dict[Var, Expr]) -> Expr:
        """An expression as it is computed in front of all stores."""
        moved = substitute(expr, values)
        for load in loads_of(moved):
            if load.buffer.scope is not Scope.GLOBAL or load.buffer.storage in self._stored:
                raise _Stays
            if any(map(loads_of, load.indices)):
                raise _Stays
        return moved


class _Replaced(Rewriter):
    """Replaces loads from global memory, with all that decides whether they happen."""

    def __init__(self, hold: Callable[[Expr], Expr]) -> None:
        self._hold = hold

    def expr(self, node: Expr) -> Expr:
        if not _loads_globally(node):
            return node
        if isinstance(node, Load | Select) or isinstance(node, Binary) and node.op in LOGICAL:
            return self._hold(node)
        return self.rebuild_expr(node)


def _joined(statements: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The statements as one, or none."""
    return (as_body(statements),) if statements else ()


def _trips(stmt: Stmt) -> int:
    """How often the body of an unrolled loop runs; 0 for any other statement."""
    if isinstance(stmt, For) and stmt.kind is ForKind.UNROLLED and stmt.step == 1 and int_const(stmt.start) == 0:
        return int_const(stmt.stop) or 0
    return 0
