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
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence

from tilelang.errors import Note
from tilelang.ir.buffer import Buffer
from tilelang.ir.stmt import For, Launch
from tilelang.lowering.regions import whole
from tilelang.ops.gemm import Gemm
from tilelang.schedule.consumer_loops import asynchronous_gemms, consumer_body, prepared
from tilelang.schedule.hold_operands import HoldOperands, along_k, depth_of
from tilelang.schedule.live_registers import live_registers
from tilelang.schedule.load_groups import LoadGroup, pipelined_loops
from tilelang.schedule.loop_graph import Work, loop_graph
from tilelang.targets.nvidia.isa.wgmma import ROWS, WARPGROUP
from tilelang.targets.nvidia.lowerings.gemm_wgmma import WgmmaPlan
from tilelang.targets.nvidia.passes.warp_specialization.capabilities import TargetCapabilities
from tilelang.targets.nvidia.passes.warp_specialization.pad_rows import SWIZZLE_SPAN
from tilelang.targets.nvidia.passes.warp_specialization.register_budget import (
    live_tile_registers,
    loop_values,
    registers_for_tiles,
)
from tilelang.targets.nvidia.schedule import WARPGROUP_THREADS


def with_held_operands(
    launch: Launch, gemms: Iterable[Gemm], consumers: int, capabilities: TargetCapabilities
) -> tuple[Launch, list[Note]]:
    """The launch, which comes from `flatten_sequences`, with columns of operands in registers; and notes on these."""
    planned = capabilities.with_plans(launch, gemms, consumers * WARPGROUP_THREADS)

    def registers() -> int:
        load_groups, loops = capabilities.load_groups(planned).found, pipelined_loops(planned.body)
        live = (_live_registers(loop, planned, load_groups, consumers, capabilities) for loop in loops)
        return registers_for_tiles(consumers) - max(live_tile_registers(planned, consumers), *live)

    hold = HoldOperands(_Columns(registers), _divided)
    body = hold.visit(planned.body)
    return (dataclasses.replace(launch, body=body), hold.notes) if hold.notes and body is not None else (launch, [])


def _live_registers(
    loop: For, launch: Launch, load_groups: Sequence[LoadGroup], consumers: int, capabilities: TargetCapabilities
) -> int:
    """The most registers that live fragments take at once in a loop as it is scheduled.

    Its gemms hold theirs until they are awaited, and sums of a softmax read the scores where they are scaled.
    """
    inside = [each for each in load_groups if each.parent is loop.body]
    body = consumer_body(prepared(loop, loop, launch, separate=False).loop, inside)
    in_flight = asynchronous_gemms(body, capabilities.wgmma_refusal, consumers * WARPGROUP_THREADS)
    graph = loop_graph(body, lambda stmt: Work(0, asynchronous=stmt in in_flight))
    graph = dataclasses.replace(graph, values=loop_values(body, launch, loop, consumers, None))
    order = range(len(body.statements))
    return live_registers(graph, (0,) * len(order), order)


class _Columns:
    """How many columns of an operand to hold; each answer takes the registers for them."""

    def __init__(self, registers: Callable[[], int]) -> None:
        self._left = functools.cache(registers)
        self._taken = 0

    def __call__(self, gemm: Gemm) -> int:
        """How many columns of A fit into the registers that are left, which they take; 0 if they should not."""
        plan, depth, bits = gemm.plan, depth_of(gemm), gemm.a.dtype.bits
        if not isinstance(plan, WgmmaPlan) or plan.a is None or plan.atom.n >= ROWS or gemm.transpose_a:
            return 0
        bits_of_column = plan.groups.row_atoms * ROWS * bits // WARPGROUP  # of each thread
        columns, span = (self._left() - self._taken) * 32 // bits_of_column, SWIZZLE_SPAN * 8 // bits
        columns = depth if columns >= depth else 0 if depth % span else columns // span * span
        self._taken += max(columns, 0) * bits_of_column // 32
        return max(columns, 0)


def _divided(gemm: Gemm, held: Buffer, columns: int) -> Iterator[Gemm]:
    """The gemm of the columns in shared memory, if there are any, and that of those in registers."""
    rest = depth_of(gemm) - columns
    if rest:
        yield dataclasses.replace(gemm, a=along_k(gemm, 0, 0, rest), b=along_k(gemm, 1, 0, rest), plan=None)
    clear = None if rest else gemm.clear_accum
    yield dataclasses.replace(gemm, a=whole(held), b=along_k(gemm, 1, rest), clear_accum=clear, plan=None)
