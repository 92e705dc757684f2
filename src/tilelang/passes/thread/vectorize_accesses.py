"""Lowers vectorized loops to vector accesses of up to 16 bytes and an unrolled scalar loop.

Takes thread-level loops of kind VECTORIZED, gives none: accesses to global and shared memory that are provably aligned,
and in bounds as a whole or not at all, become vector loads before and vector stores after an unrolled loop over the
lanes; all other accesses remain in that loop.

    for w in vectorized(8):                      x_lanes[0:8] = x[i * 8 : i * 8 + 8]
        s[i * 8 + w] = x[i * 8 + w] * 2    =>    for w in unroll(8): s_lanes[w] = x_lanes[w] * 2
                                                 s[i * 8 : i * 8 + 8] = s_lanes[0:8]

Invariant: the same elements are read and written, and accesses to one element keep their order.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

from tilelang.analysis.access_width import MEMORY, ZERO, Facts, nonzero_safe, vector_width
from tilelang.arith.domain import Domain, facts_after, of_function, visit_in_order
from tilelang.arith.prove import decide
from tilelang.dtypes import INT32, DType, as_dtype
from tilelang.errors import Loc
from tilelang.ir.assumption import Assume, loaded_buffers, of_all_iterations
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.builder import as_body
from tilelang.ir.compare import ExprKey, expr_key, same_expr
from tilelang.ir.expr import (
    Binary,
    Const,
    Expr,
    Load,
    Select,
    Var,
    as_expr,
    conjunction,
    const,
    int_const,
    select,
    unary,
)
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.scalar import LOGICAL, BinaryOp, UnaryOp
from tilelang.ir.stmt import Alloc, Atomic, Bind, CallStmt, For, ForKind, If, Launch, Print, Seq, Stmt, Store, While
from tilelang.ir.visit import (
    Rewriter,
    children,
    expressions,
    jumps,
    loads_of,
    sub_statements,
    substitute,
    substitute_stmt,
    walk,
    walk_expr,
    without,
    written_buffers,
)
from tilelang.isa.instruction import Instruction
from tilelang.passes.base import Pass, PassContext, with_body
from tilelang.passes.properties import Property
from tilelang.passes.thread.uniform_conditions import with_uniform_conditions
from tilelang.records import record

_MAX_LANES = 64  # longer loops are not unrolled

Copies = Mapping[int, Instruction]
"""Asynchronous copies from global to shared memory, by bytes per thread; arguments are the destination, the source and
a predicate, which zero-fills the destination if false."""


# -- one loop ----------------------------------------------------------------------------------------------------
@record(slots=True)
class _Access:
    """An access in the loop's body.

    Attributes:
        buffer: The accessed buffer.
        indices: Its subscripts, with bindings of index arithmetic inlined.
        node: The load or the store.
        position: Its position in program order.
        unconditional: Whether it is executed in every iteration, or under loop-invariant `conditions` only.
        conditions: The conditions under which it is executed.
    """

    buffer: Buffer
    indices: tuple[Expr, ...]
    node: Load | Store
    position: int
    unconditional: bool
    conditions: tuple[Expr, ...]


class _Body:
    """Collects the accesses of a loop's body."""

    def __init__(self, loop: For) -> None:
        self._var = loop.var
        self._values: dict[Var, Expr] = {}
        self._varying: set[Var] = {loop.var}
        self._written = _written(loop.body)
        self.accesses: list[_Access] = []
        self._stmt(loop.body, unconditional=True)

    def _stmt(self, node: Stmt, *, unconditional: bool) -> None:
        match node:
            case Seq(body=body):
                for child in body:
                    self._stmt(child, unconditional=unconditional)
            case Store(buffer=buffer, indices=indices, value=value):
                for expr in (*indices, value):
                    self._expr(expr, unconditional, ())
                self._add(buffer, indices, node, unconditional, ())
            case Bind(var=var, value=value):
                self._expr(value, unconditional, ())
                self._varying.add(var)
                if var.index and value.is_index:
                    self._values[var] = value
            case _:
                for expr in expressions(node):
                    self._expr(expr, unconditional and isinstance(node, Alloc | If), ())
                for child in sub_statements(node):
                    self._stmt(child, unconditional=False)

    def _expr(self, node: Expr, unconditional: bool, conditions: tuple[Expr, ...]) -> None:
        if not loads_of(node):
            return
        match node:
            case Select(condition=condition, a=a, b=b):
                self._expr(condition, unconditional, conditions)
                fixed = unconditional and self._is_invariant(condition)
                self._expr(a, fixed, (*conditions, condition))
                self._expr(b, fixed, (*conditions, unary(UnaryOp.NOT, condition)))
            case Binary(op=op, a=a, b=b) if op in LOGICAL:
                self._expr(a, unconditional, conditions)
                reached = a if op is BinaryOp.AND else unary(UnaryOp.NOT, a)
                self._expr(b, unconditional and self._is_invariant(a), (*conditions, reached))
            case _:
                for child in children(node):
                    self._expr(child, unconditional, conditions)
                if isinstance(node, Load):
                    self._add(node.buffer, node.indices, node, unconditional, conditions)

    def _is_invariant(self, condition: Expr) -> bool:
        """Whether a condition is loop-invariant."""
        return not any(self._varies(e) for e in walk_expr(condition))

    def _varies(self, node: Expr) -> bool:
        if isinstance(node, Load):
            return node.buffer.storage in self._written
        return isinstance(node, Var) and node in self._varying

    def _add(
        self,
        buffer: Buffer,
        indices: tuple[Expr, ...],
        node: Load | Store,
        unconditional: bool,
        conditions: tuple[Expr, ...],
    ) -> None:
        resolved = tuple(self._resolved(index) for index in indices)
        inner = any(self._varies(e) and e is not self._var for index in resolved for e in walk_expr(index))
        unconditional &= not inner
        self.accesses.append(_Access(buffer, resolved, node, len(self.accesses), unconditional, conditions))

    def _resolved(self, index: Expr) -> Expr:
        while any(isinstance(e, Var) and e in self._values for e in walk_expr(index)):
            index = substitute(index, self._values)
        return index


