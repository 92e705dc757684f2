"""Lowers the program of a block to the program of one of its threads (SPMD): from tile level to thread level.

Takes a tile-level function whose fragments and parallel loops have layouts: scalars and control flow are replicated in
every thread, stores of scalar code are executed by one elected thread, parallel loops and operators are distributed,
and fragments become arrays of registers. Barriers are inserted by later passes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from tilelang.analysis.divergence import divergence
from tilelang.analysis.liveness import Liveness
from tilelang.analysis.parallel_legality import ParallelLegality, parallel_legality
from tilelang.analysis.thread_accesses import SHARED_BY_THREADS, accesses_memory
from tilelang.analysis.thread_groups import ThreadGroups
from tilelang.analysis.unrolled_loops import unrolled_variables
from tilelang.arith.domain import Domain, facts_after, of_function
from tilelang.dtypes import BOOL, INT32
from tilelang.errors import CompilerBug, NoLowering, Note
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.builder import Builder, as_body
from tilelang.ir.expr import Expr, Load, Var, as_expr, const, int_const, unary
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.scalar import UnaryOp
from tilelang.ir.sequences import statements_of
from tilelang.ir.stmt import (
    Alloc,
    Assert,
    Atomic,
    AtomicOp,
    Bind,
    Break,
    For,
    ForKind,
    Group,
    If,
    Launch,
    ParallelLoop,
    Print,
    Seq,
    Stmt,
    Store,
    TileOp,
    While,
)
from tilelang.ir.visit import Rewriter, expressions, loads_of, sub_statements, substitute_stmt, walk, written_buffers
from tilelang.layout.blocked import blocked
from tilelang.lowering.lowering import LoopLowering, LoweringContext, Lowerings, LowersDivergent, chosen_lowering
from tilelang.lowering.private_update import private_update
from tilelang.passes.base import Pass, PassContext
from tilelang.passes.properties import Property
from tilelang.targets.gpu.lowerings.deferred_reductions import DeferredReductions
from tilelang.targets.gpu.lowerings.parallel import DistributedLoop, values_of
from tilelang.targets.gpu.lowerings.register_index import is_replicated, replicated_register_index
from tilelang.targets.gpu.lowerings.strided import can_stride, lower_strided

ZERO = const(0, INT32)
_OF_THREAD = (Scope.VAR, Scope.LOCAL)


def lower_to_threads(lowerings: Lowerings, *loops: LoopLowering) -> Pass:
    """The pass for a target's table of lowerings, and its lowerings of parallel loops, the first choice first."""

    def run(func: PrimFunc, context: PassContext) -> PrimFunc:
        body = _Launches(lowerings, loops, context, of_function(func)).visit(func.body) or Seq((), loc=func.body.loc)
        return dataclasses.replace(func, body=body, level=Level.THREAD)

    return Pass(
        "lower_to_threads", run, Level.TILE, Level.THREAD,
        requires=(Property.LAYOUTS_INFERRED,),
        establishes=(Property.VECTOR_LOOPS,),
    )


class _Launches(Rewriter):
    def __init__(
        self, lowerings: Lowerings, loops: Sequence[LoopLowering], context: PassContext, domain: Domain
    ) -> None:
        self._lowerings, self._loops, self._context, self._domain = lowerings, loops, context, domain

    def stmt(self, node: Stmt) -> Stmt | None:
        if not isinstance(node, Launch):
            return self.rebuild_stmt(node)
        thread = Var("thread", INT32, index=True) if node.thread is None else node.thread
        node = dataclasses.replace(node, thread=thread)
        fragments = dict(node.plan.fragments)
        registers: dict[Buffer, Buffer] = {}
        for buffer, layout in fragments.items():
            registers[buffer] = _registers_of(buffer, values_of(layout), registers)
        context = LoweringContext(
            self._context.target,
            self._context.options,
            node.num_threads,
            thread,
            fragments,
            registers,
            dict(node.plan.shared_layouts),
            unrolled_variables(node),
        )
        domain = self._domain.with_range(thread, 0, node.num_threads - 1).with_extents(node.block_vars, node.grid)
        block = _Block(node, context, self._lowerings, self._loops)
        body = block.stmt(node.body, domain)
        plan = dataclasses.replace(
            node.plan,
            uniform=block.uniform(),
            tensor_maps=tuple(context.tensor_maps.found),
            notes=(*node.plan.notes, *dict.fromkeys(block.notes)),
        )
        return dataclasses.replace(node, body=body or Seq((), loc=node.loc), plan=plan)


