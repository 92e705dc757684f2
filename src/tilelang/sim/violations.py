"""The messages for what goes wrong with shared and global memory: one function per rule, each gives the error to raise.

Takes elements as text and numbers of threads. Invariant: a message names the element, who accesses it and how; a note
names the other place where there is one; a hint says what to write instead.
"""

from __future__ import annotations

from tilelang.errors import (
    DataRace,
    MisalignedAccess,
    MissingProxyFence,
    Note,
    OutOfBounds,
    ReadBeforeWrite,
    SimulationError,
)
from tilelang.sim.history import AccessSite, Conflict

MAX_ITERATIONS = 250_000
"""Iterations after which a `while` is taken to be endless."""

_COMPARE = "compare the index with the extent before the access"


def endless() -> SimulationError:
    """A `while` that has run `MAX_ITERATIONS` times."""
    return SimulationError(
        f"while: its condition still holds after {MAX_ITERATIONS} iterations",
        hint="change in the body what the condition reads, or bound the loop: `while condition and n < most:`",
    )


def outside_dimension(element: str, thread: int, index: int, count: int, axis: int, extent: int) -> OutOfBounds:
    """An index, or a vector of `count` that begins there, is outside of a dimension."""
    vector = f" of {count} elements" if count > 1 else ""
    return OutOfBounds(
        f"{element}: thread {thread} accesses index {index}{vector} of dimension {axis}, which has extent {extent}",
        hint=_COMPARE,
    )


def outside_buffer(name: str, thread: int, offset: int, count: int, end: int) -> OutOfBounds:
    """An address that was computed from another is outside of the buffer."""
    return OutOfBounds(
        f"'{name}': thread {thread} accesses {count} elements at offset {offset}, but the buffer ends at {end}",
        hint=_COMPARE,
    )


def scattered_vector(name: str, count: int, axis: int, stride: int) -> SimulationError:
    """A vector along a dimension that is not contiguous."""
    return SimulationError(
        f"'{name}': a vector of {count} along dimension {axis}, whose neighbors are {stride} elements apart",
        hint="access the elements one by one, or require a stride of 1",
    )


def misaligned(element: str, thread: int, count: int, size: int, byte: int, width: int) -> MisalignedAccess:
    """A vector of `size` bytes at an address that is no multiple of `width`."""
    return MisalignedAccess(
        f"{element}: thread {thread} accesses {count} elements ({size} bytes) at byte {byte}, which is no multiple of "
        f"{width}",
        hint="align the start of the access, or access fewer elements at once",
    )


def undefined(element: str, thread: int | str, memory: str) -> ReadBeforeWrite:
    """A read of undefined memory."""
    return ReadBeforeWrite(
        f"{element} is read by thread {thread} before anything was written there",
        hint="a workspace is undefined until a kernel writes it; launch one that does first"
        if memory == "global"
        else "write all of it first",
    )


def undefined_result(element: str, by: str = "") -> ReadBeforeWrite:
    """A store of undefined values to an argument."""
    return ReadBeforeWrite(
        f"{element}: what is stored there{by} was read before anything was written to it",
        hint="write all of the tile first, for example with T.clear(tile), or copy only the part that was written",
    )


def conflicting(element: str, buffer: str, conflict: Conflict) -> SimulationError:
    """Two unordered accesses, or an access to memory of a pending asynchronous copy."""
    thread, other = conflict.name(conflict.thread), conflict.name(conflict.other)
    alias = f" as '{conflict.site.buffer}'" if conflict.site.buffer != buffer else ""
    if conflict.pending:
        verb = "fills" if conflict.before == "written" else "reads"
        kind = ReadBeforeWrite if conflict.now == "read" and conflict.before == "written" else DataRace
        return kind(
            f"{element} is {conflict.now} by thread {thread} while an asynchronous copy of thread {other} "
            f"that {verb} it may still be in flight",
            notes=(Note(f"the copy was started here{alias}", conflict.site.loc),),
            hint="wait for the copy first: for its group in the thread that started it, and then at a barrier; or for "
            "the phase of the transaction barrier that it arrives at",
        )
    if conflict.from_async_unit:
        return DataRace(
            f"{element} is {conflict.before} by an asynchronous copy and {conflict.now} by thread {thread}, and "
            "nothing orders the two",
            notes=(Note(f"the copy was started here{alias}", conflict.site.loc),),
            hint="wait for the copy before the access: for the phase of its transaction barrier, or at a barrier after "
            "the wait for its group",
        )
    barrier = "T.sync_warp() or T.sync_threads()" if conflict.one_warp else "T.sync_threads()"
    if conflict.across_blocks:
        barrier = "a barrier of the cluster"
    return DataRace(
        f"{element} is {conflict.before} by thread {other} and {conflict.now} by thread {thread} of one "
        f"{'cluster' if conflict.across_blocks else 'block'}, and nothing orders the two",
        notes=(Note(f"{conflict.before} here by thread {other}{alias}", conflict.site.loc),),
        hint=f"put {barrier} between the two",
    )


def too_early(element: str, thread: int | str, *, reads: bool) -> DataRace:
    """An access that does not wait for the launches in front."""
    return DataRace(
        f"{element} is {'read' if reads else 'written'} by thread {thread} before it has waited for the launches in "
        "front, which may not have ended",
        hint="let every thread execute T.pdl_sync() before it touches what other launches do",
    )


def disagreeing(element: str, thread: int, other: int) -> DataRace:
    """Two lanes that write one element in one statement."""
    return DataRace(
        f"{element} is written by threads {thread} and {other} of one warp in one statement, with different values",
        hint="let one of them write, or give each an element of its own",
    )


def unfenced(element: str, now: str, thread: str, writer: str, site: AccessSite) -> MissingProxyFence:
    """The async proxy accesses what a thread wrote without a fence that makes it visible."""
    return MissingProxyFence(
        f"{element} was written by thread {writer} and is {now} by an asynchronous copy of thread {thread}, but thread "
        f"{writer} executed no proxy fence between its write and the barrier that orders the two",
        notes=(Note(f"written here by thread {writer}", site.loc),),
        hint="let every thread that writes execute T.fence_proxy_async() after its writes and before the barrier",
    )


def unfinished_read(name: str, thread: str) -> SimulationError:
    """A block ends while a copy may still read its shared memory."""
    return SimulationError(
        f"'{name}': the block ends while a copy that thread {thread} started may still read it",
        hint="let the thread that starts stores wait for their groups to be read before it ends",
    )


def unfinished_write(name: str, thread: str, *, across_blocks: bool) -> SimulationError:
    """A block ends while a copy may still write its shared memory, for it or for another of its cluster."""
    owner = " of its cluster" if across_blocks else ""
    return SimulationError(
        f"'{name}': the block ends while a copy that thread {thread}{owner} started may still write it",
        hint="let the block that receives the copy wait for it, for the phase of its transaction barrier, before it "
        "ends",
    )
