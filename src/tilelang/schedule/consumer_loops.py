"""The loops of consumers as they are scheduled: without loads, and in statements that can be scheduled on their own.

Takes a loop of the launch and the loads of the producer; gives the loop with parallel loops distributed and operands
converted by statements of their own, and what of it the schedule asks for. Invariant: the prepared loop computes the
same.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.sequences import flat_statements
from tilelang.ir.stmt import Alloc, For, Launch, ParallelLoop, Seq, Stmt
from tilelang.ir.visit import accessed_buffers, walk
from tilelang.lowering.regions import whole
from tilelang.ops.copy import Copy
from tilelang.ops.gemm import Gemm, matrix_extents
from tilelang.records import record
from tilelang.schedule.load_groups import LoadGroup
from tilelang.schedule.loop_body import LoopBody
from tilelang.transforms.distribute_parallel import distributed
from tilelang.transforms.running_softmax import with_rare_rescaling
from tilelang.transforms.separate_conversions import with_separate_conversions

AsyncGemmRefusal = Callable[[Gemm, int], str]
"""Why so many threads cannot issue a gemm asynchronously; empty if they can."""


@record(slots=True, eq=False)
class PreparedLoop:
    """A loop that is prepared for scheduling.

    Attributes:
        loop: The loop.
        operands: The fragments that it needs beside those of the program.
        origins: For each of its statements, the one that it was, or was a part of.
    """

    loop: For
    operands: tuple[Buffer, ...]
    origins: Mapping[Stmt, Stmt]


def prepared(loop: For, changed: For, launch: Launch, *, separate: bool) -> PreparedLoop:
    """A loop with parallel loops distributed, sums rescaled rarely and operands converted.

    Args:
        loop: The loop in the launch.
        changed: What is to be prepared in its place.
        launch: The launch.
        separate: Whether parallel loops that compute operands leave their conversion to statements of their own.
    """
    operands: list[Buffer] = []
    parts: dict[Stmt, Stmt] = {}
    gemms = [stmt for stmt in walk(changed) if separate and isinstance(stmt, Gemm)]
    multiplied = {side.buffer for gemm in gemms for side in (gemm.a, gemm.b)}
    for stmt in flat_statements(changed.body):
        if isinstance(stmt, ParallelLoop):
            for part in distributed(stmt):
                parts |= dict.fromkeys(with_separate_conversions(part, multiplied, operands), stmt)
        elif isinstance(stmt, Gemm):
            parts |= dict.fromkeys(_with_converted_operands(stmt, operands), stmt)
        else:
            parts[stmt] = stmt
    inside = set(walk(loop))
    body = with_rare_rescaling(tuple(parts), (s for s in walk(launch.body) if s not in inside))
    made = dataclasses.replace(changed, body=Seq(tuple(stmt for stmt, _ in body), loc=changed.body.loc))
    return PreparedLoop(made, tuple(operands), {stmt: parts[was] for stmt, was in body})


def _with_converted_operands(gemm: Gemm, operands: list[Buffer]) -> list[Stmt]:
    """A gemm after the copies that convert its operands, whose fragments are added to `operands`."""
    copies: list[Stmt] = []
    a, b = (converted_operand(gemm, side) for side in (0, 1))
    for old, new in ((gemm.a, a), (gemm.b, b)):
        if new is not old:
            operands.append(new.buffer)
            copies.append(Copy(old, new, loc=gemm.loc))
    return [*copies, dataclasses.replace(gemm, a=a, b=b) if copies else gemm]


def converted_operand(gemm: Gemm, side: int) -> Region:
    """Operand A (0) or B (1) in the dtype of the multiplication: itself, or a fragment with the converted values."""
    region, dtype = (gemm.a, gemm.b)[side], gemm.operands[side]
    if region.dtype == dtype:
        return region
    extents = matrix_extents(region)
    return whole(Buffer(region.buffer.name, extents, dtype, Scope.FRAGMENT, loc=region.buffer.loc))


def consumer_body(loop: For, load_groups: Sequence[LoadGroup]) -> LoopBody:
    """The body of a loop without the loads of the producer and the allocations of their tiles."""
    copies = {copy for group in load_groups for copy in group.copies}
    tiles = {copy.dst.buffer for copy in copies}
    left = tuple(
        each
        for each in flat_statements(loop.body)
        if not (isinstance(each, Copy) and each in copies or isinstance(each, Alloc) and each.buffer in tiles)
    )
    return LoopBody(dataclasses.replace(loop, body=Seq(left, loc=loop.body.loc)))


def asynchronous_gemms(body: LoopBody, refusal: AsyncGemmRefusal, threads: int) -> frozenset[Stmt]:
    """The gemms of a body that `threads` threads can leave in flight: none of their operands is converted."""
    gemms = (stmt for stmt in body.statements if isinstance(stmt, Gemm))
    return frozenset(gemm for gemm in gemms if runs_asynchronously(gemm, refusal, threads))


def runs_asynchronously(gemm: Gemm, refusal: AsyncGemmRefusal, threads: int) -> bool:
    """Whether `threads` threads can leave a gemm in flight, none of whose operands is converted."""
    converts = gemm.operands != (gemm.a.dtype, gemm.b.dtype)
    in_registers = gemm.c.buffer.scope is Scope.FRAGMENT
    return not converts and in_registers and not refusal(gemm, threads)


def is_allocated_across(body: LoopBody) -> bool:
    """Whether the loop allocates anything but scalars of one statement."""
    return any(len({number for number, _, _ in body.storages.get(b.storage, ())}) > 1 for b in body.allocated)


def threads_access_memory(body: LoopBody) -> bool:
    """Whether statements other than gemms access more than registers."""
    return any(
        storage.scope in (Scope.GLOBAL, Scope.SHARED) and not _accessed_by_gemms(body.statements[number], storage)
        for storage, touching in body.storages.items()
        for number, _, _ in touching
    )


def _accessed_by_gemms(stmt: Stmt, storage: Buffer) -> bool:
    """Whether a statement is a gemm, or accesses memory by gemms in it alone."""
    using = [s for s in walk(stmt) if any(buffer.storage is storage for buffer in accessed_buffers(s))]
    return bool(using) and all(isinstance(s, Gemm) for s in using)
