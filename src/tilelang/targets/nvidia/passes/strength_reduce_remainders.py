"""Strength reduction: remainders of a loop's counter are carried from iteration to iteration instead of computed.

    for k:  stage = (first + k) % 3                         next_stage = first % 3, next_phase = first // 3 % 2
            phase = (first + k) // 3 % 2                    for k:  stage = next_stage, phase = next_phase
            wait for full[stage] by phase; ...          =>          wait for full[stage] by phase; ...
                                                                    next_phase = 1 - phase if stage == 2 else phase
                                                                    next_stage = 0 if stage == 2 else stage + 1

Only in software-pipelined loops, which wait for tiles of two iterations and issue wgmma: there, address and phase of a
barrier stand at the beginning of each iteration, and nothing hides the seven dependent instructions of a division
(about 35 of 2000 cycles of an iteration of attention on an H200). A producer runs ahead and has few registers, and so
has the backward pass of attention, which spilled by ptxas 13.5. Divisions by powers of two stay, since they are shifts.

Takes a thread-level launch; the last pass, so that all analyses see the divisions. Invariant: the same values.
"""

from __future__ import annotations

import dataclasses

from tilelang.analysis.strides import coefficient
from tilelang.arith.domain import Domain, facts_after, of_function, visit_in_order, visit_inside
from tilelang.arith.interval import bounds
from tilelang.arith.simplify import simplify
from tilelang.ir.assumption import assume
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.compare import ExprKey, expr_key
from tilelang.ir.expr import Binary, Expr, Load, Var, cast, conjunction, const, int_const, select
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.sequences import statements_of, with_statements
from tilelang.ir.stmt import Alloc, Bind, CallStmt, Continue, For, ForKind, Seq, Stmt, Store, While
from tilelang.ir.visit import (
    defined_variables,
    jumps,
    loads_of,
    substitute,
    variables_of,
    walk,
    without_unused_bindings,
    written_buffers,
)
from tilelang.isa.instruction import Instruction
from tilelang.passes.base import Pass, PassContext, with_body
from tilelang.passes.properties import Property
from tilelang.powers import is_power_of_two
from tilelang.targets.nvidia.isa.async_units import WGMMA
from tilelang.targets.nvidia.isa.mbarrier import MBARRIER_WAIT

_REMAINDERS = (BinaryOp.FLOORMOD, BinaryOp.TRUNCMOD)
_QUOTIENTS = (BinaryOp.FLOORDIV, BinaryOp.TRUNCDIV)
_TRUNCATING = (BinaryOp.TRUNCMOD, BinaryOp.TRUNCDIV)
_ALL_COUNTS = 2**31 - 1
_COUNTS_OF_OVERLAP = 2  # a software-pipelined loop waits for tiles of two iterations


def _visit(node: Stmt, domain: Domain) -> Stmt:
    if isinstance(node, Seq):
        return visit_in_order(node, domain, _visit)
    inside = visit_inside(node, domain, _visit)
    if not isinstance(inside, For) or not _is_reducible(inside):
        return inside
    reduction = _Reduction(inside)
    body = reduction.body(inside.body, domain.with_loop(inside.var, inside.start, inside.stop, inside.step))
    if len(reduction.counts) < _COUNTS_OF_OVERLAP:
        return inside
    loop = dataclasses.replace(inside, body=without_unused_bindings(body, reduction.counting.keys()))
    return Seq((*reduction.preheader, loop), loc=inside.loc)


def _is_reducible(loop: For) -> bool:
    """Whether a loop counts up by one, leaves no iteration for the next, waits for barriers, and issues wgmma.

    What follows a `break` counts for no iteration; barriers must not be waited for in inner loops.
    """
    calls = [s for s in walk(loop.body) if isinstance(s, CallStmt)]
    waiting = [s for s in calls if s.routine is MBARRIER_WAIT]
    multiplies = any(isinstance(s.routine, Instruction) and s.routine.async_unit is WGMMA for s in calls)
    inner = [s for s in walk(loop.body) if isinstance(s, For | While)]
    nested = any(s in waiting for each in inner for s in walk(each.body))
    serial = loop.kind is ForKind.SERIAL and loop.step == 1
    return serial and multiplies and bool(waiting) and not nested and not jumps(loop.body, Continue)


