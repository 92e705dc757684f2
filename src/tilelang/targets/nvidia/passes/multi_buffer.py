"""Gives a warp-specialized loop that the user synchronizes by barriers as many stages as its `num_stages`.

Takes a tile-level function with the groups of its threads in place. In a loop `for k in T.Pipelined(n, num_stages=S)`
whose groups (`T.ws`) pass single-buffered tiles through barriers, every tile and every barrier gets S versions:
iteration k uses version `k % S`, and waits for phase `k // S` of that version's barrier, so that a producer runs up to
S iterations ahead of its consumers. Invariant: each reader sees what it saw with one version; a loop in which that is
not proven stays as it is, with the reason among the notes of the launch.

What is proven, for barriers that only this loop uses, from its first iteration 0 on:

- each iteration completes one phase of each barrier: its arrivals add up to the barrier's count;
- each wait of iteration k is for phase k (the tile is full) or phase k - 1 (the tile was released in the iteration
  before), by its parity;
- a tile is filled as a whole by one group, after a wait for the release by each group that reads it, and read by
  others after a wait for a barrier at which that group arrives after the filling. Nothing else shared is written.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from tilelang.analysis.accesses import accesses
from tilelang.dtypes import INT32
from tilelang.errors import Note
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Expr, Var, const, int_const
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.sequences import flat_statements
from tilelang.ir.stmt import Alloc, CallStmt, For, ForKind, Group, If, Launch, Seq, Stmt
from tilelang.ir.visit import Rewriter, variables_of, walk
from tilelang.isa.instruction import Instruction
from tilelang.ops.copy import Copy
from tilelang.ops.gemm import Gemm
from tilelang.passes.base import Pass, PassContext, with_launches
from tilelang.passes.properties import Property
from tilelang.records import record
from tilelang.schedule.loop_body import fills
from tilelang.targets.nvidia.isa.mbarrier import (
    MBARRIER_ARRIVE,
    MBARRIER_ARRIVE_EXPECT_TX,
    MBARRIER_EXPECT_TX,
    MBARRIER_INIT,
    MBARRIER_WAIT,
)
from tilelang.transforms.versions import OnVersion, versioned

_ARRIVALS = (MBARRIER_ARRIVE, MBARRIER_ARRIVE_EXPECT_TX)
_ON_BARRIERS = (*_ARRIVALS, MBARRIER_EXPECT_TX, MBARRIER_WAIT)


class _Refused(Exception):
    """The loop stays single-buffered, for this reason."""


@record(slots=True)
class _Step:
    """One statement of a group's iteration, with its position among the statements of the group."""

    group: Group
    position: int
    stmt: Stmt


def _steps(loop: For) -> list[_Step]:
    """The statements of the groups of a loop, in program order.

    Raises:
        _Refused: Something is not done by a group, or a barrier is used in a branch or an inner loop.
    """
    found: list[_Step] = []
    for part in flat_statements(loop.body):
        if not isinstance(part, If) or part.group is None:
            raise _Refused("a statement of the loop belongs to no group of threads")
        for stmt in flat_statements(part.then_body):
            if _barrier_of(stmt) is None and any(_barrier_of(inner) is not None for inner in walk(stmt)):
                raise _Refused("a barrier is used in a branch or an inner loop")
            found.append(_Step(part.group, len(found), stmt))
    return found


def _barrier_of(stmt: Stmt) -> Region | None:
    """The barrier that a statement uses."""
    if isinstance(stmt, Copy):
        return stmt.barrier
    if isinstance(stmt, CallStmt) and isinstance(stmt.routine, Instruction):
        for arg in stmt.args:
            if isinstance(arg, Region) and arg.buffer.scope is Scope.BARRIER:
                return arg
    return None