def _registers_of(buffer: Buffer, values: int, registers: Mapping[Buffer, Buffer]) -> Buffer:
    """The register array of a thread's part of a fragment; views share that of their storage."""
    owner = None if buffer.view_of is None else registers[buffer.storage]
    if owner is not None and owner.dtype is buffer.dtype:
        return owner
    return Buffer(buffer.name, (as_expr(values),), buffer.dtype, Scope.LOCAL, view_of=owner, loc=buffer.loc)


class _Block:
    """Lowers one launch.

    Attributes:
        notes: Notes on the lowering of its loops.
    """

    def __init__(
        self, launch: Launch, context: LoweringContext, lowerings: Lowerings, loops: Sequence[LoopLowering]
    ) -> None:
        self.notes: list[Note] = []
        self._context, self._lowerings, self._loops = context, lowerings, loops
        self._per_thread = divergence(launch)
        self._groups = ThreadGroups(launch)
        self._liveness = Liveness(launch.body)
        self._registers = _Registers(context)
        assert isinstance(context.thread, Var)
        self._thread = context.thread
        self._elected = self._thread == 0  # whether the executing thread is the elected one
        self._own_scalars: list[Buffer] = []
        self._deferred = DeferredReductions()
        # global memory that other blocks may write between the reads of two threads
        self._volatile = frozenset(
            b.storage for s in walk(launch.body) for b in written_buffers(s) if b.scope is Scope.GLOBAL
        )

    def uniform(self) -> tuple[Buffer, ...]:
        """The scalars and register arrays that are uniform over the block, or over the only group that uses them."""
        replicated = [b for b, layout in self._context.fragments.items() if is_replicated(layout)]
        everywhere = [b for b in replicated if b.storage not in self._per_thread.memory]
        return (*self._own_scalars, *dict.fromkeys(self._context.registers[b] for b in everywhere))

    # -- statements -----------------------------------------------------------------------------------------------
    def stmt(self, node: Stmt, domain: Domain) -> Stmt | None:
        """The statement of one thread; None if that is empty."""
        with node.loc:
            match node:
                case Seq():
                    return self._seq(node, domain)
                case ParallelLoop():
                    return self._parallel(node, domain)
                case Bind() | If() | For() | Alloc() | Store() if self._volatile_loads(node):
                    return self._broadcast_loads(node, domain)
                case While() if self._volatile_loads(node):
                    return self.stmt(_with_condition_inside(node), domain)
                case TileOp():
                    return self._operator(node)
                case Alloc(buffer=buffer):
                    return self._alloc(node, buffer)
                case Store(buffer=buffer):
                    store = self._store(node)
                    return self._elected_only(store, node) if buffer.scope in SHARED_BY_THREADS else store
                case Atomic():
                    return self._atomic(node)
                case Print() | Assert():
                    return self._elected_only(self._registers.rebuild_stmt(node), node)
                case For():
                    return self._for(node, domain)
                case If():
                    return self._if(node, domain)
            return self._replicated(node, domain)

    def _seq(self, node: Seq, domain: Domain) -> Stmt | None:
        body: list[Stmt] = []
        with self._context.change_votes.sequence():
            for child in node.body:
                lowered = self.stmt(child, domain)
                domain = facts_after(child, domain)
                # bindings, allocations and votes are visible to the statements that follow
                visible = isinstance(child, Bind | Alloc) or isinstance(child, Atomic) and child.result is not None
                visible = self._context.change_votes.follow(child) or visible
                parts = lowered.body if visible and isinstance(lowered, Seq) else (lowered,)
                for part in parts:
                    if part is not None:
                        self._append(body, part)
        return Seq(tuple(body), loc=node.loc) if body else None

    def _append(self, body: list[Stmt], part: Stmt) -> None:
        """Appends a statement; adjacent branches of the elected thread are merged."""
        last = body[-1] if body else None
        if isinstance(last, If) and isinstance(part, If) and last.condition is part.condition is self._elected:
            joined = (*statements_of(last.then_body), *statements_of(part.then_body))
            body[-1] = dataclasses.replace(last, then_body=Seq(joined, loc=last.loc))
        else:
            body.append(part)

    def _for(self, node: For, domain: Domain) -> Stmt | None:
        """A loop that all threads execute; reductions whose result it does not read are completed after it."""
        build = Builder(node.loc)
        inside = domain.with_loop(node.var, node.start, node.stop, node.step)
        deferred = self._deferred.defer(node, lambda nest: self._to_defer(nest, node, inside))
        for each in deferred:
            each.open(build)
        body = self.stmt(node.body, inside) or Seq((), loc=node.body.loc)
        kind = ForKind.SERIAL if node.kind is ForKind.PIPELINED else node.kind
        start, stop = self._registers.exprs((node.start, node.stop))
        build.emit(dataclasses.replace(node, start=start, stop=stop, body=body, kind=kind, pipeline=None))
        for each in deferred:
            each.close(build, node)
        return build.finish()

    def _to_defer(self, nest: ParallelLoop, outer: For, domain: Domain) -> DistributedLoop | None:
        """A parallel loop, distributed, whose reductions may be completed after a serial loop; None if it has none."""
        separate = self._per_thread.runs_per_thread(nest) or self._groups.around(nest) != self._groups.around(outer)
        if separate or outer in self._per_thread.divergent_in_group:
            return None
        legality = self._legality(nest, domain)
        return self._distributed(nest, legality) if legality.reductions else None

    def _if(self, node: If, domain: Domain) -> Stmt | None:
        if node.group is not None:
            return self._group(node, node.group, domain)
        condition = self._registers.expr(node.condition)
        then = self.stmt(node.then_body, domain.assume(condition)) or Seq((), loc=node.loc)
        other = node.else_body and self.stmt(node.else_body, domain.assume(unary(UnaryOp.NOT, condition)))
        return dataclasses.replace(node, condition=condition, then_body=then, else_body=other)

    def _group(self, node: If, group: Group, domain: Domain) -> Stmt:
        """The body of a thread group, lowered like a block of these threads."""
        if node in self._per_thread.divergent_in_group:
            raise NoLowering(
                "T.ws: is in a branch or loop that only some threads execute",
                hint="take it out of the branch or loop around it",
            )
        is_single = group.count == 1  # any thread of the warp
        group_thread = Var("group_thread", INT32, index=True)
        around = self._context, self._elected
        self._context, self._elected = self._of_group(group, ZERO if is_single else group_thread), group_thread == 0
        condition = self._registers.expr(node.condition)
        inside = domain.assume(condition).with_range(group_thread, 0, group.count - 1)
        body = self.stmt(node.then_body, inside) or Seq((), loc=node.loc)
        self._context, self._elected = around
        if not is_single:
            body = substitute_stmt(body, {self._thread: group_thread + group.first})
        bind = Bind(group_thread, ZERO if is_single else self._thread - group.first, loc=node.loc)
        return dataclasses.replace(node, condition=condition, then_body=Seq((bind, body), loc=node.then_body.loc))

    def _of_group(self, group: Group, group_thread: Expr) -> LoweringContext:
        """The lowering context of a group, with registers for the fragments that its threads use."""
        held = {
            buffer: registers
            for buffer, registers in self._context.registers.items()
            if (user := self._groups.only_user(buffer)) is None or user.overlaps(group)
        }
        return dataclasses.replace(self._context, threads=group.count, thread=group_thread, registers=held)

    def _replicated(self, node: Stmt, domain: Domain) -> Stmt | None:
        """A statement that every thread executes, with fragments replaced by registers."""
        if not (inside := list(sub_statements(node))):
            return self._registers.rebuild_stmt(node)
        (body,) = inside
        rebuild = _RebuildAround(self._registers, body, self.stmt(body, domain) or Seq((), loc=body.loc))
        return rebuild.rebuild_stmt(node)

    def _elected_only(self, lowered: Stmt | None, node: Stmt) -> Stmt | None:
        """A side effect of block-uniform code, executed by the elected thread; one of thread code is unchanged."""
        if lowered is None or self._context.threads == 1 or self._per_thread.is_own(node):
            return lowered
        return If(self._elected, lowered, loc=node.loc)

    def _alloc(self, node: Alloc, buffer: Buffer) -> Stmt | None:
        if buffer in self._context.registers:
            registers = self._context.registers[buffer]
            shared = buffer.view_of is not None and registers.view_of is None
            return None if shared else Alloc(registers, loc=node.loc)
        if buffer.scope is Scope.FRAGMENT:
            raise CompilerBug(f"'{buffer.name}': a tile in registers without a layout")
        if buffer.scope in _OF_THREAD and buffer.storage is buffer and buffer not in self._per_thread.memory:
            self._own_scalars.append(buffer)
        return self._registers.rebuild_stmt(node)

    # -- volatile memory: other blocks write it -------------------------------------------------------------------
    def _volatile_loads(self, node: Stmt) -> list[Load]:
        """Loads of a block-uniform statement from memory that may change between the reads of its threads."""
        if not self._volatile or self._context.threads == 1 or self._per_thread.is_own(node):
            return []
        if isinstance(node, Store) and node.buffer.scope in SHARED_BY_THREADS:
            return []
        found = [e for root in expressions(node) for e in loads_of(root)]
        return [e for e in found if e.buffer.storage in self._volatile]

    def _broadcast_loads(self, node: Stmt, domain: Domain) -> Stmt | None:
        """The statement with these loads executed by one thread and broadcast through shared memory."""
        parts: list[Stmt] = []
        broadcast: dict[Expr, Expr] = {}
        for load in self._volatile_loads(node):
            shared = Buffer(f"{load.buffer.name}_seen", (as_expr(1),), load.dtype, Scope.SHARED)
            read = Store(shared, (ZERO,), self._registers.expr(load), loc=node.loc)
            parts += [Alloc(shared, loc=node.loc), If(self._elected, read, loc=node.loc)]
            broadcast[load] = Load(shared, (ZERO,), load.dtype)
        steady = _ReplaceLoads(broadcast, tuple(sub_statements(node))).rebuild_stmt(node)
        lowered = None if steady is None else self.stmt(steady, domain)
        return Seq((*parts, *([] if lowered is None else [lowered])), loc=node.loc)

    def _store(self, node: Store) -> Stmt | None:
        if node.buffer not in self._context.registers:
            return self._registers.rebuild_stmt(node)
        register, at = self._registers.element(node.buffer, node.indices)
        return Store(register, at, self._registers.expr(node.value), loc=node.loc)

    def _atomic(self, node: Atomic) -> Stmt | None:
        """An atomic of block-uniform code is executed by one thread, and its result broadcast through shared memory."""
        rebuilt = self._registers.rebuild_stmt(node)
        if isinstance(rebuilt, Atomic) and rebuilt.buffer.scope not in SHARED_BY_THREADS:
            return private_update(rebuilt)  # of every thread's copy
        if node.op is AtomicOp.LOAD and node.buffer.scope is not Scope.SHARED or node.result is None:
            return rebuilt if node.op is AtomicOp.LOAD else self._elected_only(rebuilt, node)
        if self._per_thread.is_own(node) or self._context.threads == 1 or not isinstance(rebuilt, Atomic):
            return rebuilt
        result, dtype = node.result, node.buffer.dtype
        previous = Var(result.name, dtype)
        shared = Buffer(f"{result.name}_seen", (as_expr(1),), dtype, Scope.SHARED)
        update = (dataclasses.replace(rebuilt, result=previous), Store(shared, (ZERO,), previous, loc=node.loc))
        parts = (
            Alloc(shared, loc=node.loc),
            If(self._elected, Seq(update, loc=node.loc), loc=node.loc),
            Bind(result, Load(shared, (ZERO,), dtype), loc=node.loc),
        )
        return Seq(parts, loc=node.loc)

    # -- collective statements ------------------------------------------------------------------------------------
    def _operator(self, node: TileOp) -> Stmt | None:
        lowering, plan = chosen_lowering(self._lowerings, node)
        build = Builder(node.loc)
        op = _Operands(self._registers).rebuild_stmt(node)
        diverged = node in self._per_thread.divergent_in_group
        if diverged and node.request is not None and isinstance(lowering, LowersDivergent):
            lowering.lower_divergent(op, plan, self._context, self._thread, build)
        else:
            self._require_convergence(node, node.name)
            lowering.lower(op, plan, self._context, build)
        return build.finish()

    def _require_convergence(self, node: Stmt, name: str) -> None:
        if node in self._per_thread.divergent_in_group:
            raise NoLowering(
                f"{name}: needs all threads of the block or of a group, but only some of them execute it",
                hint="take it out of the branch or loop that depends on the thread index",
            )

    def _parallel(self, loop: ParallelLoop, domain: Domain) -> Stmt | None:
        around = self._context
        if self._per_thread.runs_per_thread(loop):
            self._context = dataclasses.replace(around, threads=1, thread=ZERO)
        else:
            self._require_convergence(loop, "T.Parallel")
        lowered = None if self._deferred.replaces(loop) else self._distributed_iterations(loop, domain)
        self._context = around
        made = [stmt for stmt in (lowered, *self._deferred.scale(loop)) if stmt is not None]
        body = as_body(made, loop.loc) if made else None
        vote = around.change_votes.needed_by(loop)
        return body if body is None or vote is None else If(vote, body, loc=loop.loc)

    def _distributed_iterations(self, loop: ParallelLoop, domain: Domain) -> Stmt | None:
        """The iterations of a parallel loop that one thread executes."""
        if any(int_const(extent) == 0 for extent in loop.extents):
            return None
        build = Builder(loop.loc)
        reduction = self._deferred.of(loop)
        distributed, deferred = (None, []) if reduction is None else (reduction.loop, reduction.items)
        if distributed is None:
            legality = self._legality(loop, domain)
            in_group = loop in self._per_thread.divergent and self._context.threads > 1
            if legality.reason and in_group and any(accesses_memory(s)[1] for s in walk(loop)):
                raise NoLowering(
                    f"T.Parallel: a group of threads cannot run its iterations in order: {legality.reason}",
                    hint="let one thread of the group run a serial loop",
                )
            held = legality.live_out and self._context.threads == 1  # results are in scalars of the thread
            if legality.reason or held or not can_stride(legality) and not _is_constant(loop):
                return self.stmt(as_serial_loops(loop), domain)
            for lowering in self._loops if loop.layout is not None else ():
                note = lowering(loop, legality, self._context, build)
                if note:
                    self.notes.append(Note(note, loop.loc))
                    return build.finish()
            distributed = self._distributed(loop, legality)
            if distributed is None:
                lower_strided(loop, legality, self._context, build)
                return build.finish()
        distributed.emit(build, deferred)
        return build.finish()

    def _legality(self, loop: ParallelLoop, domain: Domain) -> ParallelLegality:
        return parallel_legality(loop, domain, lambda buffer: self._liveness.is_read_outside(loop, buffer))

    def _distributed(self, loop: ParallelLoop, legality: ParallelLegality) -> DistributedLoop | None:
        """The loop distributed by its layout; None if it has none, since extents are symbolic or it runs serially."""
        if legality.reason or not _is_constant(loop):
            return None
        extents = tuple(int_const(extent) or 0 for extent in loop.extents)
        lanes = self._context.target.machine.warp_size
        layout = loop.layout or blocked(extents, self._context.threads, warp_size=lanes, copies=False)
        return DistributedLoop(loop, layout, legality, self._context)


