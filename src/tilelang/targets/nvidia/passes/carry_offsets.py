"""Carries the offset of a tile with two versions from iteration to iteration, where a swizzle changes it by XOR.

    for k:                                                  at = row * 128 + chunk * 8
        for s unrolled:                                     for k:
            load K[(row * 128 + chunk * 8        =>             for s unrolled: load K[(at ^ s * 16)]
                    + k % 2 * 8192) ^ s * 16]                   at = at ^ 8192

A thread otherwise keeps two values throughout the loop, the offset with the version and that without. With one, nothing
is spilled by attention through mma.sync with tiles of 128 x 64 and 4 warps; on an H200 it takes the same time, causal
attention 0.98. With tiles of 128 x 128 and 8 warps, which have registers left, it took 1.04. So this is done where the
arrays of a thread alone would take all registers, if each had its own.

Takes a thread-level launch; a late pass, so that all analyses see the versions. Invariant: the same offsets.
"""

from __future__ import annotations

import dataclasses
import functools
import operator

from tilelang.analysis.strides import coefficient
from tilelang.arith.domain import Domain, visit_in_order, visit_inside
from tilelang.arith.interval import bounds
from tilelang.arith.simplify import simplify
from tilelang.ir.assumption import assume
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.compare import ExprKey, expr_key
from tilelang.ir.expr import Binary, Expr, Load, Var, cast, conjunction, const, int_const
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.sequences import statements_of
from tilelang.ir.stmt import Alloc, Bind, Continue, For, ForKind, Launch, Seq, Stmt, Store
from tilelang.ir.visit import (
    Rewriter,
    defined_variables,
    jumps,
    loads_of,
    substitute,
    variables_of,
    walk,
    without_unused_bindings,
)
from tilelang.passes.base import Pass, PassContext, with_launches
from tilelang.passes.properties import Property
from tilelang.performance.registers import array_registers
from tilelang.powers import is_power_of_two
from tilelang.records import record
from tilelang.targets.nvidia.machines import MAX_REGISTERS

_VERSIONS = 2
_REMAINDERS = (BinaryOp.FLOORMOD, BinaryOp.TRUNCMOD)


def _visit(node: Stmt, domain: Domain) -> Stmt:
    if isinstance(node, Seq):
        return visit_in_order(node, domain, _visit)
    inside = visit_inside(node, domain, _visit)
    is_counted = isinstance(inside, For) and inside.kind is ForKind.SERIAL and inside.step == 1
    if not isinstance(inside, For) or not is_counted or jumps(inside.body, Continue):
        return inside
    offsets = _Offsets(inside, domain)
    body = offsets.visit(inside.body)
    if body is None or not offsets.carried:
        return inside
    before: list[Stmt] = []
    first: list[Stmt] = []
    last: list[Stmt] = []
    for each in offsets.carried.values():
        before.append(Alloc(each.buffer, each.start, loc=inside.loc))
        first.append(Bind(each.at, Load(each.buffer, (), each.at.dtype), loc=inside.loc))
        first.append(assume(conjunction([each.at >= 0, each.at < 2 * each.size]), inside.loc))
        last.append(Store(each.buffer, (), each.at ^ each.size, loc=inside.loc))
    body = Seq((*first, *statements_of(body), *last), loc=inside.body.loc)
    body = without_unused_bindings(body, offsets.invariants.keys())
    return Seq((*before, dataclasses.replace(inside, body=body)), loc=inside.loc)


@record
class _Carried:
    """A carried offset.

    Attributes:
        buffer: The variable that carries it.
        at: Its value in an iteration.
        start: That in the first one.
        size: From one version to the other.
    """

    buffer: Buffer
    at: Var
    start: Expr
    size: int


class _Offsets(Rewriter):
    """The rewriting of the body of a loop.

    Attributes:
        invariants: The values of indices that the body defines, where they are the same in all iterations.
        carried: The offsets that are carried, by what they are in the program.
    """

    def __init__(self, loop: For, domain: Domain) -> None:
        self._loop, self._domain = loop, domain
        self._changing = {loop.var, *(var for stmt in walk(loop.body) for var in defined_variables(stmt))}
        self.invariants: dict[Var, Expr] = {}
        self.carried: dict[ExprKey, _Carried] = {}
        for stmt in walk(loop.body):
            if isinstance(stmt, Bind) and stmt.var.is_index and self._is_invariant(value := self._resolved(stmt.value)):
                self.invariants[stmt.var] = value

    def expr(self, node: Expr) -> Expr:
        if isinstance(node, Binary) and node.op is BinaryOp.BITXOR and node.is_index:
            carried = self._carry(self._resolved(node.a))
            if carried is not None:
                return dataclasses.replace(node, a=carried.at)
        return self.rebuild_expr(node)

    def _carry(self, offset: Expr) -> _Carried | None:
        key = expr_key(offset)
        if key not in self.carried and (parts := self._parts(offset)) is not None:
            rest, version, size = parts
            first = {self._loop.var: cast(self._loop.start, self._loop.var.dtype)}
            start = simplify(substitute(version, first), self._domain)
            start = simplify(rest if int_const(start) == 0 else rest + start, self._domain)
            buffer = Buffer("next_offset", (), offset.dtype, Scope.VAR)
            self.carried[key] = _Carried(buffer, Var("offset", offset.dtype, index=True), start, size)
        return self.carried.get(key)

    def _parts(self, offset: Expr) -> tuple[Expr, Expr, int] | None:
        """Of `rest + k % 2 * size`, both terms and the size, a bit that the rest has not; None for any other offset."""
        terms = _terms(offset)
        others = [term for term in terms if self._is_invariant(term)]
        match [term for term in terms if not self._is_invariant(term)]:
            case [Binary(op=BinaryOp.MUL, a=Binary(op=op, a=count, b=two), b=factor) as version] if others:
                rest, size = functools.reduce(operator.add, others), int_const(factor) or 0
                alternates = op in _REMAINDERS and int_const(two) == _VERSIONS and self._counts(count)
                limits = bounds(rest, self._domain)
                is_below = limits.low is not None and limits.low >= 0 and limits.high is not None and limits.high < size
                return (rest, version, size) if alternates and is_below and is_power_of_two(size) else None
        return None

    def _counts(self, index: Expr) -> bool:
        """Whether an index increases by one from iteration to iteration."""
        first = substitute(index, {self._loop.var: const(0, self._loop.var.dtype)})
        return coefficient(index, self._loop.var) == 1 and self._is_invariant(first)

    def _resolved(self, expr: Expr) -> Expr:
        return substitute(expr, self.invariants)

    def _is_invariant(self, expr: Expr) -> bool:
        return expr.is_index and variables_of(expr).isdisjoint(self._changing) and not loads_of(expr)


def _terms(offset: Expr) -> list[Expr]:
    if isinstance(offset, Binary) and offset.op is BinaryOp.ADD:
        return [*_terms(offset.a), *_terms(offset.b)]
    return [offset]


def carry_offsets(launch: Launch) -> Launch:
    """The launch with carried offsets, if its arrays leave no registers."""
    if launch.thread is None or array_registers(launch) < MAX_REGISTERS:
        return launch
    body = _visit(launch.body, Domain().with_range(launch.thread, 0, launch.num_threads - 1))
    return launch if body is launch.body else dataclasses.replace(launch, body=body)


def _run(func: PrimFunc, _: PassContext) -> PrimFunc:
    return with_launches(func, carry_offsets)


PASS = Pass(
    "carry_offsets", _run, Level.THREAD, Level.THREAD,
    requires=(Property.EXPRESSIONS_SIMPLIFIED,),
)  # fmt: skip
