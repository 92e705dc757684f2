"""Flattens nested parallel loops, so that each can be distributed over threads as one nest.

    for i in T.Parallel(M):                      total = fragment (M,)
        total = 0.0                              for i in T.Parallel(M): total[i] = 0.0
        for j in T.Parallel(N):            =>    for i, j in T.Parallel(M, N): total[i] += S[i, j]
            total = total + S[i, j]              for i in T.Parallel(M): l[i] = l[i] + total[i]
        l[i] = l[i] + total

This is loop fission (distribution) with scalar expansion: bindings and mutable scalars that live across the parts get
an element per iteration. Invariant: iterations are independent but for associative updates, so executing one part of
all iterations before the next part gives the sequential result. A nest that cannot be split keeps its outer loop, and
its inner loops become serial. A loop whose body is guarded by a bound on its variable gets a shorter extent, if that
divides the old one, so that subscripts are digits of its variables.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from tilelang.arith.domain import Domain
from tilelang.arith.interval import bounds
from tilelang.arith.prove import proves
from tilelang.arith.ranges import Interval
from tilelang.dtypes import BOOL, INT32
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.builder import as_body
from tilelang.ir.expr import Expr, Load, Var, cast, const, int_const
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.sequences import flat_statements, statements_of
from tilelang.ir.stmt import Alloc, Bind, For, ForKind, If, ParallelLoop, Seq, Stmt, Store, TileOp, seq
from tilelang.ir.visit import Rewriter, expressions, jumps, loads_of, walk, walk_expr, written_buffers
from tilelang.passes.base import Pass, PassContext, with_body
from tilelang.passes.properties import Property


def _run(func: PrimFunc, _: PassContext) -> PrimFunc:
    return with_body(func, _Flatten().visit(func.body))


def flat_loops(loop: ParallelLoop) -> tuple[list[Alloc], list[ParallelLoop]]:
    """Allocations, and the loops that take the place of one with others inside; itself where there are none."""
    if not any(isinstance(s, ParallelLoop) for s in walk(loop.body)):
        return [], [loop]
    made = flat_statements(_Flatten().visit(loop) or Seq((), loc=loop.loc))
    allocations = [stmt for stmt in made if isinstance(stmt, Alloc)]
    loops = [stmt for stmt in made if isinstance(stmt, ParallelLoop)]
    return (allocations, loops) if len(allocations) + len(loops) == len(made) else ([], [loop])


class _Flatten(Rewriter):
    def stmt(self, node: Stmt) -> Stmt | None:
        if not isinstance(node, ParallelLoop):
            return self.rebuild_stmt(node)
        if not any(isinstance(s, ParallelLoop) for s in walk(node.body)):
            return _without_idle_iterations(node)
        flattened = _Nest(node).flatten()
        return self.visit(flattened) if flattened is not None else _with_serial_loops(node)


def _without_idle_iterations(loop: ParallelLoop) -> ParallelLoop:
    """The loop with shorter extents if a condition on its variables guards the whole body."""
    body = loop.body
    if not isinstance(body, If) or body.else_body is not None or loop.layout is not None:
        return loop
    narrowed = Domain().with_extents(loop.vars, loop.extents).assume(body.condition)
    pairs = zip(loop.vars, loop.extents, strict=True)
    extents = tuple(_narrowed_extent(extent, bounds(var, narrowed)) for var, extent in pairs)
    if all(new is old for new, old in zip(extents, loop.extents, strict=True)):
        return loop
    if proves(body.condition, Domain().with_extents(loop.vars, extents)):
        body = body.then_body
    return dataclasses.replace(loop, extents=extents, body=body)


def _narrowed_extent(extent: Expr, values: Interval) -> Expr:
    """An extent that covers these values of a variable, if it divides the old one."""
    old, new = int_const(extent), (values.high or 0) + 1
    return const(new, INT32) if old is not None and 1 < new < old and old % new == 0 else extent


class _Impossible(Exception):
    """The nest cannot be flattened."""


class _Nest:
    """One outermost parallel loop being flattened."""

    def __init__(self, loop: ParallelLoop) -> None:
        self._loop = loop
        self._allocs: list[Alloc] = []  # expanded scalars

    def flatten(self) -> Stmt | None:
        """The flat loops in order, after the allocations they share; None if that is impossible."""
        try:
            parts = self._parts(self._loop, statements_of(self._loop.body))
        except _Impossible:
            return None
        return Seq((*self._allocs, *parts), loc=self._loop.loc)

    def _parts(self, loop: ParallelLoop, body: Sequence[Stmt]) -> list[Stmt]:
        """The iterations of `loop` over `body`, as flat loops."""
        if not any(isinstance(s, ParallelLoop | TileOp) for stmt in body for s in walk(stmt)):
            return [_over(loop, body)] if body else []
        groups = _groups(body)
        body_of = _ExpandScalars(loop, groups, self._allocs)
        parts: list[Stmt] = []
        for group in groups:
            changed = body_of.rewrite(group)
            if len(group) == 1 and _holds_loop(group[0]):
                parts.extend(self._complex(loop, changed))
            elif changed:
                parts.append(_over(loop, changed))
        return parts

    def _complex(self, loop: ParallelLoop, group: Sequence[Stmt]) -> list[Stmt]:
        (stmt,) = group
        match stmt:
            case ParallelLoop():
                if any(_depends(extent, loop.vars) for extent in stmt.extents):
                    raise _Impossible
                wide = ParallelLoop(
                    (*loop.vars, *stmt.vars), (*loop.extents, *stmt.extents), stmt.body, stmt.coalesced_width,
                    loc=stmt.loc,
                )  # fmt: skip
                return self._parts(wide, statements_of(stmt.body))
            case For(start=start, stop=stop) if not jumps(stmt.body):
                if any(_depends(bound, loop.vars) or _loads(bound) for bound in (start, stop)):
                    raise _Impossible
                inner = self._parts(loop, statements_of(stmt.body))
                return [dataclasses.replace(stmt, body=seq(inner, stmt.loc))]
            case If(condition=condition, then_body=then_body, else_body=else_body):
                return self._branches(loop, condition, then_body, else_body, stmt)
            case Seq():
                return self._parts(loop, stmt.body)
        raise _Impossible

    def _branches(
        self, loop: ParallelLoop, condition: Expr, then_body: Stmt, else_body: Stmt | None, stmt: If
    ) -> list[Stmt]:
        """Both sides under a condition that is evaluated once, since the sides may write what it reads."""
        taken = _element(loop, "taken", BOOL, self._allocs)
        parts: list[Stmt] = [_over(loop, [Store(taken, loop.vars, condition, loc=stmt.loc)])]
        test = Load(taken, loop.vars, BOOL)
        for side, narrowed in ((then_body, test), (else_body, ~test)):
            if side is not None:
                inner = self._parts(loop, statements_of(side))
                parts.extend(_under(narrowed, part) for part in inner)
        return parts


class _ExpandScalars(Rewriter):
    """Scalar expansion: values that one group defines and another uses become one element per iteration."""

    def __init__(self, loop: ParallelLoop, groups: Sequence[Sequence[Stmt]], allocs: list[Alloc]) -> None:
        self._loop = loop
        self._values: dict[Var, Buffer] = {}
        self._scalars: dict[Buffer, Buffer] = {}
        self._local: set[Buffer] = set()
        for number, group in enumerate(groups):
            others = [s for n, other in enumerate(groups) if n != number for s in other]
            for stmt in group:
                if isinstance(stmt, Bind) and _uses(others, stmt.var):
                    self._values[stmt.var] = _element(loop, stmt.var.name, stmt.var.dtype, allocs)
                elif isinstance(stmt, Alloc) and _names(others, stmt.buffer):
                    if stmt.buffer.scope is not Scope.VAR:
                        raise _Impossible
                    scalar = stmt.buffer
                    self._scalars[scalar] = _element(loop, scalar.name, scalar.dtype, allocs)
                elif not isinstance(stmt, Bind | Alloc) and _result(stmt) is not None and others:
                    raise _Impossible
        outside = {b for g in groups for s in g for t in walk(s) for b in written_buffers(t) if b.scope is Scope.VAR}
        inside = {t.buffer for g in groups for s in g for t in walk(s) if isinstance(t, Alloc)}
        if any(not _is_update_of(b, groups) for b in outside - inside):
            raise _Impossible  # a scalar from outside that iterations use as a temporary: the last value must remain

    def rewrite(self, group: Sequence[Stmt]) -> list[Stmt]:
        """The statements of a group with expanded scalars."""
        return [new for stmt in group if (new := self.visit(stmt)) is not None]

    def stmt(self, node: Stmt) -> Stmt | None:
        match node:
            case Bind(var=var, value=value) if var in self._values:
                return Store(self._values[var], self._loop.vars, self.expr(value), loc=node.loc)
            case Alloc(buffer=buffer, init=init) if buffer in self._scalars:
                if init is None:
                    return None
                return Store(self._scalars[buffer], self._loop.vars, self.expr(init), loc=node.loc)
            case Store(buffer=buffer, value=value) if buffer in self._scalars:
                return Store(self._scalars[buffer], self._loop.vars, self.expr(value), loc=node.loc)
        return self.rebuild_stmt(node)

    def expr(self, node: Expr) -> Expr:
        match node:
            case Var() if node in self._values:
                return self._read(self._values[node], node.dtype, index=node.index)
            case Load(buffer=buffer) if buffer in self._scalars:
                return Load(self._scalars[buffer], self._loop.vars, node.dtype)
        return self.rebuild_expr(node)

    def _read(self, buffer: Buffer, dtype: object, *, index: bool) -> Expr:
        del dtype, index
        return Load(buffer, self._loop.vars, buffer.dtype)


def _element(loop: ParallelLoop, name: str, dtype: object, allocs: list[Alloc]) -> Buffer:
    """A fragment with one element per iteration."""
    if any(int_const(extent) is None for extent in loop.extents):
        raise _Impossible
    buffer = Buffer(name, loop.extents, dtype, Scope.FRAGMENT, loc=loop.loc)  # type: ignore[arg-type]
    allocs.append(Alloc(buffer, loc=loop.loc))
    return buffer


def _groups(body: Sequence[Stmt]) -> list[list[Stmt]]:
    """Maximal runs of statements without parallel loops, and each statement with parallel loops by itself."""
    groups: list[list[Stmt]] = []
    fresh = True
    for stmt in body:
        has_loop = _holds_loop(stmt)
        if has_loop or fresh:
            groups.append([stmt])
        else:
            groups[-1].append(stmt)
        fresh = has_loop
    return groups


def _over(loop: ParallelLoop, body: Sequence[Stmt]) -> ParallelLoop:
    """The loop over other statements."""
    return dataclasses.replace(loop, body=as_body(body, loop.loc))


def _under(condition: Expr, part: Stmt) -> Stmt:
    """A flat loop, or loops inside of serial ones, with its iterations under a condition."""
    match part:
        case ParallelLoop():
            return dataclasses.replace(part, body=If(condition, part.body, loc=part.loc))
        case For():
            return dataclasses.replace(part, body=_under(condition, part.body))
        case Seq():
            return dataclasses.replace(part, body=tuple(_under(condition, s) for s in part.body))
    raise _Impossible


def _holds_loop(stmt: Stmt) -> bool:
    return any(isinstance(s, ParallelLoop | TileOp) for s in walk(stmt))


def _depends(expr: Expr, variables: Sequence[Var]) -> bool:
    return any(e is variable for e in walk_expr(expr) for variable in variables)


def _loads(expr: Expr) -> bool:
    return bool(loads_of(expr))


def _all_expressions(stmts: Iterable[Stmt]) -> Iterable[Expr]:
    return (e for stmt in stmts for s in walk(stmt) for root in expressions(s) for e in walk_expr(root))


def _uses(stmts: Sequence[Stmt], var: Var) -> bool:
    return any(e is var for e in _all_expressions(stmts))


def _names(stmts: Sequence[Stmt], buffer: Buffer) -> bool:
    """Whether statements read or write a buffer, or a view of it."""
    read = any(isinstance(e, Load) and e.buffer.storage is buffer for e in _all_expressions(stmts))
    return read or any(b.storage is buffer for stmt in stmts for s in walk(stmt) for b in written_buffers(s))


def _result(stmt: Stmt) -> Var | None:
    result = getattr(stmt, "result", None)
    return result if isinstance(result, Var) else None


def _is_update_of(scalar: Buffer, groups: Sequence[Sequence[Stmt]]) -> bool:
    """Whether every store to a scalar from outside the nest also reads it, as associative updates do."""
    stores = [
        s for g in groups for stmt in g for s in walk(stmt) if isinstance(s, Store) and s.buffer is scalar
    ]
    return all(any(e.buffer is scalar for e in loads_of(s.value)) for s in stores)


def _with_serial_loops(loop: ParallelLoop) -> ParallelLoop:
    """The loop with all parallel loops inside of it made serial."""
    return dataclasses.replace(loop, body=_Serial().visit(loop.body) or Seq((), loc=loop.loc))


class _Serial(Rewriter):
    def stmt(self, node: Stmt) -> Stmt | None:
        if not isinstance(node, ParallelLoop):
            return self.rebuild_stmt(node)
        body = self.visit(node.body) or Seq((), loc=node.loc)
        for var, extent in zip(reversed(node.vars), reversed(node.extents), strict=True):
            body = For(var, const(0, INT32), cast(extent, INT32) if not extent.is_index else extent, 1,
                       ForKind.SERIAL, body, loc=node.loc)  # fmt: skip
        return body


PASS = Pass(
    "flatten_parallel", _run, Level.TILE, Level.TILE,
    requires=(Property.OPERATORS_EXPANDED,),
    establishes=(Property.PARALLEL_LOOPS_FLAT,),
)