def _written(body: Stmt) -> frozenset[Buffer]:
    return frozenset(buffer.storage for stmt in walk(body) for buffer in written_buffers(stmt))


class _VectorizeLoop:
    """Lowers one loop to vector accesses."""

    def __init__(self, loop: For, trips: int, domain: Domain, facts: Facts, copies: Copies) -> None:
        self._loop, self._trips, self._domain, self._facts, self._copies = loop, trips, domain, facts, copies
        self._accesses = _Body(loop).accesses
        self._before: list[Stmt] = []
        self._after: list[Stmt] = []
        self._other = Var(f"{loop.var.name}_other", loop.var.dtype, index=True)  # the variable in another iteration
        self._domain_of_two = domain.with_loop(loop.var, 0, trips).with_loop(self._other, 0, trips)
        self._apart: dict[frozenset[tuple[ExprKey, ...]], bool] = {}  # by the indices of two accesses

    def lower(self) -> Stmt:
        """Vector loads, the loop over lanes, vector stores."""
        loop = self._loop
        if jumps(loop.body) or any(isinstance(s, Atomic | CallStmt | Print | While) for s in walk(loop.body)):
            return self._lane_loop(loop.body)
        direct = self.asynchronous() or self._vector_copy()
        if direct is not None:
            return direct
        by_load: dict[Load, list[_Access]] = {}  # one expression may be used in several positions
        for access in self._accesses:
            if isinstance(access.node, Load):
                by_load.setdefault(access.node, []).append(access)
        loads = {accesses[0]: lanes for accesses in by_load.values() if (lanes := self._load_width(accesses)) > 1}
        stores = {access.node: lanes for access in self._accesses if (lanes := self._store_width(access)) > 1}
        if not loads and not stores:
            return self._lane_loop(loop.body)
        replaced: dict[Load | Store, Buffer] = {}
        for access in self._accesses:
            if access in loads:
                replaced[access.node] = self._preload(access, loads[access], replaced)
            elif access.node in stores:
                replaced[access.node] = self._store_back(access, stores[access.node])
        body = _Replace(replaced, loop.var).visit(loop.body) or Seq((), loc=loop.loc)
        return Seq((*self._before, self._lane_loop(body), *self._after), loc=loop.loc)

    def _lane_loop(self, body: Stmt) -> Stmt:
        kind = ForKind.UNROLLED if self._trips <= _MAX_LANES else ForKind.SERIAL
        return dataclasses.replace(self._loop, body=body, kind=kind)

    def _width(self, access: _Access) -> int:
        return vector_width(access.buffer, access.indices, self._loop.var, self._trips, self._domain, self._facts)

    def _aliasing(self, access: _Access, *, stores: bool) -> list[_Access]:
        kind = Store if stores else Load
        same = [o for o in self._accesses if o.buffer.storage is access.buffer.storage and o is not access]
        return [o for o in same if isinstance(o.node, kind) and not self._never_alias(o, access)]

    def _never_alias(self, a: _Access, b: _Access) -> bool:
        """Whether two accesses never have the same element in different iterations, as in halves of a row."""
        if a.buffer is not b.buffer or not a.unconditional or not b.unconditional:
            return False
        key = frozenset((tuple(map(expr_key, a.indices)), tuple(map(expr_key, b.indices))))
        if key not in self._apart:
            domain, other = self._domain_of_two, {self._loop.var: self._other}
            pairs = ((x, substitute(y, other)) for x, y in zip(a.indices, b.indices, strict=True))
            self._apart[key] = any(decide(x < y, domain) or decide(x > y, domain) for x, y in pairs)
        return self._apart[key]

    # -- legality of moving accesses out of the loop ----------------------------------------------------------------
    def _load_width(self, accesses: Sequence[_Access]) -> int:
        """Lanes of a vector load before the loop, 1 if illegal: nothing in the loop may write the elements before."""
        first = accesses[0]
        if not first.unconditional or first.buffer.scope not in MEMORY:
            return 1
        for access in accesses:
            if not _are_same(first.conditions, access.conditions[: len(first.conditions)]):
                return 1
            for other in self._aliasing(access, stores=True):
                if other.position < access.position or not _same(other, access):
                    return 1
        return self._width(first)

    def _store_width(self, access: _Access) -> int:
        """Lanes of a vector store after the loop, 1 if illegal: nothing in the loop may access the element after it."""
        if not access.unconditional or isinstance(access.node, Load) or access.buffer.scope not in MEMORY:
            return 1
        if self._aliasing(access, stores=True):
            return 1
        for other in self._aliasing(access, stores=False):
            if other.position > access.position or not _same(other, access):
                return 1
        return self._width(access)

    # -- code -----------------------------------------------------------------------------------------------------
    def asynchronous(self) -> Stmt | None:
        """The copy instructions of an asynchronous store, if the machine has some for this vector length."""
        body = self._loop.body
        if not isinstance(body, Store) or not body.asynchronous:
            return None
        *others, target = self._accesses
        load = _loaded(body.value)
        source = next((access for access in others if access.node is load), None)
        if source is None or not target.unconditional or not source.unconditional:
            return None
        lanes = min(self._width(target), self._width(source))
        copy = self._copies.get(lanes * target.buffer.dtype.storage_bytes)
        if copy is None:
            return None
        copies = []
        for first in self._starts(lanes):
            into, out_of = (self._run(access, first, lanes) for access in (target, source))
            arguments = into, out_of, conjunction(source.conditions)
            copies.append(CallStmt(copy, arguments, (out_of,), (into,), loc=body.loc))
        return as_body(copies, body.loc)

    def _run(self, access: _Access, first: int, lanes: int) -> Region:
        extent = (*(const(1, INT32) for _ in access.indices[1:]), const(lanes, INT32))
        return Region(access.buffer, self._at(access, first), extent)

    def _vector_copy(self) -> Stmt | None:
        """An unconditional move of neighbors, which needs no lanes."""
        body = self._loop.body
        if not isinstance(body, Store) or len(self._accesses) > 2 or self._accesses[-1].node is not body:
            return None
        if all(access.buffer.scope not in MEMORY for access in self._accesses):
            return None
        target = self._accesses[-1]
        lanes = self._width(target)
        if isinstance(body.value, Load) and body.value is self._accesses[0].node and len(self._accesses) == 2:
            source = self._accesses[0]
            if not target.unconditional or not source.unconditional or source.buffer.storage is target.buffer.storage:
                return None
            lanes = min(lanes, self._width(source))
            stores = [self._vector_store(target, n, self._vector_load(source, n, lanes)) for n in self._starts(lanes)]
        elif _is_zero(body.value) and target.unconditional and len(self._accesses) == 1:
            assert isinstance(body.value, Const)
            zero = Const(body.value.value, _vector(target.buffer.dtype, lanes))
            stores = [self._vector_store(target, n, zero) for n in self._starts(lanes)]
        else:
            return None
        return None if lanes == 1 else as_body(stores, body.loc)

    def _starts(self, lanes: int) -> range:
        return range(0, self._trips, lanes)

    def _at(self, access: _Access, first: int) -> tuple[Expr, ...]:
        return tuple(substitute(index, {self._loop.var: const(first, INT32)}) for index in access.indices)

    def _vector_load(self, access: _Access, first: int, lanes: int) -> Expr:
        return Load(access.buffer, self._at(access, first), _vector(access.buffer.dtype, lanes))

    def _vector_store(self, access: _Access, first: int, value: Expr) -> Stmt:
        return Store(access.buffer, self._at(access, first), value, loc=self._loc(access))

    def _loc(self, access: _Access) -> Loc:
        return access.node.loc if isinstance(access.node, Store) else self._loop.loc

    def _staging_buffer(self, access: _Access) -> Buffer:
        name = f"{access.buffer.name}_lanes"
        buffer = Buffer(name, (as_expr(self._trips),), access.buffer.dtype, Scope.LOCAL)
        self._before.append(Alloc(buffer, loc=self._loop.loc))
        return buffer

    def _preload(self, access: _Access, lanes: int, loaded: Mapping[Load | Store, Buffer]) -> Buffer:
        for other in self._accesses[: access.position]:  # reuse a load of the same elements
            if other.node in loaded and isinstance(other.node, Load) and _same(other, access) and not access.conditions:
                if not other.conditions:
                    return loaded[other.node]
        staging = self._staging_buffer(access)
        for first in self._starts(lanes):
            value = self._vector_load(access, first, lanes)
            if access.conditions:
                value = select(conjunction(access.conditions), value, Const(0, value.dtype))
            self._before.append(Store(staging, (const(first, INT32),), value, loc=self._loop.loc))
        return staging

    def _store_back(self, access: _Access, lanes: int) -> Buffer:
        staging = self._staging_buffer(access)
        for first in self._starts(lanes):
            value = Load(staging, (const(first, INT32),), _vector(staging.dtype, lanes))
            self._after.append(self._vector_store(access, first, value))
        return staging


