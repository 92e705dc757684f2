"""The programs of the two partitions of a warp-specialized block: the producer's loads and the consumers' computation.

Takes a launch's body and its pipelines, gives a statement for each partition. Invariant: the producer issues the copies
of the pipelines in program order, under the same loops and branches, and recomputes the uniform scalars that these need
in variables of its own; consumers do everything else, and access a tile only between wait and release.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence, Set

from tilelang.analysis.uniform_scalars import BackwardSlice
from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Expr, Var
from tilelang.ir.pipeline import ReleaseTo
from tilelang.ir.sequences import statements_of, with_location
from tilelang.ir.stmt import Alloc, Bind, For, ForKind, If, Seq, Stmt, While
from tilelang.ir.visit import Rewriter, substitute, substitute_stmt, walk, without_unused_bindings
from tilelang.ops.copy import Copy
from tilelang.schedule.alternate_tiles import AlternateTiles
from tilelang.schedule.multicast import ClusterBlocks
from tilelang.schedule.pipeline_buffers import PartitionStates, PipelineBuffer, PipelineState
from tilelang.schedule.single_gemm import only_gemm
from tilelang.schedule.software_pipeline import SoftwarePipeline
from tilelang.schedule.tile_scheduler import TileScheduler
from tilelang.transforms.versions import OnVersion


def producer(
    body: Stmt, pipelines: Sequence[PipelineBuffer], cluster: ClusterBlocks, scheduler: TileScheduler | None = None
) -> Stmt:
    """The program of the producer's thread, which may load for other blocks of its cluster, and schedule tiles, too."""
    states = PartitionStates(pipelines)
    rewriter = _Producer(pipelines, states, cluster, scheduler)
    program = rewriter.visit(body)
    inner = () if program is None else (program,)
    first = () if scheduler is None else (scheduler.first(),)
    return without_unused_bindings(Seq((*states.counters, *first, *inner), loc=body.loc))


class _Fills:
    """The control flow around loads, by which a partition counts fills.

    Args:
        slices: The uniform scalars that it recomputes, in buffers and variables of its own.
        states: The states of the partition.
    """

    def __init__(self, slices: Sequence[BackwardSlice], states: PartitionStates) -> None:
        self._states = states
        self._recomputed = frozenset[Stmt]().union(*(each.statements for each in slices))
        self._buffers = {old: dataclasses.replace(old) for each in slices for old in each.buffers}
        self._values: dict[Var, Expr] = {}

    def visit(self, node: Stmt) -> Stmt | None:
        """The part of a statement that the partition executes; None if there is none."""
        match node:
            case Seq():
                return self._sequence(node)
            case For():
                return self._loop(node)
            case While():
                body = self.visit(node.body)
                return body and dataclasses.replace(node, condition=self._renamed(node.condition), body=body)
            case If():
                then = self.visit(node.then_body)
                other = None if node.else_body is None else self.visit(node.else_body)
                if then is None and other is None:
                    return None
                condition = self._renamed(node.condition)
                return dataclasses.replace(
                    node, condition=condition, then_body=then or Seq((), loc=node.loc), else_body=other
                )
        return substitute_stmt(node, self._values, self._buffers) if node in self._recomputed else None

    def _loop(self, node: For) -> Stmt | None:
        var = self._fresh(node.var)
        body = self.visit(node.body)
        counting = self._after_loop(node)
        if body is None:
            return Seq(tuple(counting), loc=node.loc) if counting else None
        start, stop = self._renamed(node.start), self._renamed(node.stop)
        kind = ForKind.SERIAL if node.kind is ForKind.PIPELINED else node.kind
        made = dataclasses.replace(node, var=var, start=start, stop=stop, kind=kind, body=body, pipeline=None)
        return Seq((made, *counting), loc=node.loc) if counting else made

    def _after_loop(self, loop: For) -> list[Stmt]:
        return self._states.after_loop(loop, self._renamed)

    def _sequence(self, node: Seq) -> Stmt | None:
        busy = False
        body: list[Stmt] = []
        for child in node.body:
            if isinstance(child, Bind):
                body += self._bind(child)
            elif (rewritten := self.visit(child)) is not None:
                body += statements_of(rewritten)
                busy = True
        return Seq(tuple(body), loc=node.loc) if busy else None

    def _bind(self, node: Bind) -> list[Stmt]:
        value = self._renamed(node.value)
        return [dataclasses.replace(node, var=self._fresh(node.var), value=value)]

    def _fresh(self, var: Var) -> Var:
        """The partition's own copy of a variable."""
        fresh = self._values[var] = Var(var.name, var.dtype, index=var.index)
        return fresh

    def _renamed(self, expr: Expr) -> Expr:
        """An expression in the partition's own variables and buffers."""
        return substitute(expr, self._values, self._buffers)


