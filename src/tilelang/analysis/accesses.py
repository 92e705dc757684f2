"""Memory accesses of a statement: every element and region read or written in it, in program order.

Takes a statement, gives `Accesses`. Invariant: all accesses are listed, each with its context in the statement (loops,
conditions, bindings), from which callers derive when and how often it executes. Two buffers alias only if they share
`Buffer.storage`: distinct parameters are distinct memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from tilelang.analysis.reductions import Update, as_update
from tilelang.arith.domain import Domain
from tilelang.arith.exact import exactly
from tilelang.errors import Loc
from tilelang.ir.assumption import Assume
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.expr import Binary, Expr, Load, Select, Var, int_const, unary
from tilelang.ir.memoize import memoized
from tilelang.ir.scalar import LOGICAL, BinaryOp, UnaryOp
from tilelang.ir.sequences import memoized_on_sequence
from tilelang.ir.stmt import (
    Alloc,
    Atomic,
    AtomicOp,
    Bind,
    CallStmt,
    For,
    If,
    ParallelLoop,
    Print,
    Seq,
    Stmt,
    Store,
    TileOp,
    While,
)
from tilelang.ir.visit import children, defined_variables, expressions, jumps, loads_of, sub_statements
from tilelang.records import record

Loop = For | ParallelLoop | While


@record(slots=True, eq=False)
class Context:
    """The context of an access in the analyzed statement, as a linked list of steps.

    Attributes:
        outer: The context around this step; None for the outermost.
        loop: The loop entered by this step, if it is one.
        condition: The condition assumed by this step, if it is one.
        bound: The variable and value bound by this step, if it is one.
        assumption: The condition of `T.assume`, if this step is one; it says nothing of when the access is executed.
        uncertain: Whether the access may not be executed for reasons other than `condition`: a branch, an unknown trip
            count, `break` or `continue`.
    """

    outer: Context | None = None
    loop: Loop | None = None
    condition: Expr | None = None
    bound: tuple[Var, Expr] | None = None
    assumption: Expr | None = None
    uncertain: bool = False
    _domains: dict[tuple[int, bool], tuple[Domain, Domain]] = field(default_factory=dict)

    def loops(self) -> tuple[Loop, ...]:
        """The loops around the access, outermost first."""
        found: list[Loop] = []
        step: Context | None = self
        while step is not None:
            if step.loop is not None:
                found.append(step.loop)
            step = step.outer
        return tuple(reversed(found))

    def conditions(self) -> tuple[Expr, ...]:
        """The conditions that hold at the access, outermost first."""
        found: list[Expr] = []
        step: Context | None = self
        while step is not None:
            if step.condition is not None:
                found.append(step.condition)
            step = step.outer
        return tuple(reversed(found))

    def is_reached_by(self, other: Context) -> bool:
        """Whether the conditions here are implied by those of another context: its branch dominates it."""
        step: Context | None = self
        while step is not None and step.condition is None:
            step = step.outer
        around: Context | None = other
        while around is not None and around is not step:
            around = around.outer
        return around is step and not self.uncertain

    def domain(self, base: Domain) -> Domain:
        """The facts at the access, given those around the analyzed statement."""
        return self._domain(base, assumed=True)

    def named(self, base: Domain) -> Domain:
        """The facts without the conditions at the access: those on variables wherever they are visible."""
        return self._domain(base, assumed=False)

    def _domain(self, base: Domain, *, assumed: bool) -> Domain:
        if self.outer is None:
            return base
        cached = self._domains.get((id(base), assumed))
        if cached is not None and cached[0] is base:
            return cached[1]
        domain = self.outer._domain(base, assumed=assumed)
        match self.loop:
            case For(var=var, start=start, stop=stop, step=step):
                domain = domain.with_loop(var, start, stop, step)
            case ParallelLoop(vars=variables, extents=extents):
                for var, extent in zip(variables, extents, strict=True):
                    domain = domain.with_loop(var, 0, extent)
        if self.condition is not None and assumed:
            domain = domain.assume(self.condition)
        if self.bound is not None:
            domain = domain.with_value(*self.bound)
        if self.assumption is not None:
            domain = domain.assume(exactly(self.assumption))
        self._domains[id(base), assumed] = (base, domain)
        return domain


@record(slots=True, eq=False)
class Access:
    """One memory access in the program.

    Attributes:
        buffer: The accessed buffer, which may be a view.
        start: The element, or the first element of the region.
        extent: The extents of the region; None for a single element.
        write: Whether it writes; otherwise it reads.
        stmt: The statement with the access.
        position: Its position in program order among the accesses of the analyzed statement.
        context: Its context.
        update: The associative update that it is part of, as its write or its read of the old value.
        atomic: Whether it is atomic.
    """

    buffer: Buffer
    start: tuple[Expr, ...]
    extent: tuple[Expr, ...] | None
    write: bool
    stmt: Stmt
    position: int
    context: Context
    update: Update | None = None
    atomic: bool = False

    @property
    def loc(self) -> Loc:
        """Its location in the user's program."""
        return self.stmt.loc


