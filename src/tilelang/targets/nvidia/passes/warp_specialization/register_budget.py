"""Registers of consumers and of the producer: how many tiles take, and how many there are.

Takes a launch and numbers of warpgroups; gives registers of a thread. All are estimates of what ptxas will need.
"""

from __future__ import annotations

from tilelang.analysis.register_pressure import peak_registers
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Load
from tilelang.ir.memoize import memoized
from tilelang.ir.stmt import Launch, ParallelLoop, Stmt
from tilelang.ir.visit import any_expr, walk
from tilelang.ops.cluster_sum import ClusterSum
from tilelang.ops.gemm import Gemm
from tilelang.targets.nvidia.machines import MAX_REGISTERS, REGISTERS_PER_SM, WARP_SIZE
from tilelang.targets.nvidia.passes.warp_specialization.capabilities import converted_operand
from tilelang.targets.nvidia.schedule import WARPGROUP_THREADS

_OTHER_REGISTERS = 40  # for addresses, loops and values in flight
# Further values in flight where parallel loops load global memory: with 168 registers, ptxas 13.0 spilled 30 registers
# of a residual beside 128 of the accumulator, and 68 of a ragged bias beside 96; with 240 it spilled none
_LOADING_REGISTERS = 40
# In program order, where ptxas may still move values, and in any other where threads compute in registers alone: ptxas
# 13.0 spilled none of attention forward with 136 of 160 for tiles
_MIN_OTHER_REGISTERS = 24
# Where gemms in flight hold what they touch and threads access memory, too: ptxas 13.0 spilled 200 registers of the
# backward pass of attention with 208 of 240 for tiles, and 18 with 192
_OTHER_REGISTERS_REORDERED = 36
_ROWS_PER_THREAD = 2  # of an accumulator, in each 64 rows

# Registers per thread of consumers and of the producer, by the number of consumers. Source: PTX ISA, "setmaxnreg"; all
# threads of a block together have as many as at its launch: each the multiple of 8 below 65536 / threads.
_REGISTERS = {1: (240, 40), 2: (240, 24), 3: (160, 32), 4: (112, 32)}
# A producer that counts its pipeline states at run time, or recomputes scalars, needs more
_REGISTERS_WITH_COUNTERS = {**_REGISTERS, 2: (232, 40)}


def tile_registers(tile: Buffer, consumers: int) -> int:
    """Registers for a fragment that `consumers` warpgroups share, or for some elements of a vector of rows."""
    return _ROWS_PER_THREAD if tile.rank == 1 else -(-(tile.bytes or 0) // (4 * consumers * WARPGROUP_THREADS))


def live_tile_registers(launch: Launch, consumers: int) -> int:
    """The most registers that live fragments take at once in program order."""
    return memoized(launch, "_live_tile_registers", (consumers,), lambda: _live_tile_registers(launch, consumers))


def _live_tile_registers(launch: Launch, consumers: int) -> int:
    replacements = {s.own.buffer for s in walk(launch.body) if isinstance(s, ClusterSum) and s.owners > 1}

    def registers(tile: Buffer) -> int:
        # a partitioned epilogue reuses the registers of the accumulator
        return 0 if tile in replacements else tile_registers(tile, consumers)

    def converted(stmt: Stmt) -> int:
        converts = isinstance(stmt, Gemm) and stmt.a.dtype != stmt.operands[0]
        return registers(converted_operand(stmt, 0).buffer) if converts else 0  # type: ignore[arg-type]

    return peak_registers(launch.body, registers, converted)


def registers_for_tiles(consumers: int, *, reordered_accesses: bool = False) -> int:
    """The registers of a consumer's thread that tiles may take; negative if there is no such number of consumers.

    Args:
        consumers: Consumer warpgroups.
        reordered_accesses: Whether a loop runs in another order than that of the program, and threads access memory in
            it.
    """
    other = _OTHER_REGISTERS_REORDERED if reordered_accesses else _MIN_OTHER_REGISTERS
    return _REGISTERS.get(consumers, (0, 0))[0] - other


def registers_of(consumers: int) -> tuple[int, int]:
    """Registers per thread of consumers and of the producer that fit into the register file of a multiprocessor."""
    return _REGISTERS[consumers]


def producer_and_registers(
    launch: Launch, consumers: int, needed: int, *, counts: bool
) -> tuple[int, tuple[int, int] | None]:
    """Threads of the producer, and registers per thread of consumers and producer if they differ from the launch's.

    Args:
        launch: The launch.
        consumers: Consumer warpgroups.
        needed: Registers of a consumer's thread for tiles.
        counts: Whether the producer counts fills at run time or recomputes scalars.
    """
    least = WARP_SIZE + consumers * WARPGROUP_THREADS  # threads
    # the hardware rounds threads up to warpgroups, and registers down to a multiple of 8
    rounded = -(-least // WARPGROUP_THREADS) * WARPGROUP_THREADS
    given = min(REGISTERS_PER_SM // rounded // 8 * 8, MAX_REGISTERS)
    needed += _OTHER_REGISTERS + (_LOADING_REGISTERS if _loads_global(launch) else 0)
    registers = (_REGISTERS_WITH_COUNTERS if counts else _REGISTERS)[consumers]
    if needed <= given or registers[0] <= given or not launch.hints.move_registers:
        return WARP_SIZE, None
    return WARPGROUP_THREADS, registers


def _loads_global(launch: Launch) -> bool:
    """Whether parallel loops load global memory element by element, such as a bias."""
    nests = [s for s in walk(launch.body) if isinstance(s, ParallelLoop)]
    return any(
        any_expr(s, lambda e: isinstance(e, Load) and e.buffer.scope is Scope.GLOBAL)
        for nest in nests
        for s in walk(nest)
    )