class _Producer(_Fills):
    """The loads, too."""

    def __init__(
        self,
        pipelines: Sequence[PipelineBuffer],
        states: PartitionStates,
        cluster: ClusterBlocks,
        scheduler: TileScheduler | None,
    ) -> None:
        super().__init__([each.load_group.backward_slice() for each in pipelines], states)
        self._scheduler, self._cluster = scheduler, cluster
        self._of = {copy: each for each in pipelines for copy in each.load_group.copies}
        self._current: dict[PipelineBuffer, PipelineState] = {}

    def visit(self, node: Stmt) -> Stmt | None:
        """The part of a statement that the producer executes; None if there is none."""
        if isinstance(node, Copy) and node in self._of:
            return Seq(tuple(self._load(node, self._of[node])), loc=node.loc)
        made = super().visit(node)
        if self._scheduler is not None and node is self._scheduler.loop and isinstance(made, For):
            return self._scheduler.with_all_iterations(made)
        return made

    def _bind(self, node: Bind) -> list[Stmt]:
        if self._scheduler is None or node is not self._scheduler.number:
            return super()._bind(node)
        iteration = self._renamed(self._scheduler.loop.var)
        return [with_location(s, node.loc) for s in self._scheduler.take(iteration, self._fresh(node.var))]

    def _load(self, copy: Copy, each: PipelineBuffer) -> list[Stmt]:
        statements: list[Stmt] = []
        copies = each.load_group.copies
        if copy is copies[0]:
            self._current[each] = self._states.state(each, self._renamed)
            state = self._current[each]
            statements += [*state.setup, each.acquire(state)]
        state = self._current[each]
        moved = OnVersion(each.on_stage(state)).visit(substitute_stmt(copy, self._values, self._buffers))
        assert isinstance(moved, Copy)
        moved = dataclasses.replace(moved, barrier=each.full_barrier(state))
        axes = each.multicast.get(copy.dst.buffer)
        statements.append(moved if axes is None else self._cluster.multicast_part(moved, axes))
        if copy is copies[-1]:
            statements += [each.commit(state), *state.advance]
        return [with_location(s, copy.loc) for s in statements]


# -- consumers --------------------------------------------------------------------------------------------------------
def consumer(
    body: Stmt,
    pipelines: Sequence[PipelineBuffer],
    order: AlternateTiles | None = None,
    software_pipelines: Sequence[SoftwarePipeline] = (),
    scheduler: TileScheduler | None = None,
) -> Stmt:
    """The program of the consumers.

    Args:
        body: The body of the launch.
        pipelines: The tiles that the producer loads.
        order: One of two groups that compute alternate tiles, whose main loops it orders; None without ping-pong.
        software_pipelines: The loops that are software-pipelined.
        scheduler: Numbers the tiles that a persistent block computes; None if each block computes its own.
    """
    states = PartitionStates(pipelines)
    crossing = [each for program in software_pipelines for each in program.crossing]
    late_states = PartitionStates(crossing, waits=False, among=states)
    computed = {tile for program in software_pipelines for tile in program.computed}
    rewriter = _Consumer(pipelines, computed, states, late_states)
    rewriter.software_pipelines = {each.loop: each for each in software_pipelines}
    rewriter.scheduler = scheduler
    loops = [s for s in walk(body) if isinstance(s, For)]
    groups = [each.load_group for each in pipelines]
    if order is not None:
        rewriter.order = order
        rewriter.orders = {loop: order for loop in loops if only_gemm(loop, groups) is not None}
    program = rewriter.visit(body) or Seq((), loc=body.loc)
    on_versions = OnVersion(rewriter.versions).visit(program) or Seq((), loc=body.loc)
    receivers = [ReleaseTo(each.pipeline, each.senders) for each in pipelines if each.signals_cluster]
    counters = [*states.counters, *late_states.counters, *(() if order is None else order.counters())]
    return Seq((*receivers, *counters, on_versions), loc=body.loc)


