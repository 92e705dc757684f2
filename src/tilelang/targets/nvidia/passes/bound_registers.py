"""States how many blocks a multiprocessor holds at once, where fewer registers would not let it hold more.

Takes a thread-level function with its shared memory; gives one in which `min_blocks_per_sm` of a launch is the number
of blocks that there is shared memory for, and that have registers for their arrays, if each of their threads may have
all registers that instructions can name. Without it ptxas assumes that fewer registers let more blocks run, and loads
operands right before the instructions that take them: attention by mma.sync with tiles of 128 x 128 took 4.12 ms on an
H200, and 3.30 ms with it and predicates of copies. Invariant: a multiprocessor holds as many blocks as without, where
arrays take as many registers as the performance model expects.

Source: CUDA C++ Programming Guide, "Launch Bounds".
"""

from __future__ import annotations

import dataclasses

from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.stmt import Launch
from tilelang.passes.base import Pass, PassContext, with_launches
from tilelang.passes.properties import Property
from tilelang.performance.registers import blocks_at_once, expected_registers, registers_for_blocks
from tilelang.targets.machine import Machine
from tilelang.targets.nvidia.machines import MAX_REGISTERS
from tilelang.targets.nvidia.passes.costs import rates_of


def bound_registers(launch: Launch, machine: Machine) -> Launch:
    """The launch with a bound, unless it has one or its warps are specialized."""
    if launch.hints.min_blocks_per_sm is not None or launch.plan.schedule is not None:
        return launch
    registers = expected_registers(launch, machine, rates_of(machine))
    blocks = blocks_at_once(launch.num_threads, launch.plan.shared_bytes, registers, machine)
    if registers_for_blocks(blocks, launch.num_threads, machine) < MAX_REGISTERS:
        return launch
    return dataclasses.replace(launch, hints=dataclasses.replace(launch.hints, min_blocks_per_sm=blocks))


def _run(func: PrimFunc, context: PassContext) -> PrimFunc:
    return with_launches(func, lambda launch: bound_registers(launch, context.target.machine))


PASS = Pass(
    "bound_registers", _run, Level.THREAD, Level.THREAD,
    requires=(Property.SHARED_MEMORY_ALLOCATED,),
)
