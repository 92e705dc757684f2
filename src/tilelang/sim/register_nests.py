"""Nests of loops over a thread's own registers: where their iterations go, and which of them are independent.

Takes a loop, gives the nest with constant bounds that it is, if all of the body computes in registers; and for every
access in it the place at each point of the nest. Invariant: a loop is called independent only if none of its iterations
accesses a register that another one writes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.compare import expr_key
from tilelang.ir.expr import Binary, Const, Expr, Load, Var
from tilelang.ir.scalar import BinaryOp, exact_binary
from tilelang.ir.stmt import Bind, For, If, Seq, Stmt, Store
from tilelang.ir.visit import expressions, loads_of, variables_of, walk, walk_expr
from tilelang.records import record
from tilelang.sim.device_memory import row_major
from tilelang.sim.exact_indices import are_exact, exact_parts

Term = tuple[bool, Expr]  # whether it is subtracted, and what it is
LARGEST = 1 << 31  # of an integer that comes from around a nest
_MAX_POINTS = 4096  # points whose places are worked out


@record(slots=True)
class Place:
    """Where an access goes: per dimension, a part that the point decides, and a part that is the same for all points.

    Attributes:
        at: The first part. Shape (points,) each.
        around: The second part, as terms to add.
    """

    at: tuple[np.ndarray, ...]
    around: tuple[tuple[Term, ...], ...]


class _NoSum(Exception):
    """An index is not a sum of what the nest decides and of what it does not change."""


class Nest:
    """A nest of loops with nothing between them.

    Args:
        loops: From the outermost to the innermost.

    Attributes:
        body: The body of the innermost one.
        extents: The iterations of each.
        points: The product of these.
        values: The value of each loop's variable at every point, exact.
        bound: The variables that the body binds.
    """

    def __init__(self, loops: tuple[For, ...]) -> None:
        self._loops = loops
        self.body = loops[-1].body
        self.bound = {stmt.var for stmt in walk(self.body) if isinstance(stmt, Bind)}
        self.extents = tuple(len(_range(loop)) for loop in loops)
        self.points = math.prod(self.extents)
        self.values: dict[Var, np.ndarray] = {}
        if self.points <= _MAX_POINTS:
            numbers = np.indices(self.extents).reshape(len(loops), -1)
            for loop, number in zip(loops, numbers, strict=True):
                self.values[loop.var] = number * loop.step + _range(loop).start

    def places(self) -> Mapping[Load | Store, Place] | None:
        """The place of every access; None if the body does more than compute in registers, or in ways unknown here."""
        stmts = list(walk(self.body))
        if not 0 < self.points <= _MAX_POINTS or not all(map(_is_simple, stmts)) or not self._is_exact(stmts):
            return None
        accesses: list[Load | Store] = [stmt for stmt in stmts if isinstance(stmt, Store)]
        accesses += [load for stmt in stmts for root in expressions(stmt) for load in loads_of(root)]
        try:
            return {access: self._place(access) for access in accesses}
        except _NoSum:
            return None

    def is_around(self, expr: Expr) -> bool:
        """Whether an expression is the same at every point, whatever the nest does."""
        return not loads_of(expr) and not any(var in self.values or var in self.bound for var in variables_of(expr))

    def _place(self, access: Load | Store) -> Place:
        sums = [list(self._terms(index)) for index in access.indices]
        parts = [[(negative, term) for negative, term, is_own in terms if not is_own] for terms in sums]
        own = [[(negative, term) for negative, term, is_own in terms if is_own] for terms in sums]
        return Place(tuple([self._sum(terms) for terms in own]), tuple([tuple(terms) for terms in parts]))

    def _terms(self, index: Expr, negative: bool = False) -> Iterator[tuple[bool, Expr, bool]]:
        """The terms of an index, and of each whether it is the nest that decides it."""
        variables = variables_of(index)
        if not loads_of(index) and variables <= self.values.keys():
            yield negative, index, True
        elif self.is_around(index):
            yield negative, index, False
        elif isinstance(index, Binary) and index.op in (BinaryOp.ADD, BinaryOp.SUB):
            yield from self._terms(index.a, negative)
            yield from self._terms(index.b, negative != (index.op is BinaryOp.SUB))
        else:
            raise _NoSum

    def _sum(self, terms: list[Term]) -> np.ndarray:
        total = np.zeros(self.points, np.int64)
        for negative, term in terms:
            value = self._value(term)
            total = total - value if negative else total + value
        return total

    def _value(self, expr: Expr) -> Any:
        match expr:
            case Const(value=value):
                return int(value)
            case Var() if expr.index:
                return self.values[expr]
            case Binary(op=op, a=a, b=b) if expr.dtype.is_int:
                return exact_binary(op, self._value(a), self._value(b))
        raise _NoSum

    def _is_exact(self, stmts: list[Stmt]) -> bool:
        """Whether no index arithmetic with the variables of the nest can leave 64 bits."""
        peaks: dict[Expr, int] = {var: int(np.abs(values).max()) for var, values in self.values.items()}
        for stmt in stmts:
            for root in expressions(stmt):
                for node in walk_expr(root):
                    if not isinstance(node, Const) and self.is_around(node):
                        peaks[node] = LARGEST
        return are_exact((part for stmt in stmts for part in exact_parts(stmt)), peaks)

    def independent(self, places: Mapping[Load | Store, Place]) -> tuple[bool, ...] | None:
        """Which loops are independent; None if it is not known where memory that is written is accessed."""
        stored = {access.buffer.storage for access in places if isinstance(access, Store)}
        free = np.ones(len(self._loops), bool)
        for storage in stored:
            accesses = {access: place for access, place in places.items() if access.buffer.storage is storage}
            if len({access.buffer for access in accesses}) > 1 or len({_key(p) for p in accesses.values()}) > 1:
                return None
            offsets = np.concatenate([self.offsets(access.buffer, place) for access, place in accesses.items()])
            registers = len(np.unique(offsets))
            for n, values in enumerate(self.values.values()):
                iterations = np.tile(values, len(accesses)) - values[0]
                reach = int(np.abs(iterations).max()) + 1
                free[n] &= len(np.unique(offsets * (2 * reach) + iterations)) == registers
        return tuple(free.tolist())

    def offsets(self, buffer: Buffer, place: Place) -> np.ndarray:
        """The part of a place that the point decides, as offsets into the buffer. Shape (points,)."""
        assert buffer.static_shape is not None
        total = np.zeros(self.points, np.int64)
        for at, stride in zip(place.at, row_major(buffer.static_shape), strict=True):
            total = total + at * stride
        return total

    def order(self, free: tuple[bool, ...]) -> np.ndarray:
        """The numbers of the points, those that differ in free loops only in a row. Shape (other points, free ones)."""
        axes = [n for n, is_free in enumerate(free) if not is_free]
        last = [n for n, is_free in enumerate(free) if is_free]
        numbers = np.arange(self.points).reshape(self.extents).transpose(axes + last)
        found: np.ndarray = numbers.reshape(math.prod(self.extents[n] for n in axes), -1)
        return found


def nest_of(loop: For) -> Nest | None:
    """The nest that begins with a loop, with nothing between its loops; None if a bound is not constant."""
    loops = [loop]
    while isinstance(inner := _only(loops[-1].body), For):
        loops.append(inner)
    is_constant = all(isinstance(bound, Const) for each in loops for bound in (each.start, each.stop))
    return Nest(tuple(loops)) if is_constant else None


def _only(stmt: Stmt) -> Stmt:
    while isinstance(stmt, Seq) and len(stmt.body) == 1:
        (stmt,) = stmt.body
    return stmt


def _range(loop: For) -> range:
    assert isinstance(loop.start, Const)
    assert isinstance(loop.stop, Const)
    return range(int(loop.start.value), int(loop.stop.value), loop.step)


def _is_simple(stmt: Stmt) -> bool:
    """Whether a statement computes with single elements in registers."""
    if type(stmt) not in (Seq, Bind, If, Store):
        return False
    if isinstance(stmt, Store) and (stmt.asynchronous or not _is_in_registers(stmt.buffer)):
        return False
    return all(
        node.dtype.lanes == 1 and (not isinstance(node, Load) or _is_in_registers(node.buffer))
        for root in expressions(stmt)
        for node in walk_expr(root)
    )


def _is_in_registers(buffer: Buffer) -> bool:
    is_own = buffer.scope in (Scope.LOCAL, Scope.VAR)
    return is_own and buffer.dtype.lanes == 1 and buffer.storage.dtype.lanes == 1 and buffer.static_shape is not None


def _key(place: Place) -> object:
    """Return the key that two places share if they are comparable."""
    return tuple([tuple([(negative, expr_key(term)) for negative, term in terms]) for terms in place.around])