class _Consumer(Rewriter):
    def __init__(
        self,
        pipelines: Sequence[PipelineBuffer],
        computed: Set[Buffer],
        states: PartitionStates,
        late_states: PartitionStates,
    ) -> None:
        self._pipelines = pipelines
        self._states, self._late_states = states, late_states
        self._copies = {copy for each in pipelines for copy in each.load_group.copies}
        self._tiles = {*computed, *(tile for each in pipelines for tile in each.tiles)}  # allocated outside
        self._loops = {each.load_group.loop for each in pipelines}
        self._free_before_epilogue: dict[For, dict[PipelineBuffer, PipelineState]] = {}
        self.versions: dict[Buffer, tuple[Buffer, Expr]] = {}
        self.order: AlternateTiles | None = None
        self.orders: dict[For, AlternateTiles] = {}
        self.software_pipelines: dict[For, SoftwarePipeline] = {}
        self.scheduler: TileScheduler | None = None

    def stmt(self, node: Stmt) -> Stmt | None:
        if isinstance(node, Seq):
            return self._sequence(node)
        made = self._stmt(node)
        counting = self._states.after_loop(node) if isinstance(node, For) else []
        if isinstance(node, For) and node in self.orders:
            counting += self.orders[node].after_loop()
        return Seq((made, *counting), loc=node.loc) if made is not None and counting else made

    def _stmt(self, node: Stmt) -> Stmt | None:
        if isinstance(node, For) and node in self.software_pipelines:
            free = self._free_before_epilogue.get(node, {})
            expanded = self.software_pipelines[node].expand(
                self._states,
                self._late_states,
                lambda: [s for each, state in free.items() for s in self._release(each, state)],
                self.orders.get(node),
            )
            return Seq(tuple(expanded), loc=node.loc)
        rebuilt = self.rebuild_stmt(node)
        if self.scheduler is not None and node is self.scheduler.loop and isinstance(rebuilt, For):
            rebuilt = self.scheduler.with_all_iterations(rebuilt)
        if self.order is not None and self.order.main_loops is not None and node is self.order.tiles:
            return self._in_turn(node, rebuilt, self.order)
        if isinstance(node, For) and node in self._loops and isinstance(rebuilt, For):
            rebuilt = dataclasses.replace(rebuilt, kind=ForKind.SERIAL, pipeline=None)
            if node in self.orders:  # all warps have passed the order barrier, since each gemm waits for all of them
                order = self.orders[node]
                ordered = [order.wait(), rebuilt, order.arrive()]
                return Seq(tuple(with_location(s, node.loc) for s in ordered), loc=node.loc)
        return rebuilt

    def _in_turn(self, tiles: For, rebuilt: Stmt | None, order: AlternateTiles) -> Stmt:
        """The loop over tiles, of which this group computes those whose main loops are its own."""
        assert isinstance(rebuilt, For)
        before, own = _split(rebuilt.body)
        _, others = _split(tiles.body)
        counted = _OtherTile(self._pipelines, self._states, self.orders).visit(Seq(others))
        turn = order.in_turn(Seq(own), Seq(()) if counted is None else without_unused_bindings(counted))
        return dataclasses.replace(rebuilt, body=Seq((*before, *turn), loc=rebuilt.body.loc))

    def _sequence(self, node: Seq) -> Stmt:
        mine = [each for each in self._pipelines if each.load_group.parent is node]
        states = {each: self._states.state(each) for each in mine}
        for each, state in states.items():
            if not each.load_group.others:
                self.versions |= each.on_stage(state)
        body: list[Stmt] = []
        for child in node.body:
            if self.scheduler is not None and isinstance(child, Bind) and child is self.scheduler.number:
                received = self.scheduler.receive(self.scheduler.loop.var, child.var)
                body += [with_location(s, child.loc) for s in received]
                continue
            if child in self._copies or isinstance(child, Alloc) and child.buffer in self._tiles:
                continue
            for each in mine:
                if each.load_group.first is child:
                    statements = [*states[each].setup, each.wait(states[each])]
                    body += [with_location(s, child.loc) for s in statements]
            done = {each: state for each, state in states.items() if each.load_group.last is child}
            if isinstance(child, For) and child in self.software_pipelines:
                is_free = self.software_pipelines[child].releases_before_epilogue
                self._free_before_epilogue[child] = free = {each: done[each] for each in done if is_free(each)}
                done = {each: state for each, state in done.items() if each not in free}
            rewritten = self.visit(child)
            if rewritten is not None and (inside := _stages_read(child, states)):
                rewritten = OnVersion(inside).visit(rewritten)
            body += [] if rewritten is None else [rewritten]
            body += [s for each, state in done.items() for s in self._release(each, state)]
        return Seq(tuple(body), loc=node.loc)

    def _release(self, each: PipelineBuffer, state: PipelineState) -> list[Stmt]:
        """Releases the stage of a tile behind its last reader, and goes on to the next."""
        statements = [*each.release(state.index), *state.advance]
        return [with_location(s, each.load_group.last.loc) for s in statements]


def _stages_read(stmt: Stmt, states: Mapping[PipelineBuffer, PipelineState]) -> dict[Buffer, tuple[Buffer, Expr]]:
    """The stages that a statement reads of tiles that several groups fill, whose other readers have other stages."""
    below = set(walk(stmt))
    reading = [each for each in states if each.load_group.others and not below.isdisjoint(each.load_group.readers)]
    return {tile: stage for each in reading for tile, stage in each.on_stage(states[each]).items()}


class _OtherTile(_Fills):
    """What one of two groups does in a tile of the other one: it counts fills and main loops."""

    def __init__(
        self, pipelines: Sequence[PipelineBuffer], states: PartitionStates, orders: Mapping[For, AlternateTiles]
    ) -> None:
        super().__init__([each.load_group.flow_slice() for each in pipelines], states)
        self._orders = orders

    def _after_loop(self, loop: For) -> list[Stmt]:
        counting = super()._after_loop(loop)
        return [*counting, *self._orders[loop].after_loop()] if loop in self._orders else counting


def _split(body: Stmt) -> tuple[tuple[Stmt, ...], tuple[Stmt, ...]]:
    """The bindings at the beginning of a body, and the rest."""
    statements = statements_of(body)
    count = next((n for n, stmt in enumerate(statements) if not isinstance(stmt, Bind)), len(statements))
    return statements[:count], statements[count:]