class _Reduction:
    """The reduction of one loop.

    Attributes:
        preheader: Allocations of the carried scalars, with the values of the first iteration.
        counting: The indices that count the iterations, with their bindings.
        counts: The different indices whose remainders are carried.
    """

    def __init__(self, loop: For) -> None:
        self._loop = loop
        self._changing = {var for s in walk(loop.body) for var in defined_variables(s)}
        self._written = {buffer for s in walk(loop.body) for buffer in written_buffers(s)}
        self._first: dict[Var, Expr] = {loop.var: cast(loop.start, loop.var.dtype)}  # values in the first iteration
        self.preheader: list[Stmt] = []
        self.counting: dict[Var, Bind] = {}
        self.counts: set[ExprKey] = set()

    def body(self, node: Stmt, domain: Domain) -> Stmt:
        """A sequence that each iteration runs once, with carried values and the steps to the next iteration."""
        made: list[Stmt] = []
        steps: list[Stmt] = []
        wraps: list[tuple[Binary, Expr]] = []  # remainders, and whether they are 0 in the next iteration
        carried: dict[ExprKey, Var] = {}  # the variables of values that are carried already
        for child in statements_of(node):
            key = expr_key(self._resolved(child.value)) if isinstance(child, Bind) else None
            if isinstance(child, Bind) and key in carried:
                made.append(dataclasses.replace(child, value=carried[key]))
            elif isinstance(child, Bind) and (following := self._following(child, domain, wraps)) is not None:
                counter = Buffer(f"next_{child.var.name}", (), child.var.dtype, Scope.VAR)
                self.preheader.append(Alloc(counter, self._at_first(child.value, domain), loc=child.loc))
                steps.append(Store(counter, (), following, loc=child.loc))
                made.append(dataclasses.replace(child, value=Load(counter, (), child.var.dtype)))
                made.append(assume(_range_of(child, domain), child.loc))
                carried[expr_key(self._resolved(child.value))] = child.var
            else:
                made.append(self.body(child, domain) if isinstance(child, Seq) else child)
            if isinstance(child, Bind) and self._counts(child.value):
                self.counting[child.var] = child
            domain = facts_after(child, domain)
        return with_statements(node, [*made, *steps]) if isinstance(node, Seq) else made[0]

    def _at_first(self, value: Expr, domain: Domain) -> Expr:
        """A value in the first iteration; binds the indices that it uses."""
        for var, bind in self.counting.items():
            if var in variables_of(value) and var not in self._first:
                self._first[var] = first = Var(var.name, var.dtype, index=var.index)
                self.preheader.append(Bind(first, self._at_first(bind.value, domain), loc=bind.loc))
        return simplify(substitute(value, self._first), domain)

    def _following(self, bind: Bind, domain: Domain, wraps: list[tuple[Binary, Expr]]) -> Expr | None:
        """The value that a remainder or quotient has in the next iteration; None if it is none that can be carried."""
        value, var = bind.value, bind.var
        if not isinstance(value, Binary) or not self._is_exact(value, domain):
            return None
        modulus = int_const(value.b) if value.op in _REMAINDERS else None
        if modulus is not None and self._counts(value.a):
            if modulus < 2 or is_power_of_two(modulus):
                return None
            self.counts.add(expr_key(self._resolved(value.a)))
            last = var == modulus - 1
            wraps.append((value, last))
            return select(last, const(0, var.dtype), var + 1)
        quotient = self._quotient(value if modulus is None else value.a)
        if quotient is None or not self._is_exact(quotient, domain):
            return None
        wrap = next((last for remainder, last in wraps if _wrap_together(remainder, quotient, domain)), None)
        if wrap is None:
            return None
        following = var + 1
        if modulus is not None:
            following = 1 - var if modulus == 2 else select(var == modulus - 1, const(0, var.dtype), var + 1)
        return select(wrap, following, var)

    def _counts(self, index: Expr) -> bool:
        """Whether an index increases by one from iteration to iteration.

        Counters are below 2**31, so that the mask by which they are provably not negative changes nothing.
        """
        if isinstance(index, Var) and index in self.counting:
            return True
        if isinstance(index, Binary) and index.op is BinaryOp.BITAND and int_const(index.b) == _ALL_COUNTS:
            index = index.a
        elif not index.is_index:
            return False
        return coefficient(index, self._loop.var) == 1 and self._is_invariant(index)

    def _resolved(self, expr: Expr) -> Expr:
        """An expression without variables that are bound to indices that count the iterations."""
        return substitute(expr, {var: bind.value for var, bind in self.counting.items()})

    def _is_exact(self, value: Binary, domain: Domain) -> bool:
        """Whether a division of an index rounds down."""
        low = bounds(self._resolved(value.a), domain).low
        return value.is_index and (value.op not in _TRUNCATING or low is not None and low >= 0)

    def _is_invariant(self, expr: Expr) -> bool:
        """Whether nothing but the loop's variable changes an expression."""
        return variables_of(expr).isdisjoint(self._changing) and all(
            load.buffer not in self._written and load.buffer.scope is Scope.VAR for load in loads_of(expr)
        )

    def _quotient(self, expr: Expr) -> Binary | None:
        """The quotient of a counting index in its sum with an invariant; None if the expression is no such sum."""
        if not isinstance(expr, Binary):
            return None
        if expr.op in _QUOTIENTS:
            return expr if self._counts(expr.a) and int_const(expr.b) is not None else None
        if expr.op is not BinaryOp.ADD:
            return None
        for part, rest in ((expr.a, expr.b), (expr.b, expr.a)):
            if self._loop.var not in variables_of(rest) and self._is_invariant(rest):
                return self._quotient(part)
        return None


def _wrap_together(remainder: Binary, quotient: Binary, domain: Domain) -> bool:
    """Whether a remainder is 0 wherever a quotient increases; the same number may be written in other terms in each."""
    modulus = int_const(quotient.b)
    if modulus is None or modulus != int_const(remainder.b):
        return False
    return int_const(simplify((remainder.a - quotient.a) % modulus, domain)) == 0


def _range_of(bind: Bind, domain: Domain) -> Expr:
    """That a variable is in the range of its value."""
    value, interval = bind.value, bounds(bind.value, domain)
    low, high = interval.low, interval.high
    if isinstance(value, Binary) and value.op in _REMAINDERS:
        low, high = 0, (int_const(value.b) or 1) - 1
    return conjunction([*([] if low is None else [bind.var >= low]), *([] if high is None else [bind.var <= high])])


def _run(func: PrimFunc, _: PassContext) -> PrimFunc:
    return with_body(func, _visit(func.body, of_function(func)))


PASS = Pass(
    "strength_reduce_remainders", _run, Level.THREAD, Level.THREAD,
    requires=(Property.EXPRESSIONS_SIMPLIFIED,),
)
