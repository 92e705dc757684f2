"""Registers of a thread that fragments and the operands of `mma.sync` may take.

Takes launches at tile level, gives numbers of 32-bit registers. All are estimates of what ptxas will need.
"""

from __future__ import annotations

from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.stmt import Alloc, Launch
from tilelang.ir.visit import walk
from tilelang.performance.registers import registers_for_blocks
from tilelang.targets.machine import Machine

_REGISTER_BYTES = 4
# of 255 that a thread can have; what is left is for addresses
_MAX_REGISTERS = 208


def registers_for_fragments(threads: int, machine: Machine, blocks: int = 1) -> int:
    """The most registers of a thread for fragments and operands, if so many blocks run on a multiprocessor at once."""
    return min(_MAX_REGISTERS, registers_for_blocks(blocks, threads, machine))


def free_registers(launch: Launch, machine: Machine) -> int:
    """The registers of a thread that the fragments of a launch leave of these for operands; negative if none."""
    tiles = [s.buffer for s in walk(launch.body) if isinstance(s, Alloc) and s.buffer.scope is Scope.FRAGMENT]
    taken = sum(_registers_of(tile, launch.num_threads) for tile in tiles if tile.view_of is None)
    return registers_for_fragments(launch.num_threads, machine, launch.hints.min_blocks_per_sm or 1) - taken


def _registers_of(tile: Buffer, threads: int) -> int:
    """The registers of a thread for its part of a fragment."""
    return -(-(tile.bytes or 0) // (threads * _REGISTER_BYTES))