class _Replace(Rewriter):
    """Replaces accesses by elements of the staging arrays."""

    def __init__(self, replaced: Mapping[Load | Store, Buffer], var: Var) -> None:
        self._replaced, self._var = replaced, var

    def expr(self, node: Expr) -> Expr:
        if isinstance(node, Load) and node in self._replaced:
            return Load(self._replaced[node], (self._var,), node.dtype)
        return self.rebuild_expr(node)

    def stmt(self, node: Stmt) -> Stmt | None:
        if isinstance(node, Store) and node in self._replaced:
            return Store(self._replaced[node], (self._var,), self.expr(node.value), loc=node.loc)
        return self.rebuild_stmt(node)


def _is_zero(value: Expr) -> bool:
    """Whether all bits of a value are 0."""
    return isinstance(value, Const) and value.value == 0 and math.copysign(1, value.value) > 0


def _loaded(value: Expr) -> Expr:
    """The load in a select between a load and zero."""
    while isinstance(value, Select):
        value = value.b if _is_zero(value.a) else value.a
    return value


def _same(a: _Access, b: _Access) -> bool:
    return a.buffer is b.buffer and all(same_expr(x, y) for x, y in zip(a.indices, b.indices, strict=True))


def _vector(dtype: DType, lanes: int) -> DType:
    return as_dtype(f"{dtype!s}x{lanes}") if lanes > 1 else dtype