class _Proof:
    """The proof that versions of its tiles do not change what a loop computes.

    Attributes:
        tiles: The shared tiles that groups pass to each other.
        barriers: The barriers that they use.
        lag: For each wait, by how many iterations the phase it waits for is older than the iteration: 0 or 1.
    """

    def __init__(self, loop: For, counts: Mapping[Buffer, int], outside: Mapping[Buffer, str]) -> None:
        if int_const(loop.start) != 0 or loop.step != 1:
            raise _Refused("the loop does not count from 0 by 1")
        self._loop, self._outside = loop, outside
        self._steps = _steps(loop)
        self.lag: dict[Stmt, int] = {}
        self.barriers = self._check_barriers(counts)
        self.tiles = self._check_tiles()

    def _check_barriers(self, counts: Mapping[Buffer, int]) -> list[Buffer]:
        arrived: dict[Buffer, int] = {}
        for step in self._steps:
            stmt, region = step.stmt, _barrier_of(step.stmt)
            if region is None:
                if isinstance(stmt, CallStmt) and isinstance(stmt.routine, Instruction):
                    raise _Refused(f"{stmt.name} orders threads by other means")
                if isinstance(stmt, Gemm) and (stmt.wait or stmt.required_lowering):
                    raise _Refused("a gemm still runs after its statement")
                continue
            barrier = region.buffer
            if barrier not in counts:
                raise _Refused(f"'{barrier.name}' is used outside of the loop, or holds several barriers")
            arrived.setdefault(barrier, 0)
            if isinstance(stmt, Copy):
                continue
            assert isinstance(stmt, CallStmt)
            if stmt.routine not in _ON_BARRIERS:
                raise _Refused(f"{stmt.name} uses '{barrier.name}'")
            if stmt.routine in _ARRIVALS:
                arrived[barrier] += step.group.count
            if stmt.routine is MBARRIER_WAIT:
                self.lag[stmt] = self._phase_lag(stmt.args[1], barrier)
        for barrier, count in arrived.items():
            if count != counts[barrier]:
                needed = counts[barrier]
                raise _Refused(f"an iteration arrives {count} times at '{barrier.name}', which counts {needed}")
        if not arrived:
            raise _Refused("it uses no barrier")
        return list(arrived)

    def _phase_lag(self, parity: Expr | Region, barrier: Buffer) -> int:
        if not isinstance(parity, Region) and variables_of(parity) <= {self._loop.var}:
            found = [int(evaluate(parity, {self._loop.var: k})) for k in range(4)]
            for lag in (0, 1):
                if found == [(k + lag) % 2 for k in range(4)]:
                    return lag
        raise _Refused(f"the parity of a wait for '{barrier.name}' is not that of the iteration or of the one before")

    def _check_tiles(self) -> list[Buffer]:
        readers: dict[Buffer, list[_Step]] = {}
        writers: dict[Buffer, list[_Step]] = {}
        for step in self._steps:
            found = accesses(step.stmt)
            for access in found.all:
                storage = access.buffer.storage
                if storage in found.local or storage.scope is Scope.BARRIER:
                    continue
                (writers if access.write else readers).setdefault(storage, []).append(step)
        tiles = []
        for storage, filling in writers.items():
            users = [*filling, *readers.get(storage, ())]
            is_private = all(user.group.same_threads(filling[0].group) for user in users)
            if is_private and storage.scope is not Scope.GLOBAL:
                continue  # the iterations of one group stay in order
            if storage.scope is not Scope.SHARED:
                raise _Refused(f"'{storage.name}' is written in the loop")
            if storage in self._outside:
                raise _Refused(self._outside[storage])
            self._check_tile(storage, filling, readers.get(storage, []))
            tiles.append(storage)
        if not tiles:
            raise _Refused("it fills no shared tile")
        return tiles

    def _check_tile(self, tile: Buffer, filling: Sequence[_Step], reading: Sequence[_Step]) -> None:
        if len(filling) != 1 or not fills(filling[0].stmt, tile):
            raise _Refused(f"'{tile.name}' is not filled as a whole by one copy")
        (fill,) = filling
        if not reading:
            raise _Refused(f"'{tile.name}' is not read")
        for read in reading:
            if read.group.overlaps(fill.group):
                raise _Refused(f"'{tile.name}' is read by the threads that fill it")
            full = self._barriers_between(fill, read, lag=0)
            released = self._barriers_between(read, fill, lag=1)
            barrier = fill.stmt.barrier.buffer if isinstance(fill.stmt, Copy) and fill.stmt.barrier else None
            if not full or (barrier is not None and barrier not in full):
                raise _Refused(f"a reader of '{tile.name}' does not wait until it is full")
            if not released:
                raise _Refused(f"'{tile.name}' is filled without waiting for a reader to release it")

    def _barriers_between(self, first: _Step, second: _Step, *, lag: int) -> set[Buffer]:
        """Barriers at which the first step's group arrives after it and the second's waits before it."""
        arrives = {
            region.buffer
            for s in self._steps
            if s.group.same_threads(first.group) and s.position > first.position and _arrives(s.stmt)
            if (region := _barrier_of(s.stmt)) is not None
        }
        waits = {
            region.buffer
            for s in self._steps
            if s.group.same_threads(second.group) and s.position < second.position and self.lag.get(s.stmt) == lag
            if (region := _barrier_of(s.stmt)) is not None
        }
        return arrives & waits


