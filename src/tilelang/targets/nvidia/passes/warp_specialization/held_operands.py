"""Holds columns of operand A in registers across a loop, where reading A from shared memory limits wgmma.

Takes a launch and its consumers; gives one in which a gemm of a pipelined loop is divided along K: the last columns of
A are copied to a fragment before the loop, as many as registers allow. Invariant: the loop does not write A, and the
program computes the same but for the order of additions, which stays that of K.

Shared memory gives 128 bytes per cycle. An instruction with n columns reads 64 rows of A and n of B in n / 2 cycles on
the tensor cores, each row with 32 bytes: with fewer than 64 columns it waits for them. MLA decode, whose warpgroups
have 32 columns of scores each, took 6 % less time on an H200 with 192 of 512 columns of the queries in registers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

from tilelang.errors import Note
from tilelang.ir.buffer import Buffer
from tilelang.ir.stmt import Launch
from tilelang.lowering.regions import whole
from tilelang.ops.gemm import Gemm
from tilelang.schedule.hold_operands import HoldOperands, along_k, depth_of
from tilelang.targets.nvidia.isa.wgmma import ROWS, WARPGROUP
from tilelang.targets.nvidia.lowerings.gemm_wgmma import WgmmaPlan
from tilelang.targets.nvidia.passes.warp_specialization.capabilities import TargetCapabilities
from tilelang.targets.nvidia.passes.warp_specialization.pad_rows import SWIZZLE_SPAN
from tilelang.targets.nvidia.passes.warp_specialization.register_budget import live_tile_registers, registers_for_tiles
from tilelang.targets.nvidia.schedule import WARPGROUP_THREADS


def with_held_operands(
    launch: Launch, gemms: Iterable[Gemm], consumers: int, capabilities: TargetCapabilities
) -> tuple[Launch, list[Note]]:
    """The launch, which comes from `flatten_sequences`, with columns of operands in registers; and notes on these."""
    registers = registers_for_tiles(consumers) - live_tile_registers(launch, consumers)
    planned = capabilities.with_plans(launch, gemms, consumers * WARPGROUP_THREADS)
    hold = HoldOperands(_Columns(registers), _divided)
    body = hold.visit(planned.body)
    return (dataclasses.replace(launch, body=body), hold.notes) if hold.notes and body is not None else (launch, [])


class _Columns:
    """How many columns of an operand to hold; each answer takes the registers for them."""

    def __init__(self, registers: int) -> None:
        self._registers = registers

    def __call__(self, gemm: Gemm) -> int:
        """How many columns of A fit into the registers that are left, which they take; 0 if they should not."""
        plan, depth, bits = gemm.plan, depth_of(gemm), gemm.a.dtype.bits
        if not isinstance(plan, WgmmaPlan) or plan.a is None or plan.atom.n >= ROWS or gemm.transpose_a:
            return 0
        bits_of_column = plan.groups.row_atoms * ROWS * bits // WARPGROUP  # of each thread
        columns, span = self._registers * 32 // bits_of_column, SWIZZLE_SPAN * 8 // bits
        columns = depth if columns >= depth else 0 if depth % span else columns // span * span
        self._registers -= max(columns, 0) * bits_of_column // 32
        return max(columns, 0)


def _divided(gemm: Gemm, held: Buffer, columns: int) -> Iterator[Gemm]:
    """The gemm of the columns in shared memory, if there are any, and that of those in registers."""
    rest = depth_of(gemm) - columns
    if rest:
        yield dataclasses.replace(gemm, a=along_k(gemm, 0, 0, rest), b=along_k(gemm, 1, 0, rest), plan=None)
    clear = None if rest else gemm.clear_accum
    yield dataclasses.replace(gemm, a=whole(held), b=along_k(gemm, 1, rest), clear_accum=clear, plan=None)
