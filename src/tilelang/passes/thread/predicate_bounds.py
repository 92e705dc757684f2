"""Predicates accesses to global memory that are not proven to be in bounds.

Takes a thread-level function in which an out-of-bounds load gives the safe value and an out-of-bounds store is dropped;
gives one without out-of-bounds accesses. With `splitting` (CPU), a loop with bounds checks that are monotone in its
variable is split into a main part without checks and remainders before and after it; iterations keep their order.
Remaining checks are predicates of the access, as are all on a GPU, where duplicated code costs more than a predicate.
A vector access has one predicate.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from tilelang.analysis.bounds_checks import bounds_checks
from tilelang.analysis.clobbers import Clobbers
from tilelang.analysis.split_loops import Split, plan_split
from tilelang.arith.domain import Domain, facts_after, of_function
from tilelang.arith.exact import bind_exact, exact, exactly
from tilelang.arith.interval import NEGATED
from tilelang.arith.prove import decide
from tilelang.arith.simplify import simplify
from tilelang.dtypes import BOOL, INT32, DType
from tilelang.ir.assumption import Assume, loaded_buffers
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.compare import ExprKey, expr_key
from tilelang.ir.expr import (
    Binary,
    Const,
    Expr,
    Load,
    Reinterpret,
    Select,
    Var,
    binary,
    cast,
    conjunction,
    conjuncts,
    const,
    select,
    unary,
)
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.scalar import BinaryOp, UnaryOp
from tilelang.ir.sequences import with_statements
from tilelang.ir.stmt import Alloc, Atomic, Bind, CallStmt, For, If, Launch, Seq, Stmt, Store, While
from tilelang.ir.visit import Rewriter
from tilelang.isa.instruction import Instruction
from tilelang.passes.base import Pass, PassContext, with_launches
from tilelang.passes.properties import Property

Safe = Mapping[Buffer, Expr]
Ends = Mapping[ExprKey, tuple[Expr, list[Expr]]]


class _PredicateBounds:
    """The rewriter; `_open` collects every bounds check that could not be decided statically."""

    def __init__(self, safe: Safe, memory: Clobbers) -> None:
        self._safe, self._memory = safe, memory
        self._open: list[Expr] = []
        self._assumed: frozenset[ExprKey] = frozenset()  # checks that an outer loop was versioned by

    # -- statements -------------------------------------------------------------------------------------------
    def stmt(self, node: Stmt, domain: Domain, *, splitting: bool) -> Stmt | None:
        """The statement with bounds checks; None if it is dropped."""
        with node.loc:
            match node:
                case Seq():
                    return self._seq(node, domain, splitting=splitting)
                case For():
                    return self._for(node, domain, splitting=splitting)
                case If():
                    return self._if(node, domain, splitting=splitting)
                case While():
                    domain = self._memory.after(node.body, domain)
                    body = self.stmt(node.body, domain, splitting=splitting) or Seq((), loc=node.loc)
                    return dataclasses.replace(node, condition=self._value(node.condition, domain), body=body)
                case Store():
                    return self._store(node, domain)
                case Atomic():
                    return self._atomic(node, domain)
                case Assume(value=condition):
                    own = all(buffer.scope in _OWN for buffer in loaded_buffers(condition))
                    return node if own else None  # dropped, so that later passes need not order its loads
                case CallStmt(routine=Instruction() as instruction) if instruction.predicate is not None:
                    return self._call(node, instruction.predicate, domain)
            return _Expressions(self, domain).rebuild_stmt(node)

    def _seq(self, node: Seq, domain: Domain, *, splitting: bool) -> Stmt | None:
        body: list[Stmt] = []
        for child in node.body:
            new = self.stmt(child, domain, splitting=splitting)
            if isinstance(child, Atomic) and isinstance(new, Seq):
                body.extend(new.body)
            elif new is not None:
                body.append(new)
            if isinstance(child, Assume):
                domain = domain.assume(exactly(child.value), momentary=True)  # until memory that it reads is written
            else:
                domain = self._memory.after(child, facts_after(child, domain))
        rewritten = with_statements(node, body)
        return rewritten if rewritten is node or body else None

    def _if(self, node: If, domain: Domain, *, splitting: bool) -> Stmt | None:
        condition = self._value(node.condition, domain)
        truth = decide(condition, domain)
        if truth is not None:
            chosen = node.then_body if truth else node.else_body
            return None if chosen is None else self.stmt(chosen, domain, splitting=splitting)
        self._open.extend(test for test in conjuncts(condition) if decide(test, domain) is None)
        then = self.stmt(node.then_body, domain.assume(condition), splitting=splitting)
        other = node.else_body and self.stmt(node.else_body, domain.assume(_not(condition)), splitting=splitting)
        if then is None and other is None:
            return None
        if condition is node.condition and then is node.then_body and other is node.else_body:
            return node
        then_body = then or Seq((), loc=node.loc)
        return dataclasses.replace(node, condition=condition, then_body=then_body, else_body=other)

    def _store(self, node: Store, domain: Domain) -> Stmt | None:
        indices = self._values(node.indices, domain)
        tests = self._bounds_checks(node.buffer, indices, domain, _reach(node.buffer, node.value.dtype))
        if tests is None:
            return None
        inside = _with_facts(domain, tests)
        value = self._value(node.value, inside)
        if not tests and indices is node.indices and value is node.value:
            return node
        store = Store(node.buffer, indices, value, loc=node.loc)
        return If(conjunction(tests), store, loc=node.loc) if tests else store

    def _atomic(self, node: Atomic, domain: Domain) -> Stmt | None:
        """An atomic out of bounds is dropped, and its result is 0."""
        indices = self._values(node.indices, domain)
        value, compare = (None if e is None else self._value(e, domain) for e in (node.value, node.compare))
        reach = () if value is None else _reach(node.buffer, value.dtype)
        tests = self._bounds_checks(node.buffer, indices, domain, reach)
        dtype, result = node.buffer.dtype, node.result
        if tests is None:
            return None if result is None else Bind(result, const(0, dtype), loc=node.loc)
        if result is None or not tests:
            atomic = dataclasses.replace(node, indices=indices, value=value, compare=compare)
            return If(conjunction(tests), atomic, loc=node.loc) if tests else atomic
        previous, seen = Var(result.name, dtype), Buffer(result.name, (), dtype, Scope.VAR)
        atomic = dataclasses.replace(node, indices=indices, value=value, compare=compare, result=previous)
        taken = Seq((atomic, Store(seen, (), previous, loc=node.loc)), loc=node.loc)
        parts = (
            Alloc(seen, const(0, dtype), loc=node.loc),
            If(conjunction(tests), taken, loc=node.loc),
            Bind(result, Load(seen, (), dtype), loc=node.loc),
        )
        return Seq(parts, loc=node.loc)  # `_seq` inlines it, so that the result is visible afterwards

    def _call(self, node: CallStmt, predicate: int, domain: Domain) -> Stmt | None:
        """An instruction with a predicate operand of its own: bounds checks are added to that operand."""
        rebuilt = _Expressions(self, domain).rebuild_stmt(node)
        assert isinstance(rebuilt, CallStmt)
        first = rebuilt.args[predicate]
        assert isinstance(first, Expr)
        predicate_value, inside = first, domain.assume(first)
        for region in rebuilt.args:
            if isinstance(region, Region):
                tests = self._bounds_checks(region.buffer, region.start, inside, region.extent)
                predicate_value = const(False, BOOL) if tests is None else conjunction((predicate_value, *tests))
        if predicate_value is first:
            return rebuilt
        args = tuple(predicate_value if n == predicate else arg for n, arg in enumerate(rebuilt.args))
        return dataclasses.replace(rebuilt, args=args)

    # -- loops ------------------------------------------------------------------------------------------------
    def _for(self, node: For, domain: Domain, *, splitting: bool) -> Stmt | None:
        start, stop = self._value(node.start, domain), self._value(node.stop, domain)
        domain = self._memory.after(node.body, domain)
        if start is not node.start or stop is not node.stop:
            node = dataclasses.replace(node, start=start, stop=stop)
        mark = len(self._open)
        predicated = self._whole(node, domain, splitting=False)
        tests = self._open[mark:]
        if not splitting or not tests:
            return predicated
        split = plan_split(node, [test for test in tests if expr_key(test) not in self._assumed])
        if not split.invariant and not split.varying:
            del self._open[mark:]
            return self._whole(node, domain, splitting=True)
        if split.invariant:
            return self._version(node, domain, split.invariant)
        return self._split(node, domain, split)

    def _whole(self, node: For, domain: Domain, *, splitting: bool) -> Stmt | None:
        inside = domain.with_loop(node.var, node.start, node.stop, node.step)
        body = self.stmt(node.body, inside, splitting=splitting)
        if body is None:
            return None
        return node if body is node.body else dataclasses.replace(node, body=body)

    def _version(self, node: For, domain: Domain, tests: list[Expr]) -> Stmt | None:
        """Loop versioning: the loop without its invariant checks if they hold, else with them."""
        by_key = {expr_key(test): test for test in tests}
        condition, single = conjunction(by_key.values()), len(by_key) == 1
        outside, self._assumed = self._assumed, self._assumed | by_key.keys()
        fast = self._for(node, _with_facts(domain, tests), splitting=True)
        slow = self._for(node, domain.assume(_not(tests[0])) if single else domain, splitting=single)
        self._assumed = outside
        if fast is None and slow is None:
            return None
        return If(condition, fast or Seq((), loc=node.loc), slow, loc=node.loc)

    def _split(self, node: For, domain: Domain, split: Split) -> Stmt | None:
        """Loop splitting: the main part, where all checks hold, and the remainders before and after it."""
        parts: list[Stmt] = []

        def limit(suffix: str, value: Expr) -> Expr:
            if isinstance(value, Const | Var):
                return value
            bound = bind_exact(f"{node.var.name}_{suffix}", value, node.loc)
            parts.append(bound)
            return bound.var

        begin, end = start, stop = exact(node.start), exact(node.stop)
        if split.lower:
            lows = [low for low, _ in split.lower.values()]
            begin = limit("begin", simplify(_clamped(_fold(BinaryOp.MAX, lows), start, stop, domain), domain))
        if split.upper:
            highs = [high for high, _ in split.upper.values()]
            end = limit("end", simplify(_clamped(_fold(BinaryOp.MIN, highs), begin, stop, domain), domain))
        inside = domain
        for part in parts:
            if isinstance(part, Bind):
                inside = inside.with_value(part.var, part.value)
        if split.lower:
            parts.append(self._end(dataclasses.replace(node, stop=begin), inside, split.lower))
        middle = dataclasses.replace(node, start=begin, stop=end)
        parts.append(self._middle(middle, inside, split.varying))
        if split.upper:
            parts.append(self._end(dataclasses.replace(node, start=end), inside, split.upper))
        left = [part for part in parts if part is not _NOTHING]
        return Seq(tuple(left), loc=node.loc) if any(not isinstance(part, Bind) for part in left) else None

    def _middle(self, loop: For, domain: Domain, tests: list[Expr]) -> Stmt:
        inside = domain.with_loop(loop.var, loop.start, loop.stop)
        body = self.stmt(loop.body, _with_facts(inside, tests), splitting=True)
        return _NOTHING if body is None else dataclasses.replace(loop, body=body)

    def _end(self, loop: For, domain: Domain, ends: Ends) -> Stmt:
        """A remainder loop; a check that alone determines its limit fails there."""
        inside = domain.with_loop(loop.var, loop.start, loop.stop)
        single = len(ends) == 1
        if single:
            for _, tests in ends.values():
                for test in tests:
                    inside = inside.assume(_not(test))
        body = self.stmt(loop.body, inside, splitting=single)
        return _NOTHING if body is None else dataclasses.replace(loop, body=body)

    # -- expressions ------------------------------------------------------------------------------------------
    def _bounds_checks(
        self, buffer: Buffer, indices: tuple[Expr, ...], domain: Domain, reach: tuple[Expr, ...] = ()
    ) -> list[Expr] | None:
        if buffer.scope is not Scope.GLOBAL:
            return []
        tests = bounds_checks(buffer, indices, domain, reach)
        self._open.extend(tests or ())
        return tests

    def load(self, node: Load, indices: tuple[Expr, ...], domain: Domain) -> Expr:
        """A load that gives the safe value out of bounds."""
        reach = _reach(node.buffer, node.dtype)
        tests = self._bounds_checks(node.buffer, indices, domain, reach)
        outside: Expr | None = Const(0, node.dtype) if reach or node.dtype.lanes == 1 else None
        if not reach:
            outside = self._safe.get(node.buffer.storage, outside)
        if tests is None and outside is not None:
            # a bare integer would turn the data arithmetic around it into index arithmetic, which does not wrap
            return Reinterpret(outside, node.dtype) if node.dtype.is_int else outside
        new = node if indices is node.indices else Load(node.buffer, indices, node.dtype)
        return select(conjunction(tests), new, outside) if tests and outside is not None else new

    def _value(self, expr: Expr, domain: Domain) -> Expr:
        return _Expressions(self, domain).expr(expr)

    def _values(self, exprs: tuple[Expr, ...], domain: Domain) -> tuple[Expr, ...]:
        return _Expressions(self, domain).exprs(exprs)


class _Expressions(Rewriter):
    """Predicates the loads of expressions; the sides of a select may rely on its condition."""

    def __init__(self, rewriter: _PredicateBounds, domain: Domain) -> None:
        self._rewriter, self._domain = rewriter, domain

    def expr(self, node: Expr) -> Expr:
        match node:
            case Const() | Var():
                return node
            case Load():
                return self._rewriter.load(node, self.exprs(node.indices), self._domain)
            case Select(condition=c, a=a, b=b):
                test = self.expr(c)
                x, y = self._under(a, test), self._under(b, _not(test))
                return node if test is c and x is a and y is b else select(test, x, y)
            case Binary(op=BinaryOp.AND | BinaryOp.OR as op, a=a, b=b):
                x = self.expr(a)
                y = self._under(b, x if op is BinaryOp.AND else _not(x))
                return node if x is a and y is b else binary(op, x, y)
        return self.rebuild_expr(node)

    def _under(self, node: Expr, condition: Expr) -> Expr:
        if isinstance(node, Const | Var):
            return node
        return _Expressions(self._rewriter, self._domain.assume(condition, momentary=True)).expr(node)


_NOTHING = Seq(())
_OWN = (Scope.VAR, Scope.LOCAL)  # memory private to a thread, or to a block on a CPU


def _reach(buffer: Buffer, dtype: DType) -> tuple[Expr, ...]:
    """The extent of a vector access per dimension; empty for an access to one element."""
    lanes = dtype.lanes // buffer.dtype.lanes
    ones = (const(1, INT32),) * (buffer.rank - 1)
    return () if lanes == 1 else (*ones, const(lanes, INT32))


def _with_facts(domain: Domain, tests: Iterable[Expr]) -> Domain:
    for test in tests:
        domain = domain.assume(test)
    return domain


def _not(condition: Expr) -> Expr:
    if isinstance(condition, Binary) and condition.op in NEGATED and condition.a.dtype.is_int:
        return binary(NEGATED[condition.op], condition.a, condition.b)
    return unary(UnaryOp.NOT, condition)


def _fold(op: BinaryOp, values: list[Expr]) -> Expr:
    result = values[0]
    for value in values[1:]:
        result = binary(op, result, value)
    return result


def _clamped(value: Expr, low: Expr, high: Expr, domain: Domain) -> Expr:
    """`min(max(value, low), high)`, without operations known to be redundant."""
    if decide(value <= high, domain) is not True:
        value = binary(BinaryOp.MIN, value, high)
    if decide(value >= low, domain) is not True:
        value = binary(BinaryOp.MAX, value, low)
    return value


def _predicate_launch(launch: Launch, domain: Domain, *, splitting: bool) -> Launch:
    domain = domain.with_extents(launch.block_vars, launch.grid)
    if launch.thread is not None:
        domain = domain.with_range(launch.thread, 0, launch.num_threads - 1)
    safe = {buffer.storage: cast(value, buffer.dtype) for buffer, value in launch.hints.safe_values}
    body = _PredicateBounds(safe, Clobbers(launch.body)).stmt(launch.body, domain, splitting=splitting)
    return launch if body is launch.body else dataclasses.replace(launch, body=body or Seq((), loc=launch.loc))


def predicate_bounds(*, splitting: bool) -> Pass:
    """The pass with or without loop splitting."""

    def run(func: PrimFunc, _: PassContext) -> PrimFunc:
        domain = of_function(func)
        return with_launches(func, lambda launch: _predicate_launch(launch, domain, splitting=splitting))

    return Pass(
        "predicate_bounds", run, Level.THREAD, Level.THREAD,
        requires=(Property.ACCESSES_UNPREDICATED,),
        establishes=(Property.ACCESSES_IN_RANGE,),
        invalidates=(Property.ACCESSES_UNPREDICATED,),
    )


PASS = predicate_bounds(splitting=True)
