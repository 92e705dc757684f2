"""`T.Parallel` loops with extents known only at run time, as block-stride loops.

Takes a loop and its `ParallelLegality`, emits the code of one thread: iterations `thread`, `thread + threads`, and so
on. Invariant: every iteration is executed by one thread; all iterations that update one element by the same one, unless
all iterations of the loop update it, which are then accumulated per thread.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilelang.analysis.parallel_legality import ATOMICS, ParallelLegality, ParallelReduction
from tilelang.analysis.thread_accesses import SHARED_BY_THREADS
from tilelang.dtypes import INT32
from tilelang.errors import CompilerBug
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.builder import Builder, as_body
from tilelang.ir.expr import Expr, Load, Var, as_expr, cast, conjunction, const
from tilelang.ir.stmt import Alloc, Atomic, For, ForKind, If, ParallelLoop, Seq, Stmt, Store
from tilelang.ir.visit import Rewriter, substitute_stmt
from tilelang.lowering.lowering import LoweringContext
from tilelang.targets.gpu.lowerings.loop_partition import ThreadDigit, primes
from tilelang.targets.gpu.lowerings.thread_all_reduce import Partial, ThreadReducer, neutral
from tilelang.targets.gpu.lowerings.update_predicate import update_predicate

ZERO = const(0, INT32)


def can_stride(legality: ParallelLegality) -> bool:
    """Whether one assignment of iterations to threads gives every updated element a single thread."""
    return len({reduction.selected_by for reduction in legality.reductions if reduction.selected_by}) <= 1


def lower_strided(loop: ParallelLoop, legality: ParallelLegality, context: LoweringContext, build: Builder) -> None:
    """Emits the code of the executing thread."""
    _Strided(loop, legality, context, build).lower()


class _Strided:
    def __init__(
        self, loop: ParallelLoop, legality: ParallelLegality, context: LoweringContext, build: Builder
    ) -> None:
        if context.thread is None:
            raise CompilerBug("T.Parallel: no thread runs it")
        self._loop, self._legality, self._context, self._build = loop, legality, context, build
        self._thread = context.thread
        moved = {var for reduction in legality.reductions for var in reduction.selected_by}
        self._distributed = {  # variables distributed over threads; each thread loops over the others
            var: extent
            for var, extent in zip(loop.vars, loop.extents, strict=True)
            if var in moved or not moved
        }

    def lower(self) -> None:
        """Emits neutral partial results, the iterations, and the combination of the results."""
        totals = [reduction for reduction in self._legality.reductions if not reduction.selected_by]
        partials = {reduction: self._partial(reduction) for reduction in totals}
        held = [self._alloc_last_value(scalar) for scalar in self._legality.live_out]
        body = _Body(self._loop, self._legality, self._context, partials).visit(self._loop.body) or Seq(())
        self._emit_loops(as_body([body, *self._store_last_values(held)], self._loop.loc))
        reducer = ThreadReducer(self._build, self._thread, self._context.threads, self._context.target)
        reducer.all_reduce(list(partials.values()))
        for reduction, partial in partials.items():
            self._store_totals(reduction, partial)
        for scalar, shared in held:
            self._build.emit(Store(scalar, (), Load(shared, (ZERO,), scalar.dtype)))

    def _partial(self, reduction: ParallelReduction) -> Partial:
        buffer = Buffer(f"{reduction.buffer.name}_part", (), reduction.buffer.dtype, Scope.VAR)
        self._build.emit(Alloc(buffer, neutral(reduction.op, buffer.dtype)))
        along, stride = [], 1
        for prime in primes(self._context.threads):
            along.append(ThreadDigit(stride, prime, (1,)))
            stride *= prime
        return Partial(buffer, reduction.op, tuple(along), ())

    def _emit_loops(self, body: Stmt) -> None:
        loc = self._loop.loc
        extents = dict(zip(self._loop.vars, self._loop.extents, strict=True))
        for var in reversed(self._loop.vars):
            if var not in self._distributed:
                body = For(var, ZERO, extents[var], 1, ForKind.SERIAL, body, loc=loc)
        if not self._distributed:
            self._build.emit(body)
            return
        turn = Var("turn", INT32, index=True)
        outermost, *inner = self._distributed
        total = extents[outermost]
        values: dict[Var, Expr] = {}
        rest: Expr = turn
        for var in reversed(inner):
            values[var] = rest % extents[var]
            rest = rest // extents[var]
            total = total * extents[var]
        values[outermost] = rest
        body = substitute_stmt(body, values)
        self._build.emit(For(turn, self._thread, total, self._context.threads, ForKind.SERIAL, body, loc=loc))

    def _store_totals(self, reduction: ParallelReduction, partial: Partial) -> None:
        value = partial.combine(Load(reduction.buffer, reduction.indices, reduction.buffer.dtype), partial.load(ZERO))
        store: Stmt = Store(reduction.buffer, reduction.indices, value, loc=reduction.updates[0].store.loc)
        predicate = update_predicate(reduction, self._loop)
        tests = [] if predicate is None else [predicate]
        tests += [self._thread == 0] if reduction.buffer.scope in SHARED_BY_THREADS else []
        self._build.emit(If(conjunction(tests), store, loc=store.loc) if tests else store)

    def _alloc_last_value(self, scalar: Buffer) -> tuple[Buffer, Buffer]:
        shared = Buffer(f"{scalar.name}_last", (as_expr(1),), scalar.dtype, Scope.SHARED)
        self._build.emit(Alloc(shared))
        # without any iteration the scalar keeps its value
        first = Store(shared, (ZERO,), Load(scalar, (), scalar.dtype), loc=self._build.loc)
        self._build.emit(If(self._thread == 0, first))
        return scalar, shared

    def _store_last_values(self, held: Sequence[tuple[Buffer, Buffer]]) -> list[Stmt]:
        tests = [var == extent - 1 for var, extent in zip(self._loop.vars, self._loop.extents, strict=True)]
        return [
            If(conjunction(tests), Store(shared, (ZERO,), Load(scalar, (), scalar.dtype)), loc=self._loop.loc)
            for scalar, shared in held
        ]


class _Body(Rewriter):
    """One iteration over partial results."""

    def __init__(
        self,
        loop: ParallelLoop,
        legality: ParallelLegality,
        context: LoweringContext,
        partials: dict[ParallelReduction, Partial],
    ) -> None:
        self._loop, self._legality, self._context = loop, legality, context
        self._partials = {
            update.store: partial for reduction, partial in partials.items() for update in reduction.updates
        }
        self._olds: dict[Load, Expr] = {
            previous: partial.load(ZERO)
            for reduction, partial in partials.items()
            for update in reduction.updates
            for previous in update.previous
        }

    def expr(self, node: Expr) -> Expr:
        if isinstance(node, Load):
            if node in self._olds:
                return self._olds[node]
            if node.buffer in self._context.registers:
                raise CompilerBug(f"'{node.buffer.name}': a distributed tile in a loop of unknown extents")
        return self.rebuild_expr(node)

    def stmt(self, node: Stmt) -> Stmt | None:
        if not isinstance(node, Store):
            return self.rebuild_stmt(node)
        if node.buffer in self._context.registers:
            raise CompilerBug(f"'{node.buffer.name}': a distributed tile in a loop of unknown extents")
        partial = self._partials.get(node)
        if partial is not None:
            return Store(partial.buffer, partial.at(ZERO), self.expr(node.value), loc=node.loc)
        update = self._legality.atomics.get(node)
        if update is not None:
            dtype = node.buffer.dtype
            self._olds.update(dict.fromkeys(update.previous, neutral(update.op, dtype)))
            value = cast(self.expr(node.value), dtype)
            return Atomic(ATOMICS[update.op], node.buffer, self.exprs(node.indices), value, loc=node.loc)
        last_iteration_of = self._legality.last_value_stores.get(node, ())
        extents = dict(zip(self._loop.vars, self._loop.extents, strict=True))
        rebuilt = self.rebuild_stmt(node)
        if last_iteration_of and rebuilt is not None:
            return If(conjunction(v == extents[v] - 1 for v in last_iteration_of), rebuilt, loc=node.loc)
        return rebuilt
