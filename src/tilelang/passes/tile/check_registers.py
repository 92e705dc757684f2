"""Refuses accumulators of T.gemm that the registers of the block's threads cannot hold.

Takes a tile-level function with its layouts decided and gives it back unchanged. Invariant: what passes has no
accumulator whose share of a thread alone needs more registers than a thread has. Whatever else does not fit is right
in local memory, where the assembler puts it, and `kernel.resources` says how much that is.
"""

from __future__ import annotations

from tilelang.errors import Note, ResourceError
from tilelang.ir.buffer import Buffer
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.stmt import Launch
from tilelang.ir.visit import walk
from tilelang.layout.fragment import Fragment
from tilelang.ops.gemm import Gemm
from tilelang.passes.base import Pass, PassContext
from tilelang.target import MAX_REGISTERS, MAX_THREADS

_REGISTER_BYTES = 4


def check_registers(func: PrimFunc, context: PassContext) -> PrimFunc:
    """The function as it is, if its accumulators fit.

    Raises:
        ResourceError: One does not; says what it costs, and with how many threads it would fit.
    """
    for launch in walk(func.body):
        if isinstance(launch, Launch):
            layouts = dict(launch.plan.fragments)
            for op in walk(launch.body):
                if isinstance(op, Gemm) and op.c.buffer in layouts:
                    _check(op, op.c.buffer, layouts[op.c.buffer], launch)
    return func


def _check(op: Gemm, accumulator: Buffer, layout: Fragment, launch: Launch) -> None:
    needed = registers(accumulator, layout)
    if needed <= MAX_REGISTERS:
        return
    threads = layout.threads
    more = threads
    while more < MAX_THREADS and needed * threads > MAX_REGISTERS * more:
        more *= 2
    enough = threads == launch.num_threads and more <= MAX_THREADS and needed * threads <= MAX_REGISTERS * more
    shape = Note(f"'{accumulator.name}' is {accumulator.static_shape} of {accumulator.dtype!s}", accumulator.loc)
    share = f"threads={more} leaves {needed * threads // more} to each thread; or " if enough else ""
    with op.loc:
        raise ResourceError(
            f"T.gemm: the accumulator '{accumulator.name}' needs {needed} registers of each of {threads} threads, but "
            f"a thread has {MAX_REGISTERS}",
            hint=f"{share}make the tile smaller",
            notes=(shape,),
        )


def registers(buffer: Buffer, layout: Fragment) -> int:
    """Registers of 32 bits that a thread's share of a fragment takes."""
    return -(-layout.values * buffer.dtype.storage_bytes // _REGISTER_BYTES)


PASS = Pass("check_registers", check_registers, Level.TILE, Level.TILE)