@record(slots=True, eq=False)
class Accesses:
    """The memory accesses of a statement.

    Attributes:
        all: Every access, in program order; reads of a statement come before its writes.
        local: Buffers allocated in the statement: new ones in each execution.
        defined: Variables defined in the statement.
        values: The values of variables bound to index arithmetic in the statement.
        loops: Every loop in the statement, with its context.
    """

    all: tuple[Access, ...]
    local: frozenset[Buffer]
    defined: frozenset[Var]
    values: Mapping[Var, Expr]
    loops: tuple[tuple[Loop, Context], ...]

    @property
    def reads(self) -> tuple[Access, ...]:
        """The accesses that read."""
        return tuple(a for a in self.all if not a.write)

    @property
    def writes(self) -> tuple[Access, ...]:
        """The accesses that write."""
        return tuple(a for a in self.all if a.write)

    def by_storage(self) -> dict[Buffer, list[Access]]:
        """The accesses to memory that outlives the statement, by storage."""
        groups: dict[Buffer, list[Access]] = {}
        for access in self.all:
            storage = access.buffer.storage
            if storage not in self.local:
                groups.setdefault(storage, []).append(access)
        return groups


def accesses(stmt: Stmt) -> Accesses:
    """All memory accesses in a statement and everything below it; kept on sequences."""
    return memoized_on_sequence(stmt, "_accesses", (), lambda: _collected(stmt))


def _collected(stmt: Stmt) -> Accesses:
    collector = _Collector()
    collector.stmt(stmt, Context(uncertain=jumps(stmt)))
    return Accesses(
        tuple(collector.found),
        frozenset(collector.local),
        frozenset(collector.defined),
        collector.values,
        tuple(collector.loops),
    )


@record(slots=True)
class Storages:
    """The memory that a statement and everything below it access, by storage.

    Attributes:
        all: What they access.
        read: What they read.
        written: What they write.
    """

    all: frozenset[Buffer]
    read: frozenset[Buffer]
    written: frozenset[Buffer]


def storages(stmt: Stmt) -> Storages:
    """The memory that a statement and everything below it access; kept on the statement."""
    return memoized(stmt, "_storages", (), lambda: _storages(accesses(stmt)))


def _storages(found: Accesses) -> Storages:
    read, written = (frozenset(a.buffer.storage for a in part) for part in (found.reads, found.writes))
    return Storages(read | written, read, written)


def negation(condition: Expr) -> Expr:
    """The negation of a condition."""
    return unary(UnaryOp.NOT, condition)