def _is_constant(loop: ParallelLoop) -> bool:
    """Whether all extents are positive constants."""
    return all((int_const(extent) or 0) > 0 for extent in loop.extents)


def _with_condition_inside(loop: While) -> Stmt:
    """The loop with its condition as a `break` in the body."""
    exit_branch = If(unary(UnaryOp.NOT, loop.condition), Break(loc=loop.loc), loc=loop.loc)
    return dataclasses.replace(loop, condition=const(True, BOOL), body=Seq((exit_branch, loop.body), loc=loop.loc))


def as_serial_loops(loop: ParallelLoop) -> Stmt:
    """The loop as serial loops that every thread executes."""
    body = loop.body
    for var, extent in zip(reversed(loop.vars), reversed(loop.extents), strict=True):
        body = For(var, ZERO, extent, 1, ForKind.SERIAL, body, loc=loop.loc)
    return body


class _Registers(Rewriter):
    """Replaces elements of replicated fragments by registers."""

    def __init__(self, context: LoweringContext) -> None:
        self._context = context

    def element(self, buffer: Buffer, indices: tuple[Expr, ...]) -> tuple[Buffer, tuple[Expr, ...]]:
        """The register of an element."""
        layout = self._context.fragments[buffer]
        if not is_replicated(layout):
            raise CompilerBug(f"'{buffer.name}': a single element of a fragment that is distributed over threads")
        return self._context.registers[buffer], (replicated_register_index(layout, self.exprs(indices)),)

    def expr(self, node: Expr) -> Expr:
        if isinstance(node, Load) and node.buffer in self._context.registers:
            register, at = self.element(node.buffer, node.indices)
            return Load(register, at, node.dtype)
        return self.rebuild_expr(node)

    def region(self, node: Region) -> Region:
        if node.buffer not in self._context.registers:
            return super().region(node)
        if not is_replicated(self._context.fragments[node.buffer]):
            raise NoLowering(
                f"'{node.buffer.name}': an instruction of single threads accesses a fragment distributed over them",
                hint="allocate it with T.alloc_local",
            )
        register, at = self.element(node.buffer, node.start)
        return Region(register, at, register.shape)


class _ReplaceLoads(Rewriter):
    """Replaces loads by broadcast values; bodies are unchanged."""

    def __init__(self, broadcast: Mapping[Expr, Expr], bodies: tuple[Stmt, ...]) -> None:
        self._values, self._bodies = broadcast, bodies

    def expr(self, node: Expr) -> Expr:
        return self._values[node] if node in self._values else self.rebuild_expr(node)

    def stmt(self, node: Stmt) -> Stmt | None:
        return node if any(node is body for body in self._bodies) else self.rebuild_stmt(node)


class _Operands(Rewriter):
    """Replaces elements of replicated fragments in what tile operators evaluate, such as where a region starts."""

    def __init__(self, registers: _Registers) -> None:
        self._registers = registers

    def expr(self, node: Expr) -> Expr:
        return self._registers.expr(node)


class _RebuildAround(_Operands):
    """Rebuilds a statement around a body that has been lowered already."""

    def __init__(self, registers: _Registers, old: Stmt, new: Stmt) -> None:
        super().__init__(registers)
        self._old, self._new = old, new

    def stmt(self, node: Stmt) -> Stmt | None:
        return self._new if node is self._old else self.rebuild_stmt(node)
