"""Joins the lanes of a warp behind loops around what they find in memory, which each leaves in its own time.

    if thread < 17: atomic_max(S[i], x)          if thread < 17: atomic_max(S[i], x)
    if block != 1:                            => __syncwarp()
        __syncthreads() ...                      if block != 1: ...

Assemblers join lanes that went different ways behind the branch or the loop, but not where a loop waits for what memory
holds: what comes next may be done first by some lanes and then by others. If that is a branch with a barrier in it,
lanes may still be apart behind it, where they are taken to be together: a matrix instruction of such a warp gives
anything. So ptxas 13.0 does it for compare-and-swap, and for other atomic operations in a loop that their values end;
loops that shuffle, wait for barriers in shared memory, or end by plain loads and arithmetic are safe.

Takes a thread-level launch with its barriers and groups. Invariant: `__syncwarp` is added and nothing else, where whole
warps come; none is added before a barrier, nor where nothing follows that lanes do together.

Source: CUDA C++ Programming Guide, "Independent Thread Scheduling"; PTX ISA, "mma", of `.aligned`.
"""

from __future__ import annotations

import dataclasses

from tilelang.analysis.uniform import Uniformity
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.stmt import Atomic, Break, CallStmt, For, If, Launch, Seq, Stmt, While
from tilelang.ir.visit import sub_statements, walk
from tilelang.isa.instruction import Group, Instruction
from tilelang.passes.base import Pass, PassContext, with_launches
from tilelang.passes.properties import Property
from tilelang.targets.gpu.isa.sync import SYNC_THREADS, SYNC_WARP
from tilelang.targets.nvidia.isa.atomic import of_statement
from tilelang.targets.nvidia.machines import WARP_SIZE
from tilelang.transforms.place_barriers import PlaceBarriers, of_block


def join_lanes(launch: Launch) -> Launch:
    """The launch with its warps joined where they may have come apart."""
    if not _parts_lanes(launch.body):
        return launch
    places = _Places(launch)
    places.look(launch.body, later=False)
    threads = min(launch.num_threads, WARP_SIZE)
    body = PlaceBarriers(places.before, places.ends, lambda loc: of_block(threads, WARP_SIZE, loc)).stmt(launch.body)
    return launch if body is launch.body or body is None else dataclasses.replace(launch, body=body)


class _Places:
    """The statements before which, and the bodies at whose end, lanes are joined."""

    def __init__(self, launch: Launch) -> None:
        self._uniform = Uniformity(launch)
        self.before: set[Stmt] = set()
        self.ends: set[Stmt] = set()

    def look(self, body: Stmt, *, later: bool) -> None:
        """Looks at what whole warps come to; `later` says whether lanes do something together afterwards."""
        following: Stmt | None = None
        for stmt in reversed(body.body if isinstance(body, Seq) else (body,)):
            meets = _meets(stmt)
            if isinstance(stmt, Seq):
                self.look(stmt, later=later)
            elif _parts_lanes(stmt):
                if meets and self._whole_warps(stmt):
                    for child in sub_statements(stmt):
                        self.look(child, later=later or isinstance(stmt, For | While))
                elif following is None:
                    self.ends.update([body] if later else ())
                elif later and not _is_barrier(following):
                    self.before.add(following)
            later = later or meets
            following = stmt

    def _whole_warps(self, stmt: Stmt) -> bool:
        """Whether whole warps come to what stands in a statement, provided that they come to the statement."""
        if isinstance(stmt, If) and stmt.group is not None:
            return stmt.group.count % WARP_SIZE == 0
        return not self._uniform.diverges(stmt)


def _parts_lanes(stmt: Stmt) -> bool:
    """Whether lanes may go on from a statement one by one."""
    for node in walk(stmt):
        routine = of_statement(node) if isinstance(node, Atomic) else getattr(node, "routine", None)
        if isinstance(routine, Instruction) and routine.parts_lanes:
            return True
        if isinstance(node, While) or isinstance(node, For) and any(isinstance(s, Break) for s in walk(node.body)):
            if any(isinstance(inner, Atomic) and inner.result is not None for inner in walk(node)):
                return True
    return False


def _meets(stmt: Stmt) -> bool:
    """Whether lanes do something together in a statement."""
    calls = (node.routine for node in walk(stmt) if isinstance(node, CallStmt))
    return any(isinstance(routine, Instruction) and routine.group is not Group.THREAD for routine in calls)


def _is_barrier(stmt: Stmt) -> bool:
    return isinstance(stmt, CallStmt) and stmt.routine in (SYNC_THREADS, SYNC_WARP)


def _run(func: PrimFunc, _: PassContext) -> PrimFunc:
    return with_launches(func, join_lanes)


PASS = Pass(
    "join_lanes",
    _run,
    Level.THREAD,
    Level.THREAD,
    requires=(Property.BLOCK_BARRIERS_PLACED, Property.GROUP_BARRIERS_PLACED, Property.THREAD_GROUPS),
    establishes=(Property.LANES_JOINED,),
)
