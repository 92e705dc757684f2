"""Warns of fragments that a thread cannot hold in registers.

Takes a tile-level function with inferred layouts and gives it back. Such fragments are correct, in local memory, and
`kernel.resources` gives their bytes; a fragment gets a warning if a thread's share of it alone needs more registers
than an array of a thread can have.
"""

from __future__ import annotations

from tilelang.errors import Note, warn
from tilelang.ir.buffer import Buffer
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.stmt import Launch
from tilelang.ir.visit import walk
from tilelang.layout.thread_values import Fragment
from tilelang.ops.gemm import Gemm
from tilelang.passes.base import Pass, PassContext
from tilelang.passes.properties import Property
from tilelang.targets.gpu.lowerings.register_index import is_replicated
from tilelang.targets.machine import Machine

_REGISTER_BYTES = 4


def warn_large_fragments(func: PrimFunc, context: PassContext) -> PrimFunc:
    """The function; a `ProgramWarning` for each fragment that does not fit."""
    for launch in walk(func.body):
        if isinstance(launch, Launch):
            layouts = dict(launch.plan.fragments)
            gemms = [op for op in walk(launch.body) if isinstance(op, Gemm) and op.c.buffer in layouts]
            first = {op.c.buffer: op for op in reversed(gemms)}
            for buffer, layout in layouts.items():
                _check(buffer, layout, launch, first.get(buffer), context.target.machine)
    return func


def _check(fragment: Buffer, layout: Fragment, launch: Launch, gemm: Gemm | None, machine: Machine) -> None:
    """Warns of a fragment that does not fit; `gemm` is the first one that accumulates into it."""
    needed, most = registers(fragment, layout), machine.array_registers
    if needed <= most:
        return
    name = fragment.name
    private = layout.threads > 1 and is_replicated(layout)  # each thread has all of it
    what = f"array '{name}'" if private else f"fragment '{name}'"
    if gemm is not None:
        what = f"T.gemm: the accumulator '{name}'"
    of_each = "each thread" if private else f"each of {layout.threads} threads"
    more = None if private or layout.threads != launch.num_threads else _threads_that_do(needed, layout, machine)
    share = f"threads={more} leaves {needed * layout.threads // more} to each thread; or " if more else ""
    warn(
        f"{what} needs {needed} registers of {of_each}, but may have {most}: at least "
        f"{(needed - most) * _REGISTER_BYTES} bytes of each thread are in local memory, which is slow",
        fragment.loc if gemm is None else gemm.loc,
        hint=f"{share}make the {'array' if private else 'tile'} smaller",
        notes=(
            Note(f"'{name}' is {fragment.static_shape} of {fragment.dtype!s}", None if gemm is None else fragment.loc),
        ),
    )


def _threads_that_do(needed: int, layout: Fragment, machine: Machine) -> int | None:
    """Threads, as many as a power of two times those of the layout, that hold the fragment and have registers left."""
    together = needed * layout.threads
    if together >= machine.registers_per_multiprocessor:
        return None
    threads = layout.threads
    while together > machine.array_registers * threads:
        threads *= 2
    return threads if threads <= machine.max_threads else None


def registers(buffer: Buffer, layout: Fragment) -> int:
    """Registers of 32 bits that a thread's share of a fragment takes."""
    return -(-layout.values * buffer.dtype.storage_bytes // _REGISTER_BYTES)


PASS = Pass(
    "warn_large_fragments", warn_large_fragments, Level.TILE, Level.TILE,
    requires=(Property.LAYOUTS_INFERRED,),
)