# -- all loops ---------------------------------------------------------------------------------------------------
class _Vectorize:
    """Rewrites statements, given the facts that hold at each."""

    def __init__(self, facts: Facts, copies: Copies, *, in_lanes: bool = False) -> None:
        self._facts, self._copies, self._in_lanes = facts, copies, in_lanes

    def stmt(self, node: Stmt, domain: Domain) -> Stmt:
        """The statement without loops of kind VECTORIZED."""
        with node.loc:
            match node:
                case Launch():
                    return self._launch(node, domain)
                case Seq():
                    return visit_in_order(node, domain, self.stmt)
                case Store(asynchronous=True) if not self._in_lanes:
                    alone = For(Var("lane", INT32, index=True), ZERO, const(1, INT32), 1, ForKind.VECTORIZED, node)
                    return _VectorizeLoop(alone, 1, domain, self._facts, self._copies).asynchronous() or node
                case For(kind=ForKind.VECTORIZED):
                    return self._vector_loop(node, domain)
                case For():
                    inside = domain.with_loop(node.var, node.start, node.stop, node.step)
                    return _with(node, body=self.stmt(node.body, inside))
                case If():
                    then = self.stmt(node.then_body, domain.assume(node.condition))
                    other = node.else_body and self.stmt(
                        node.else_body, domain.assume(unary(UnaryOp.NOT, node.condition))
                    )
                    return _with(node, then_body=then, else_body=other)
                case While():
                    return _with(node, body=self.stmt(node.body, domain))
        return node

    def _launch(self, node: Launch, domain: Domain) -> Stmt:
        domain = domain.with_extents(node.block_vars, node.grid)
        if node.thread is not None:
            domain = domain.with_range(node.thread, 0, node.num_threads - 1)
        facts = Facts(dict(node.plan.shared_layouts), nonzero_safe(node))
        return _with(node, body=_Vectorize(facts, self._copies).stmt(node.body, domain))

    def _vector_loop(self, node: For, domain: Domain) -> Stmt:
        start, stop = int_const(node.start), int_const(node.stop)
        if start is None or stop is None or node.step != 1:
            serial = dataclasses.replace(node, kind=ForKind.SERIAL)
            return self.stmt(serial, domain)
        if start:
            shifted = substitute_stmt(node.body, {node.var: node.var + start})
            node = dataclasses.replace(node, start=ZERO, stop=const(stop - start, INT32), body=shifted)
        if stop - start < 1:
            return Seq((), loc=node.loc)
        inside = domain.with_loop(node.var, 0, stop - start)
        body = _Vectorize(self._facts, self._copies, in_lanes=True).stmt(node.body, inside)
        body = with_uniform_conditions(body, node.var, stop - start, domain)
        return self._hoisted(dataclasses.replace(node, body=body), domain)

    def _hoisted(self, node: For, domain: Domain) -> Stmt:
        """The loop with loop-invariant conditions and bindings at the head of its body hoisted."""
        body, written, trips = node.body, _written(node.body), int_const(node.stop)
        assert trips is not None
        if isinstance(body, If) and body.else_body is None and _is_invariant(body.condition, node.var, written):
            inner = dataclasses.replace(node, body=body.then_body)
            return If(body.condition, self._hoisted(inner, domain.assume(body.condition)), loc=body.loc)
        if isinstance(body, Seq) and body.body:
            first, *rest = body.body
            names: tuple[Bind, ...] = ()
            if isinstance(first, Assume):
                names = () if loaded_buffers(first.value) & written else of_all_iterations(first, node.var, trips)
            elif isinstance(first, Bind) and _is_invariant(first.value, node.var, written):
                names = (first,)
            if isinstance(first, Assume) or names:
                inner = dataclasses.replace(node, body=as_body(rest, body.loc))
                for name in names:
                    domain = facts_after(name, domain)
                return Seq((*names, self._hoisted(inner, domain)), loc=node.loc)
            promises = {part for part in rest if isinstance(part, Assume)}  # on values computed in iterations
            node = dataclasses.replace(node, body=without(body, promises)) if promises else node
        return _VectorizeLoop(node, trips, domain, self._facts, self._copies).lower()


