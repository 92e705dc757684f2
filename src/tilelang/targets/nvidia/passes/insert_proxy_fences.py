"""Inserts proxy fences between generic writes to shared memory and accesses through the async proxy (TMA, wgmma).

Takes a thread-level function with all of its barriers; gives one in which every thread that has written to a tile that
the async proxy accesses, too, executes a proxy fence before its next barrier, or before it issues such an access
itself. Invariant: only fences are added.

Source: PTX ISA, "Memory Consistency Model: Proxies" and "membar / fence.proxy".
"""

from __future__ import annotations

import dataclasses

from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.stmt import CallStmt, For, If, Launch, Seq, Stmt, While
from tilelang.ir.visit import walk, written_buffers
from tilelang.isa.instruction import Effect, Instruction
from tilelang.passes.base import Pass, PassContext, with_launches
from tilelang.passes.properties import Property
from tilelang.targets.nvidia.isa.async_units import CP_ASYNC
from tilelang.targets.nvidia.isa.fence import FENCE_PROXY_ASYNC
from tilelang.transforms.place_barriers import PlaceBarriers

_MEETS = Effect.SYNC_BLOCK | Effect.SYNC_SOME | Effect.SYNC_WARP | Effect.SYNC_GRID


def _instruction(stmt: Stmt) -> Instruction | None:
    return stmt.routine if isinstance(stmt, CallStmt) and isinstance(stmt.routine, Instruction) else None


def _is_asynchronous(stmt: Stmt) -> bool:
    routine = _instruction(stmt)
    return routine is not None and routine.async_unit is not None and routine.async_unit.async_proxy


def _tiles(stmt: CallStmt) -> list[Buffer]:
    """The shared tiles that a call touches."""
    regions = (*stmt.reads, *stmt.writes)
    return [region.buffer.storage for region in regions if region.buffer.scope is Scope.SHARED]


class _Fences:
    """Finds the places of fences in one launch by a walk in program order that tracks unfenced writes.

    Attributes:
        before: The statements before which a fence is needed.
    """

    def __init__(self, launch: Launch) -> None:
        self.before: set[Stmt] = set()
        found = [s for s in walk(launch.body) if isinstance(s, CallStmt) and _is_asynchronous(s)]
        self._tiles = _overlapping({tile for stmt in found for tile in _tiles(stmt)}, launch)
        if self._tiles:
            self._visit(launch.body, (False, False))

    def _visit(self, stmt: Stmt, state: tuple[bool, bool]) -> tuple[bool, bool]:
        """The state after a statement: whether a write is unfenced, whether a cp.async copy is in flight."""
        match stmt:
            case Seq(body=body):
                for child in body:
                    state = self._visit(child, state)
                return state
            case If(then_body=then_body, else_body=else_body):
                then = self._visit(then_body, state)
                other = state if else_body is None else self._visit(else_body, state)
                return then[0] or other[0], then[1] or other[1]
            case For(body=body) | While(body=body):
                after = self._visit(body, state)
                merged = state[0] or after[0], state[1] or after[1]
                if merged != state:  # the next iteration begins with more than the first one
                    after = self._visit(body, merged)
                return merged[0] or after[0], merged[1] or after[1]
        return self._leaf(stmt, *state)

    def _leaf(self, stmt: Stmt, dirty: bool, copying: bool) -> tuple[bool, bool]:
        routine = _instruction(stmt)
        if routine is FENCE_PROXY_ASYNC:
            return False, copying
        if routine is not None and routine.async_unit is CP_ASYNC and Effect.WAIT in routine.effect:
            dirty = dirty or copying
        if dirty and routine is not None and (routine.effect & _MEETS or self._uses_tile(stmt)):
            self.before.add(stmt)
            dirty = False
        if not _is_asynchronous(stmt) and any(b.storage in self._tiles for b in written_buffers(stmt)):
            if routine is not None and routine.async_unit is CP_ASYNC:
                copying = True
            else:
                dirty = True
        return dirty, copying

    def _uses_tile(self, stmt: Stmt) -> bool:
        return isinstance(stmt, CallStmt) and _is_asynchronous(stmt) and bool(_tiles(stmt))


def _overlapping(tiles: set[Buffer], launch: Launch) -> set[Buffer]:
    """The tiles, and those that share bytes with one of them."""
    offsets = {b: at for b, at in launch.plan.shared_offsets if b.view_of is None}

    def span(buffer: Buffer) -> tuple[int, int]:
        return offsets[buffer], offsets[buffer] + launch.plan.shared_elements(buffer) * buffer.dtype.storage_bytes

    spans = [span(tile) for tile in tiles if tile in offsets]
    beside = {
        buffer for buffer in offsets if any(low < span(buffer)[1] and span(buffer)[0] < high for low, high in spans)
    }
    return tiles | beside


def _fenced(launch: Launch) -> Launch:
    before = _Fences(launch).before
    if not before:
        return launch
    insert = PlaceBarriers(before, set(), lambda at: CallStmt(FENCE_PROXY_ASYNC, (), loc=at.loc))
    return dataclasses.replace(launch, body=insert.visit(launch.body) or launch.body)


def _run(func: PrimFunc, _: PassContext) -> PrimFunc:
    return with_launches(func, _fenced)


PASS = Pass(
    "insert_proxy_fences", _run, Level.THREAD, Level.THREAD,
    requires=(Property.BLOCK_BARRIERS_INSERTED, Property.GROUP_BARRIERS_INSERTED, Property.LOGICAL_INDICES),
    establishes=(Property.PROXY_FENCES_INSERTED,),
)
