"""Registers of consumers and of the producer: how many tiles take, and how many there are.

Takes a launch and numbers of warpgroups; gives registers of a thread. All are estimates of what ptxas will need.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tilelang.analysis.register_pressure import peak_registers
from tilelang.analysis.whole_stores import overwritten
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.compare import expr_key
from tilelang.ir.expr import Call, Cast, Expr, Load, int_const
from tilelang.ir.memoize import memoized
from tilelang.ir.stmt import For, Launch, ParallelLoop, Stmt, Store
from tilelang.ir.visit import expressions, loads_of, walk, walk_expr
from tilelang.ops.cluster_sum import ClusterSum
from tilelang.ops.gemm import Gemm
from tilelang.performance.registers import registers_for_blocks
from tilelang.schedule.computed_tiles import accessed_outside
from tilelang.schedule.consumer_loops import converted_operand
from tilelang.schedule.loop_body import LoopBody
from tilelang.schedule.loop_graph import Value
from tilelang.targets.machine import Machine
from tilelang.targets.nvidia.isa.wgmma import ROWS
from tilelang.targets.nvidia.lowerings.gemm_wgmma import WgmmaPlan
from tilelang.targets.nvidia.machines import MAX_REGISTERS, WARP_SIZE
from tilelang.targets.nvidia.schedule import WARPGROUP_THREADS

_OTHER_REGISTERS = 40  # for addresses, loops and values in flight
# Further values in flight where parallel loops load global memory: with 168 registers, ptxas 13.0 spilled 30 registers
# of a residual beside 128 of the accumulator, and 68 of a ragged bias beside 96; with 240 it spilled none
_LOADING_REGISTERS = 40
# Where a parallel loop computes special functions of several tiles: of silu(gate) * up, ptxas 13.0 spilled 6 of 168
# registers beside 128 of both accumulators with fast mathematics, and none of 240
_COMBINING_REGISTERS = 8
# Where warpgroups in ping-pong compute in their epilogue, beside the number of the tile and its stages: of a residual
# beside 128 of the accumulator, ptxas 13.0 spilled 4 of 168 registers, and none of 240; beside 192 it spilled 4 of 240.
# With a bias and GELU beside 192 it spilled 46, and a gemm of 4096^3 took 1.65 times as long on an H200 as without.
_ALTERNATING_REGISTERS = 16
# In program order, where ptxas may still move values, and in any other where threads compute in registers alone: ptxas
# 13.0 spilled none of attention forward with 136 of 160 for tiles
_MIN_OTHER_REGISTERS = 24
# Where gemms in flight hold what they touch and threads access memory, too: of the backward pass of attention, ptxas
# 13.0 spilled none with 208 of 240 for tiles
_OTHER_REGISTERS_REORDERED = 32
# Where statements of two iterations run at once, besides: it spilled 18 to 76 bytes of the same, and serialized gemms
_OTHER_REGISTERS_OVERLAPPED = 36
_ROWS_PER_THREAD = 2  # of an accumulator, in each 64 rows

# What ptxas keeps of expressions that it moves out of loops: one warpgroup of Mamba 2 takes 163 registers, and one of
# retention, whose decays are the same in all chunks, 177 with the same tiles
_INVARIANT_REGISTERS = 16

# Registers per thread of consumers and of the producer, by the blocks at once on a multiprocessor and their consumers.
# Source: PTX ISA, "setmaxnreg"; all threads of a block together have as many as at its launch: each the multiple of 8
# below 65536 / threads of all these blocks.
_REGISTERS = {
    (1, 1): (240, 40), (1, 2): (240, 24), (1, 3): (160, 32), (1, 4): (112, 32), (2, 1): (232, 24), (2, 2): (112, 24),
}  # fmt: skip
# A producer that counts its pipeline states at run time, or recomputes scalars, needs more
_REGISTERS_WITH_COUNTERS = {**_REGISTERS, (1, 2): (232, 40), (2, 1): (216, 40), (2, 2): (104, 40)}


def tile_registers(tile: Buffer, consumers: int, held: Mapping[Buffer, tuple[int, int]]) -> int:
    """Registers for a fragment that `consumers` warpgroups share, or for some elements of a vector of rows."""
    if tile.rank == 1:
        return _ROWS_PER_THREAD
    together, rows = held.get(tile.storage, (1, 1))
    return -(-(tile.bytes or 0) * together // (4 * consumers * WARPGROUP_THREADS * rows))


def rows_in_registers(bodies: Iterable[Stmt]) -> Mapping[Buffer, tuple[int, int]]:
    """The rows that warpgroups hold together of fragments of wgmma, and those that there are.

    Instructions have multiples of 64 rows; warpgroups that divide the columns of a gemm with a plan hold the same A.
    """
    found = {}
    for gemm in (stmt for body in bodies for stmt in walk(body) if isinstance(stmt, Gemm)):
        rows = int_const(gemm.sizes[0]) or ROWS
        padded = -(-rows // ROWS) * ROWS
        of_a = padded * (gemm.plan.groups.columns if isinstance(gemm.plan, WgmmaPlan) else 1)
        for region, held in ((gemm.a, of_a), (gemm.c, padded)):
            if held != rows and region.buffer.scope is Scope.FRAGMENT:
                found[region.buffer.storage] = held, rows
    return found


def loop_values(
    body: LoopBody, launch: Launch, loop: For, consumers: int, retry: Stmt | None
) -> tuple[Value, ...]:
    """The register values of a loop's body, as fragments of `consumers` warpgroups.

    What a branch alone touches that takes a step again has the registers of the probabilities, which have no value yet.
    """
    outside, held = accessed_outside(loop, launch), rows_in_registers((launch.body, *body.statements))
    values = []
    for storage, touching in body.storages.items():
        if storage.scope is Scope.FRAGMENT:
            touches = tuple(dict.fromkeys(number for number, _, _ in touching))
            if [body.statements[number] for number in touches] == [retry] and storage not in outside:
                continue
            carried = storage in outside or storage not in overwritten(body.statements[touches[0]])
            values.append(Value(tile_registers(storage, consumers, held), touches, carried))
    return tuple(values)


def live_tile_registers(launch: Launch, consumers: int) -> int:
    """The most registers that live fragments take at once in program order."""
    return memoized(launch, "_live_tile_registers", (consumers,), lambda: _live_tile_registers(launch, consumers))


def _live_tile_registers(launch: Launch, consumers: int) -> int:
    replacements = {s.own.buffer for s in walk(launch.body) if isinstance(s, ClusterSum) and s.owners > 1}
    held = rows_in_registers((launch.body,))

    def registers(tile: Buffer) -> int:
        # a partitioned epilogue reuses the registers of the accumulator
        return 0 if tile in replacements else tile_registers(tile, consumers, held)

    def converted(stmt: Stmt) -> int:
        converts = isinstance(stmt, Gemm) and stmt.a.dtype != stmt.operands[0]
        return registers(converted_operand(stmt, 0).buffer) if converts else 0  # type: ignore[arg-type]

    return peak_registers(launch.body, registers, converted)


def registers_for_tiles(
    consumers: int, blocks_per_sm: int = 1, *, reordered_accesses: bool = False, stages: int = 1
) -> int:
    """The registers of a consumer's thread that tiles may take; negative if there is no such number of consumers.

    Args:
        consumers: Consumer warpgroups.
        blocks_per_sm: Blocks at once on a multiprocessor.
        reordered_accesses: Whether a loop runs in another order than that of the program, and threads access memory in
            it.
        stages: How many iterations of that loop may run at once.
    """
    reordered = _OTHER_REGISTERS_REORDERED if stages == 1 else _OTHER_REGISTERS_OVERLAPPED
    other = reordered if reordered_accesses else _MIN_OTHER_REGISTERS
    return _REGISTERS.get((blocks_per_sm, consumers), (0, 0))[0] - other


def registers_of(consumers: int, blocks_per_sm: int) -> tuple[int, int]:
    """Registers per thread of consumers and of the producer that fit into the register file of a multiprocessor."""
    return _REGISTERS[blocks_per_sm, consumers]


def producer_and_registers(
    launch: Launch,
    consumers: int,
    needed: int,
    machine: Machine,
    blocks_per_sm: int = 1,
    *,
    counts: bool,
    ping_pong: bool = False,
) -> tuple[int, tuple[int, int] | None]:
    """Threads of the producer, and registers per thread of consumers and producer if they differ from the launch's.

    Args:
        launch: The launch.
        consumers: Consumer warpgroups.
        needed: Registers of a consumer's thread for tiles.
        machine: The machine.
        blocks_per_sm: Blocks at once on a multiprocessor.
        counts: Whether the producer counts fills at run time or recomputes scalars.
        ping_pong: Whether consumers are in ping-pong.
    """
    least = WARP_SIZE + consumers * WARPGROUP_THREADS  # threads
    given = min(registers_for_blocks(blocks_per_sm, least, machine), MAX_REGISTERS)
    needed += _other_registers(launch, ping_pong=ping_pong)
    needed += _INVARIANT_REGISTERS if blocks_per_sm > 1 else 0
    registers = (_REGISTERS_WITH_COUNTERS if counts else _REGISTERS)[blocks_per_sm, consumers]
    if needed <= given or registers[0] <= given or not launch.hints.move_registers:
        return WARP_SIZE, None
    return WARPGROUP_THREADS, registers


def fits_ping_pong(launch: Launch) -> bool:
    """Whether a thread has the registers for tiles that two warpgroups in ping-pong hold alone."""
    needed = live_tile_registers(launch, 1) + _other_registers(launch, ping_pong=True)
    return needed <= _REGISTERS[1, 2][0]


def _other_registers(launch: Launch, *, ping_pong: bool) -> int:
    """Registers beside those for tiles."""
    needed = _OTHER_REGISTERS + (_LOADING_REGISTERS if _loads_global(launch) else 0)
    needed += _COMBINING_REGISTERS if _combines_tiles(launch) else 0
    nests = [s for s in walk(launch.body) if isinstance(s, ParallelLoop)]
    computes = any(isinstance(s, Store) and not _moves(s.value) for nest in nests for s in walk(nest))
    return needed + (_ALTERNATING_REGISTERS if ping_pong and computes else 0)


def _moves(value: Expr) -> bool:
    """Whether a value is one that was stored before, in another dtype or not."""
    return isinstance(value.a if isinstance(value, Cast) else value, Load)


def _loads_global(launch: Launch) -> bool:
    """Whether parallel loops load global memory element by element, such as a bias."""
    nests = [s for s in walk(launch.body) if isinstance(s, ParallelLoop)]
    roots = (root for nest in nests for s in walk(nest) for root in expressions(s))
    return any(load.buffer.scope is Scope.GLOBAL for root in roots for load in loads_of(root))


def _combines_tiles(launch: Launch) -> bool:
    """Whether a parallel loop computes special functions of several fragments, or parts of one, by rows and columns."""
    nests = [s for s in walk(launch.body) if isinstance(s, ParallelLoop)]
    for roots in ([root for s in walk(nest) for root in expressions(s)] for nest in nests):
        loads = [load for root in roots for load in loads_of(root)]
        of_fragments = [load for load in loads if load.buffer.scope is Scope.FRAGMENT and load.buffer.rank > 1]
        tiles = {(load.buffer.storage, *map(expr_key, load.indices)) for load in of_fragments}
        if len(tiles) > 1 and any(isinstance(each, Call) for root in roots for each in walk_expr(root)):
            return True
    return False