def _is_invariant(expr: Expr, var: Var, written: frozenset[Buffer]) -> bool:
    """Whether an expression is loop-invariant."""
    return not any(e is var or isinstance(e, Load) and e.buffer.storage in written for e in walk_expr(expr))


def _with(node: Stmt, **changes: object) -> Stmt:
    """The statement with other parts; the same one if they are the same."""
    same = all(
        new is (old := getattr(node, name)) or isinstance(new, tuple) and _are_same(new, old)
        for name, new in changes.items()
    )
    return node if same else dataclasses.replace(node, **changes)  # type: ignore[arg-type]


def _are_same(a: tuple[object, ...], b: object) -> bool:
    return isinstance(b, tuple) and len(a) == len(b) and all(x is y for x, y in zip(a, b, strict=True))


def vectorize_accesses(copies: Copies) -> Pass:
    """The pass for a machine with these asynchronous copy instructions; other asynchronous stores are synchronous."""

    def run(func: PrimFunc, _: PassContext) -> PrimFunc:
        return with_body(func, _Vectorize(Facts(), copies).stmt(func.body, of_function(func)))

    return Pass(
        "vectorize_accesses", run, Level.THREAD, Level.THREAD,
        requires=(Property.VECTOR_LOOPS, Property.ACCESSES_UNPREDICATED, Property.LOGICAL_INDICES),
        establishes=(Property.ACCESSES_VECTORIZED,),
        invalidates=(Property.VECTOR_LOOPS,),
    )