def _arrives(stmt: Stmt) -> bool:
    return isinstance(stmt, CallStmt) and stmt.routine in _ARRIVALS


class _OnVersionOfIteration(OnVersion):
    """Moves the statements of one loop to the version of their iteration.

    Args:
        stages: The buffers of all stages, tiles and barriers, by the single-buffered ones.
        proof: The loop's proof.
        var: The loop's variable.
        count: How many stages there are.
    """

    def __init__(self, stages: Mapping[Buffer, Buffer], proof: _Proof, var: Var, count: int) -> None:
        index = var % count
        super().__init__({old: (new, index) for old, new in stages.items() if old.scope is not Scope.BARRIER})
        self._stages, self._index, self._lag = stages, index, proof.lag
        self._phase = var // count

    def region(self, node: Region) -> Region:
        """A region of a tile or barrier, on the stage of the iteration."""
        if node.buffer.scope is Scope.BARRIER:
            return Region(self._stages[node.buffer], (self._index,), node.extent)
        return super().region(node)

    def stmt(self, node: Stmt) -> Stmt | None:
        """A wait gets the parity of the stage's phase in this iteration."""
        if isinstance(node, CallStmt) and node in self._lag:
            region = node.args[0]
            assert isinstance(region, Region)
            parity = (self._phase + self._lag[node]) % 2
            return dataclasses.replace(node, args=(self.region(region), parity))
        return super().stmt(node)


class _Expand(Rewriter):
    """Rewrites a launch: allocations and initializations for all stages, and the loops on their stages."""

    def __init__(self, stages: Mapping[Buffer, Buffer], loops: Mapping[For, _OnVersionOfIteration]) -> None:
        self._stages, self._loops = stages, loops

    def stmt(self, node: Stmt) -> Stmt | None:
        if isinstance(node, Alloc) and node.buffer in self._stages:
            return dataclasses.replace(node, buffer=self._stages[node.buffer])
        if isinstance(node, CallStmt) and node.routine is MBARRIER_INIT:
            return self._initialized(node)
        if isinstance(node, For) and node in self._loops:
            body = self._loops[node].visit(node.body)
            assert body is not None
            return dataclasses.replace(node, kind=ForKind.SERIAL, pipeline=None, body=body)
        return self.rebuild_stmt(node)

    def _initialized(self, node: CallStmt) -> Stmt:
        region = node.args[0]
        assert isinstance(region, Region)
        if region.buffer not in self._stages:
            return node
        barriers = self._stages[region.buffer]
        count = int_const(barriers.shape[0]) or 0
        versions = [Region(barriers, (const(i, INT32),), region.extent) for i in range(count)]
        return Seq(tuple(dataclasses.replace(node, args=(each, *node.args[1:])) for each in versions), loc=node.loc)


def _outermost_loops(stmt: Stmt) -> Iterator[For]:
    """The outermost loops."""
    if isinstance(stmt, For):
        yield stmt
        return
    children = stmt.body if isinstance(stmt, Seq) else ()
    if isinstance(stmt, If):
        children = tuple(s for s in (stmt.then_body, stmt.else_body) if s is not None)
    for child in children:
        yield from _outermost_loops(child)


