"""`T.Parallel` loops of constant extents, distributed over the threads of a block.

Takes a loop with its layout and `ParallelLegality`, emits the code of one thread. Invariant: all threads of the block
execute the code together; each store to shared or global memory is executed by one thread, elements of fragments are
written by every thread that holds a copy, and elements that several iterations update are accumulated per thread and
combined across threads afterwards.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

from tilelang.analysis.defer_reductions import Scaling
from tilelang.analysis.parallel_legality import ATOMICS, ParallelLegality, ParallelReduction
from tilelang.analysis.reductions import Update
from tilelang.analysis.thread_accesses import SHARED_BY_THREADS
from tilelang.analysis.unrolled_loops import values
from tilelang.dtypes import BOOL, INT32
from tilelang.errors import CompilerBug, NoLowering
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.builder import Builder, as_body
from tilelang.ir.compare import same_expr
from tilelang.ir.expr import Expr, Load, Var, as_expr, binary, cast, conjunction, const, unary
from tilelang.ir.scalar import BinaryOp, UnaryOp
from tilelang.ir.stmt import (
    Alloc,
    Atomic,
    AtomicOp,
    Bind,
    CallStmt,
    For,
    ForKind,
    If,
    ParallelLoop,
    Print,
    Seq,
    Stmt,
    Store,
)
from tilelang.ir.visit import Rewriter, expressions, loads_of, substitute, substitute_stmt, walk, walk_expr
from tilelang.layout.thread_values import Fragment
from tilelang.lowering.lowering import LoweringContext
from tilelang.lowering.private_update import private_update
from tilelang.records import record
from tilelang.targets.gpu.lowerings.loop_partition import LoopPartition, ThreadDigit, ValueDigit
from tilelang.targets.gpu.lowerings.register_index import RegisterIndices, is_replicated
from tilelang.targets.gpu.lowerings.thread_all_reduce import Partial, ThreadReducer, each, neutral
from tilelang.targets.gpu.lowerings.unrolling import may_lie_in_registers
from tilelang.targets.gpu.lowerings.update_predicate import update_predicate

ZERO = const(0, INT32)
_MAXIMA = ("max", "fmax")
_MINIMA = ("min", "fmin")


@record(slots=True, eq=False)
class Accumulated:
    """A reduction with the partial results of the executing thread.

    Attributes:
        reduction: The reduction.
        axes: The dimensions of the loop that select the element.
        digits: The loops of the executing thread along these dimensions.
        partial: One partial result for each of their iterations.
        index: The index of the current iteration's partial result.
    """

    reduction: ParallelReduction
    axes: tuple[int, ...]
    digits: tuple[ValueDigit, ...]
    partial: Partial
    index: Expr


class DistributedLoop:
    """A parallel loop distributed over threads: initialization of accumulators, iterations, reduction across threads.

    Args:
        loop: The loop, of constant extents.
        layout: Which thread executes which iterations.
        legality: The requirements on its lowering.
        context: The threads, and the registers of fragments.

    Attributes:
        accumulated: The reductions, with the partial results of the executing thread.
    """

    def __init__(
        self, loop: ParallelLoop, layout: Fragment, legality: ParallelLegality, context: LoweringContext
    ) -> None:
        assert context.thread is not None
        if layout.threads != context.threads:
            raise CompilerBug(f"T.Parallel: a layout for {layout.threads} threads, but there are {context.threads}")
        self._loop, self._legality, self._context = loop, legality, context
        self._thread = context.thread
        self._partition = LoopPartition(layout, context.thread)
        if not legality.reductions and not legality.live_out and _fills_registers(loop.body, context):
            self._partition = self._partition.repeating()
        self._register_indices = RegisterIndices(self._partition, loop.vars)
        self.accumulated = [self._accumulate(reduction) for reduction in legality.reductions]

    def emit(self, build: Builder, deferred: Sequence[Accumulated]) -> None:
        """Emits the loop; some of its reductions are completed after an outer loop."""
        items = [item for item in self.accumulated if not any(item is other for other in deferred)]
        self.init_partials(build, items)
        self.iterations(build)
        if not self._loop.seldom_updates or not self._finish_where_exceeded(build, items):
            self.finish(build, items)

    def init_partials(self, build: Builder, items: Sequence[Accumulated]) -> None:
        """Initializes partial results to the neutral value."""
        for item in items:
            _clear(item.partial, build)

    def has_all_elements(self, item: Accumulated) -> bool:
        """Whether each thread has a partial result for every element that it holds of a tile."""
        reduction = item.reduction
        extents = dict(zip(self._loop.vars, self._loop.extents, strict=True))
        places = [extents.get(index) if isinstance(index, Var) else None for index in reduction.indices]
        return (
            reduction.buffer in self._context.registers
            and update_predicate(reduction, self._loop) is None
            and len(set(reduction.indices)) == len(places)
            and all(e is not None and same_expr(e, n) for e, n in zip(places, reduction.buffer.shape, strict=True))
        )

    def take_old_values(self, build: Builder, items: Sequence[Accumulated]) -> None:
        """Lets the partial results of one of the threads that are combined begin with the old values."""
        for item in items:
            buffer, indices = self._held(item)
            first = self._partition.are_zero(item.partial.along)
            take = Store(item.partial.buffer, item.partial.at(item.index), Load(buffer, indices, buffer.dtype))
            taken = take if first is None else If(first, take)
            build.emit(self._partition.emit_loops(taken, loc=build.loc, only=item.axes))

    def finish(
        self, build: Builder, items: Sequence[Accumulated], outer: For | None = None, taken: Sequence[Accumulated] = ()
    ) -> None:
        """Combines the partial results of all threads, and these with the old values, after this or an outer loop.

        Args:
            build: Receives the code.
            items: The reductions.
            outer: The outer loop.
            taken: Those whose partial results began with the old values.
        """
        reducer = ThreadReducer(build, self._thread, self._context.threads, self._context.target)
        reducer.all_reduce([item.partial for item in items])
        for item in items:
            self._store_totals(item, build, outer or self._loop, combine=all(item is not other for other in taken))

    def _finish_where_exceeded(self, build: Builder, items: Sequence[Accumulated]) -> bool:
        """Combines partial extrema in warps, or in all of a group, in which one exceeds an old value.

        Returns False if they cannot tell at a cost that pays.
        """
        reducer = ThreadReducer(build, self._thread, self._context.threads, self._context.target)
        if not items or not all(map(self._is_held_extremum, items)):
            return False
        partials = [item.partial for item in items]
        within_warps = all(map(reducer.is_shuffled, partials))
        if not within_warps and not any(map(reducer.votes_at_barrier, partials)):
            return False
        exceeded = Buffer("exceeded", (), BOOL, Scope.VAR)
        build.emit(Alloc(exceeded, const(False, BOOL)))
        for item in items:
            buffer, indices = self._held(item)
            old, found = Load(buffer, indices, buffer.dtype), item.partial.load(item.index)
            is_within = found <= old if item.reduction.op in _MAXIMA else found >= old  # false for NaN
            either = binary(BinaryOp.OR, Load(exceeded, (), BOOL), unary(UnaryOp.NOT, is_within))
            update = Store(exceeded, (), either, loc=self._loop.loc)
            build.emit(self._partition.emit_loops(update, loc=build.loc, only=item.axes))
        vote = reducer.vote_of_warp if within_warps else reducer.vote_of_group
        exceeds = vote(Load(exceeded, (), BOOL))
        with build.block() as body:
            self.finish(build, items)
        build.emit(If(exceeds, as_body(body, self._loop.loc)))
        if len(items) == 1:
            self._context.change_votes.add(items[0].reduction.buffer, exceeds)
        return True

    def _is_held_extremum(self, item: Accumulated) -> bool:
        """Whether an element is the largest or smallest value of threads each of which holds the old one."""
        is_extremum = item.reduction.op in _MAXIMA or item.reduction.op in _MINIMA
        return is_extremum and item.reduction.buffer in self._context.registers

    def can_scale(self, item: Accumulated, scaling: Scaling) -> bool:
        """Whether each thread holds the factor of its partial results."""
        layout = self._context.fragments.get(item.reduction.buffer)
        return layout is not None and all(
            self._context.fragments.get(load.buffer) == layout and all(map(same_expr, load.indices, scaling.indices))
            for load in loads_of(scaling.factor)
        )

    def scale(self, build: Builder, item: Accumulated, scaling: Scaling) -> None:
        """Multiplies partial results as the sum is multiplied."""
        pairs = zip(scaling.indices, item.reduction.indices, strict=True)
        factor = substitute(scaling.factor, {var: index for var, index in pairs if isinstance(var, Var)})
        factor = substitute(self._body().expr(factor), self._coordinates)
        value = binary(BinaryOp.MUL, item.partial.load(item.index), factor)
        store = Store(item.partial.buffer, item.partial.at(item.index), value, loc=scaling.nest.loc)
        build.emit(self._partition.emit_loops(store, loc=build.loc, only=item.axes))

    # -- partial results ------------------------------------------------------------------------------------------
    def _accumulate(self, reduction: ParallelReduction) -> Accumulated:
        axes = tuple(axis for axis, var in enumerate(self._loop.vars) if var in reduction.selected_by)
        digits = tuple(d for d in self._partition.digits if any(d.mode.stride[axis] for axis in axes))
        index: Expr = ZERO
        scale = 1
        for digit in digits:
            index = digit.var if scale == 1 else index + digit.var * scale
            scale *= digit.mode.size
        shape = (as_expr(scale),) if scale > 1 else ()
        scope = Scope.LOCAL if scale > 1 else Scope.VAR
        buffer = Buffer(f"{reduction.buffer.name}_part", shape, reduction.buffer.dtype, scope)
        along: list[ThreadDigit] = []
        across: list[ThreadDigit] = []
        for thread_digit in self._partition.thread_digits():
            moved = [axis for axis, stride in enumerate(thread_digit.stride) if stride]
            if moved:
                (across if any(axis in axes for axis in moved) else along).append(thread_digit)
        return Accumulated(reduction, axes, digits, Partial(buffer, reduction.op, tuple(along), tuple(across)), index)

    def _store_totals(
        self, item: Accumulated, build: Builder, outer: For | ParallelLoop, *, combine: bool
    ) -> None:
        """Stores the total of each element, or combines the old value with it."""
        reduction, partial = item.reduction, item.partial
        buffer, indices = self._held(item)
        total = partial.load(item.index)
        value = partial.combine(Load(buffer, indices, buffer.dtype), total) if combine else total
        store: Stmt = Store(buffer, indices, value, loc=reduction.updates[0].store.loc)
        predicate = update_predicate(reduction, outer)
        tests = [] if predicate is None else [substitute(self._body().expr(predicate), self._coordinates)]
        is_storing = self._is_storing_thread(item) if buffer.scope in SHARED_BY_THREADS else None
        tests += [] if is_storing is None else [is_storing]
        store = If(conjunction(tests), store, loc=store.loc) if tests else store
        build.emit(self._partition.emit_loops(store, loc=build.loc, only=item.axes))

    def _held(self, item: Accumulated) -> tuple[Buffer, tuple[Expr, ...]]:
        """Where the executing thread finds the element: in its registers, or in memory."""
        buffer, at = item.reduction.buffer, item.reduction.indices
        if buffer in self._context.registers:
            layout = self._context.fragments[buffer]
            held = self._register_indices.of(buffer, layout, at, self._context.unrolled, writes=False)
            return self._context.registers[buffer], (held,)
        return buffer, tuple(substitute(index, self._coordinates) for index in self._body().exprs(at))

    def _body(self) -> _Body:
        """Replaces fragments by registers in what surrounds the iterations."""
        return _Body(self._loop, self._legality, self._context, self._register_indices, (), None)

    @property
    def _coordinates(self) -> Mapping[Var, Expr]:
        return self._register_indices.coordinates

    def _is_storing_thread(self, item: Accumulated) -> Expr | None:
        """Whether the executing thread stores the totals: one of the threads that hold the same."""
        across = {digit.thread_stride for digit in item.partial.across}
        others = [d for d in self._partition.thread_digits() if d.thread_stride not in across]
        return self._partition.are_zero(others)

    # -- iterations -----------------------------------------------------------------------------------------------
    def iterations(self, build: Builder) -> None:
        """Emits the iterations of the executing thread."""
        first = self._partition.is_first_copy()
        last = self._alloc_last_values(build)
        once = first is not None and not self.accumulated and _accesses_shared_memory_only(self._loop.body)
        executing = None if once else first
        body = _Body(self._loop, self._legality, self._context, self._register_indices, self.accumulated, executing)
        lowered = body.visit(self._loop.body) or Seq((), loc=self._loop.body.loc)
        lowered = as_body([lowered, *self._store_last_values(last, first)], self._loop.loc)
        lowered = substitute_stmt(lowered, self._register_indices.coordinates)
        nest = self._partition.emit_loops(lowered, loc=self._loop.loc)
        build.emit(If(first, nest) if once and first is not None else nest)
        for scalar, shared in last:
            build.emit(Store(scalar, (), Load(shared, (ZERO,), scalar.dtype)))

    def _alloc_last_values(self, build: Builder) -> list[tuple[Buffer, Buffer]]:
        """Allocates shared memory that broadcasts the live-out scalars of the last iteration to all threads."""
        held = []
        for scalar in self._legality.live_out:
            shared = Buffer(f"{scalar.name}_last", (as_expr(1),), scalar.dtype, Scope.SHARED)
            build.emit(Alloc(shared))
            held.append((scalar, shared))
        return held

    def _store_last_values(self, held: Sequence[tuple[Buffer, Buffer]], first: Expr | None) -> list[Stmt]:
        tests = [var == extent - 1 for var, extent in zip(self._loop.vars, self._loop.extents, strict=True)]
        condition = conjunction(tests if first is None else [first, *tests])
        return [
            If(condition, Store(shared, (ZERO,), Load(scalar, (), scalar.dtype)), loc=self._loop.loc)
            for scalar, shared in held
        ]


def plain_iteration(
    loop: ParallelLoop, legality: ParallelLegality, context: LoweringContext, partition: LoopPartition
) -> Stmt:
    """The code of one iteration without reductions, in the variables of the distributed loops."""
    register_indices = RegisterIndices(partition, loop.vars)
    body = _Body(loop, legality, context, register_indices, (), None)
    lowered = body.visit(loop.body) or Seq((), loc=loop.body.loc)
    return substitute_stmt(lowered, register_indices.coordinates)


def _clear(partial: Partial, build: Builder) -> None:
    start = neutral(partial.op, partial.buffer.dtype)
    if partial.count == 1:
        build.emit(Alloc(partial.buffer, start))
        return
    build.emit(Alloc(partial.buffer))
    each(build, "q", partial.count, lambda q: build.emit(Store(partial.buffer, (q,), start)))


def _accesses_shared_memory_only(body: Stmt) -> bool:
    """Whether a body has effects on shared and global memory only."""
    local = {s.buffer for s in walk(body) if isinstance(s, Alloc)}
    for stmt in walk(body):
        if isinstance(stmt, Store) and stmt.buffer.scope not in SHARED_BY_THREADS and stmt.buffer.storage not in local:
            return False
        if isinstance(stmt, CallStmt):
            return False
    return True


def _fills_registers(body: Stmt, context: LoweringContext) -> bool:
    """Whether a body only stores to fragments, and loads nothing from global memory or from other fragments.

    Elements of a fragment that belong to no element of its tile have no value where another loop was predicated.
    """
    for stmt in walk(body):
        fills = isinstance(stmt, Store) and stmt.buffer in context.registers
        if not fills and not isinstance(stmt, Seq | Bind | If | For):
            return False
        loads = (e for root in expressions(stmt) for e in loads_of(root))
        if any(load.buffer.scope is Scope.GLOBAL or load.buffer in context.registers for load in loads):
            return False
    return True


class _Body(Rewriter):
    """Rewrites one iteration to registers, still in terms of the loop's own variables."""

    def __init__(
        self,
        loop: ParallelLoop,
        legality: ParallelLegality,
        context: LoweringContext,
        register_indices: RegisterIndices,
        accumulated: Sequence[Accumulated],
        first: Expr | None,
    ) -> None:
        self._loop, self._legality, self._context = loop, legality, context
        self._register_indices, self._first = register_indices, first
        self._partials = {update.store: item for item in accumulated for update in item.reduction.updates}
        self._olds: dict[Load, Expr] = {
            previous: item.partial.load(item.index)
            for item in accumulated
            for update in item.reduction.updates
            for previous in update.previous
        }
        self._inner: dict[Var, range] = dict(context.unrolled)
        self._values: dict[Var, Expr] = {}

    # -- expressions ----------------------------------------------------------------------------------------------
    def expr(self, node: Expr) -> Expr:
        if isinstance(node, Load):
            if node in self._olds:
                return self._olds[node]
            if node.buffer in self._context.registers:
                return Load(*self._register(node.buffer, node.indices, writes=False), node.dtype)
        return self.rebuild_expr(node)

    def _register(self, buffer: Buffer, indices: Sequence[Expr], *, writes: bool) -> tuple[Buffer, tuple[Expr, ...]]:
        layout = self._context.fragments[buffer]
        named = tuple(self._resolved(index) for index in indices)
        if is_replicated(layout) and (not writes or not self._moves(named)):
            named = self.exprs(named)  # what an index reads may be in registers, too
        register = self._register_indices.of(buffer, layout, named, self._inner, writes=writes)
        return self._context.registers[buffer], (register,)

    def _moves(self, indices: Sequence[Expr]) -> bool:
        """Whether indices differ between iterations."""
        return any(node is var for index in indices for node in walk_expr(index) for var in self._loop.vars)

    def _resolved(self, index: Expr) -> Expr:
        """An index with bound index variables replaced by their values."""
        while any(isinstance(node, Var) and node in self._values for node in walk_expr(index)):
            index = substitute(index, self._values)
        return index

    # -- statements -----------------------------------------------------------------------------------------------
    def stmt(self, node: Stmt) -> Stmt | None:
        match node:
            case Store():
                return self._store(node)
            case Atomic():
                return self._atomic(node)
            case Bind(var=var, value=value) if var.index and value.is_index:
                self._values[var] = value
            case For():
                return self._for(node)
            case Print():
                return self._once(self.rebuild_stmt(node), node)
            case Alloc(buffer=buffer) if buffer.scope in (Scope.SHARED, Scope.FRAGMENT, Scope.BARRIER):
                raise NoLowering(
                    f"'{buffer.name}': is allocated inside of a T.Parallel loop, once per iteration",
                    hint="allocate it before the loop, with a dimension for the iterations",
                )
            case CallStmt():
                self._check(node)
        return self.rebuild_stmt(node)

    def _check(self, node: CallStmt) -> None:
        """Refuses instructions on fragments."""
        for operand in (*node.args, *node.reads, *node.writes):
            if isinstance(operand, Region) and operand.buffer in self._context.registers:
                raise NoLowering(
                    f"{node.name}: '{operand.buffer.name}' is spread over the threads",
                    hint="allocate it with T.alloc_local",
                )

    def _once(self, node: Stmt | None, like: Stmt) -> Stmt | None:
        """A statement predicated to one of the threads that execute the same iteration."""
        return node if node is None or self._first is None else If(self._first, node, loc=like.loc)

    def _store(self, node: Store) -> Stmt | None:
        item = self._partials.get(node)
        if item is not None:
            return Store(item.partial.buffer, item.partial.at(item.index), self.expr(node.value), loc=node.loc)
        if node in self._legality.atomics:
            return self._once(self._atomic_update(node, self._legality.atomics[node]), node)
        value, indices = self.expr(node.value), self.exprs(node.indices)
        if node.buffer in self._context.registers:
            register, at = self._register(node.buffer, node.indices, writes=True)
            return Store(register, at, value, loc=node.loc)
        store = dataclasses.replace(node, indices=indices, value=value)
        if node.buffer.scope not in SHARED_BY_THREADS:
            return store
        last_iteration_of = self._legality.last_value_stores.get(node, ())
        extents = dict(zip(self._loop.vars, self._loop.extents, strict=True))
        if last_iteration_of:
            condition = conjunction(v == extents[v] - 1 for v in last_iteration_of)
            return self._once(If(condition, store, loc=node.loc), node)
        return self._once(store, node)

    def _atomic_update(self, node: Store, update: Update) -> Stmt:
        """An atomic update of an element: its operand is the stored value computed from the neutral value."""
        dtype = node.buffer.dtype
        self._olds.update(dict.fromkeys(update.previous, neutral(update.op, dtype)))
        return Atomic(
            ATOMICS[update.op], node.buffer, self.exprs(node.indices), cast(self.expr(node.value), dtype), loc=node.loc
        )

    def _atomic(self, node: Atomic) -> Stmt | None:
        rebuilt = self.rebuild_stmt(node)
        if isinstance(rebuilt, Atomic) and rebuilt.buffer.scope not in SHARED_BY_THREADS:
            return private_update(rebuilt)
        if self._first is None or node.op is AtomicOp.LOAD:
            return rebuilt
        if node.result is not None:
            raise NoLowering(
                f"T.atomic_{node.op.value}: its previous value goes to registers that several threads hold",
                hint="store it in shared memory, or give the loop at least as many iterations as there are threads",
            )
        return self._once(rebuilt, node)

    def _for(self, node: For) -> Stmt | None:
        start, stop = self._resolved(node.start), self._resolved(node.stop)
        possible = values(dataclasses.replace(node, start=start, stop=stop))
        if possible is not None:
            self._inner[node.var] = possible
        rebuilt = self.rebuild_stmt(node)
        if possible is not None and isinstance(rebuilt, For) and _chooses(node.var, node.body, self._context.registers):
            rebuilt = dataclasses.replace(rebuilt, kind=ForKind.UNROLLED, unroll_factor=None)
        return rebuilt


def _chooses(var: Var, body: Stmt, registers: Mapping[Buffer, Buffer]) -> bool:
    """Whether a variable indexes a fragment that may be kept in registers."""
    held = {buffer for buffer, array in registers.items() if may_lie_in_registers(array)}
    for stmt in walk(body):
        loads = [e for root in expressions(stmt) for e in loads_of(root)]
        named = [(e.buffer, e.indices) for e in loads]
        if isinstance(stmt, Store):
            named.append((stmt.buffer, stmt.indices))
        for buffer, indices in named:
            if buffer in held and any(e is var for index in indices for e in walk_expr(index)):
                return True
    return False


def values_of(layout: Fragment) -> int:
    """Elements of a fragment that one thread holds."""
    return max(1, math.prod(mode.size for mode in layout.value))