class _Collector:
    def __init__(self) -> None:
        self.found: list[Access] = []
        self.local: set[Buffer] = set()
        self.defined: set[Var] = set()
        self.values: dict[Var, Expr] = {}
        self.loops: list[tuple[Loop, Context]] = []
        self._update: Update | None = None

    # -- statements -----------------------------------------------------------------------------------------
    def stmt(self, node: Stmt, context: Context) -> Context:
        """Collects a statement; gives the context of what follows it in the same sequence."""
        self.defined.update(defined_variables(node))
        match node:
            case Seq(body=body):
                inner = context
                for child in body:
                    inner = self.stmt(child, inner)
            case Store(buffer=buffer, indices=indices, value=value):
                self._store(node, buffer, indices, value, context)
            case Assume(value=condition):
                self._expr(condition, node, context)
                return Context(context, assumption=condition, uncertain=context.uncertain)
            case Bind(var=var, value=value):
                self._expr(value, node, context)
                if value.is_index and var.index:
                    self.values[var] = value
                    return Context(context, bound=(var, value), uncertain=context.uncertain)
            case Alloc(buffer=buffer, init=init):
                if buffer.view_of is None:
                    self.local.add(buffer)
                if init is not None:
                    self._expr(init, node, context)
                    self._add(buffer, (), None, node, context, write=True)
            case If(condition=condition, then_body=then_body, else_body=else_body):
                self._expr(condition, node, context)
                self.stmt(then_body, self._given(condition, context))
                if else_body is not None:
                    self.stmt(else_body, self._given(negation(condition), context))
            case For() | ParallelLoop() | While():
                self._loop(node, context)
            case Atomic():
                self._atomic(node, context)
            case TileOp():
                self._regions(node, node.reads(), node.writes(), context)
            case CallStmt(reads=reads, writes=writes):
                self._regions(node, reads, writes, context)
            case _:
                self._other(node, context)
        return context

    def _store(self, node: Store, buffer: Buffer, indices: tuple[Expr, ...], value: Expr, context: Context) -> None:
        self._update = as_update(node)
        for expr in (*indices, value):
            self._expr(expr, node, context)
        self._add(buffer, indices, None, node, context, write=True, update=self._update)
        self._update = None

    def _atomic(self, node: Atomic, context: Context) -> None:
        for expr in expressions(node):
            self._expr(expr, node, context)
        if node.op is not AtomicOp.STORE:
            self._add(node.buffer, node.indices, None, node, context, write=False, atomic=True)
        if node.op is not AtomicOp.LOAD:
            self._add(node.buffer, node.indices, None, node, context, write=True, atomic=True)

    def _loop(self, node: Loop, context: Context) -> None:
        self.loops.append((node, context))
        certain = False
        match node:
            case For(start=start, stop=stop, step=step):
                self._expr(start, node, context)
                self._expr(stop, node, context)
                first, last = int_const(start), int_const(stop)
                certain = first is not None and last is not None and len(range(first, last, step)) > 0
            case ParallelLoop(extents=extents):
                for extent in extents:
                    self._expr(extent, node, context)
                certain = all((int_const(extent) or 0) > 0 for extent in extents)
        uncertain = context.uncertain or not certain or jumps(node.body)
        inner = Context(context, loop=node, uncertain=uncertain)
        if isinstance(node, While):
            self._expr(node.condition, node, inner)
            inner = Context(inner, condition=node.condition, uncertain=True)
        self.stmt(node.body, inner)

    def _regions(self, node: Stmt, reads: Sequence[Region], writes: Sequence[Region], context: Context) -> None:
        for expr in expressions(node):
            self._expr(expr, node, context)
        for region in reads:
            self._add(region.buffer, region.start, region.extent, node, context, write=False)
        for region in writes:
            self._add(region.buffer, region.start, region.extent, node, context, write=True)

    def _other(self, node: Stmt, context: Context) -> None:
        if isinstance(node, Print) and isinstance(node.operand, Region):
            self._regions(node, (node.operand,), (), context)
            return
        for expr in expressions(node):
            self._expr(expr, node, context)
        for child in sub_statements(node):
            self.stmt(child, Context(context, uncertain=True))

    @staticmethod
    def _given(condition: Expr, context: Context) -> Context:
        return Context(context, condition=condition, uncertain=context.uncertain)

    # -- expressions ----------------------------------------------------------------------------------------
    def _expr(self, node: Expr, stmt: Stmt, context: Context) -> None:
        if loads_of(node):
            self._loads(node, stmt, context)

    def _loads(self, node: Expr, stmt: Stmt, context: Context) -> None:
        match node:
            case Load(buffer=buffer, indices=indices):
                for index in indices:
                    self._expr(index, stmt, context)
                old = self._update is not None and any(load is node for load in self._update.previous)
                self._add(buffer, indices, None, stmt, context, write=False, update=self._update if old else None)
            case Select(condition=condition, a=a, b=b):
                self._expr(condition, stmt, context)
                self._expr(a, stmt, self._given(condition, context))
                self._expr(b, stmt, self._given(negation(condition), context))
            case Binary(op=op, a=a, b=b) if op in LOGICAL:
                self._expr(a, stmt, context)
                reached = a if op is BinaryOp.AND else negation(a)
                self._expr(b, stmt, self._given(reached, context))
            case _:
                for child in children(node):
                    if loads_of(child):
                        self._loads(child, stmt, context)

    def _add(
        self,
        buffer: Buffer,
        start: tuple[Expr, ...],
        extent: tuple[Expr, ...] | None,
        stmt: Stmt,
        context: Context,
        *,
        write: bool,
        update: Update | None = None,
        atomic: bool = False,
    ) -> None:
        position = len(self.found)
        self.found.append(Access(buffer, start, extent, write, stmt, position, context, update, atomic))