def _expanded(launch: Launch, capacity: int) -> Launch:
    candidates = [
        loop
        for loop in _outermost_loops(launch.body)
        if loop.kind is ForKind.PIPELINED and loop.pipeline is not None and loop.pipeline.num_stages > 1
        and loop.pipeline.order is None and loop.pipeline.stage is None
        and any(_barrier_of(s) is not None for s in walk(loop.body))
    ]  # fmt: skip
    if not candidates or launch.hints.cluster != (1, 1, 1):
        return launch
    allocated = [s.buffer for s in walk(launch.body) if isinstance(s, Alloc) and s.buffer.scope is Scope.SHARED]
    spent = sum(_bytes(b) for b in allocated if b.storage is b)
    stages: dict[Buffer, Buffer] = {}
    loops: dict[For, _OnVersionOfIteration] = {}
    notes: list[Note] = []
    for loop in candidates:
        assert loop.pipeline is not None
        try:
            proof = _Proof(loop, _counts(launch, loop), _outside(launch, loop))
            version_bytes = sum(map(_bytes, proof.tiles))
            count = min(loop.pipeline.num_stages, 1 + (capacity - spent) // version_bytes)
            if count < 2:
                raise _Refused(f"{version_bytes} bytes more of shared memory would not fit")
        except _Refused as refused:
            notes.append(Note(f"T.Pipelined: the loop keeps one stage: {refused}", loop.loc))
            continue
        spent += (count - 1) * version_bytes
        new_buffers = {tile: versioned(tile, count) for tile in proof.tiles}
        new_buffers |= {b: dataclasses.replace(b, shape=(const(count, INT32),)) for b in proof.barriers}
        stages |= new_buffers
        loops[loop] = _OnVersionOfIteration(new_buffers, proof, loop.var, count)
    plan = dataclasses.replace(launch.plan, notes=(*launch.plan.notes, *notes))
    if not loops:
        return dataclasses.replace(launch, plan=plan)
    body = _Expand(stages, loops).visit(launch.body)
    assert body is not None
    layouts = tuple((stages.get(buffer, buffer), layout) for buffer, layout in launch.hints.layouts)
    counts = tuple((new, int_const(new.shape[0]) or 1) for old, new in stages.items() if old.scope is Scope.SHARED)
    plan = dataclasses.replace(plan, versions=(*plan.versions, *counts))
    return dataclasses.replace(launch, body=body, plan=plan, hints=dataclasses.replace(launch.hints, layouts=layouts))


def _bytes(buffer: Buffer) -> int:
    elements = 1
    for extent in buffer.static_shape or ():
        elements *= extent or 0
    return elements * buffer.dtype.bits // 8


def _counts(launch: Launch, loop: For) -> dict[Buffer, int]:
    """The arrival counts of buffers of one barrier that are initialized once and used in one loop alone."""
    inside = set(walk(loop.body))
    counts: dict[Buffer, int] = {}
    elsewhere: set[Buffer] = set()
    for stmt in walk(launch.body):
        region = _barrier_of(stmt)
        if region is None or stmt in inside:
            continue
        first = region.buffer not in counts
        if isinstance(stmt, CallStmt) and stmt.routine is MBARRIER_INIT and first:
            count = int_const(stmt.args[1]) if not isinstance(stmt.args[1], Region) else None
            if count is not None and region.buffer.static_shape == (1,):
                counts[region.buffer] = count
                continue
        elsewhere.add(region.buffer)
    return {buffer: count for buffer, count in counts.items() if buffer not in elsewhere}


def _outside(launch: Launch, loop: For) -> dict[Buffer, str]:
    """Shared buffers whose accesses outside of the loop rule out versions, with the reason."""
    reasons: dict[Buffer, str] = {}
    inside = set(walk(loop))
    for stmt in walk(launch.body):
        if isinstance(stmt, Alloc) and stmt.buffer.storage is not stmt.buffer:
            reasons[stmt.buffer.storage] = f"'{stmt.buffer.storage.name}' has views"
    for access in accesses(launch.body).all:
        if access.stmt not in inside:
            storage = access.buffer.storage
            reasons.setdefault(storage, f"'{storage.name}' is also used outside of the loop")
    return reasons


def _run(func: PrimFunc, context: PassContext) -> PrimFunc:
    capacity = context.target.machine.shared_bytes
    return with_launches(func, lambda launch: _expanded(launch, capacity))


PASS = Pass(
    "multi_buffer", _run, Level.TILE, Level.TILE,
    requires=(Property.THREAD_GROUPS_DETECTED, Property.BARRIERS_AS_WRITTEN, Property.OPERATORS_UNEXPANDED),
    establishes=(Property.USER_PIPELINES_VERSIONED,),
)
"""The pass."""
