"""Moves registers between the warpgroups of a block: `setmaxnreg`.

Gives `set_max_registers(n, increase)`, and `requested_registers`, which recognizes it. Invariant: registers decide
nothing about what a program computes, so that for a simulator the instruction only has to be one of whole warps.

Source: PTX ISA, "Miscellaneous Instructions: setmaxnreg".
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from tilelang.errors import CompilerBug
from tilelang.isa.instruction import ExecutionScope, Instruction
from tilelang.isa.simulated import Warp
from tilelang.targets.nvidia.isa.atom import ALL_LANES
from tilelang.targets.nvidia.isa.ptx_statement import ptx_statement
from tilelang.targets.nvidia.machines import Feature

_INSTEAD = "leave it out: all waves of a block have the same registers"
_NAME = "set_max_registers_"
REGISTER_STEP = 8
REGISTER_COUNTS = range(24, 257, REGISTER_STEP)
"""The registers of a thread that setmaxnreg can set."""


@cache
def set_max_registers(count: int, increase: bool) -> Instruction:
    """Sets the registers of each thread: to more than it had, which the block must have freed before, or to fewer.

    Called with nothing, by all threads of a warpgroup.

    Raises:
        CompilerBug: The machine does not take that number.
    """
    if count not in REGISTER_COUNTS:
        raise CompilerBug(f"setmaxnreg: {count} is not in {REGISTER_COUNTS}")
    way = "inc" if increase else "dec"

    def simulate(warp: Warp) -> None:
        warp.converge(ALL_LANES, "setmaxnreg")

    return ptx_statement(
        f"{_NAME}{way}_{count}",
        f"setmaxnreg.{way}.sync.aligned.u32 {count};",
        (),
        simulate,
        f"Sets the registers of each thread of the warpgroup to {count}.",
        execution_scope=ExecutionScope.WARP_GROUP,
        needs=Feature.WGMMA,
        instead=_INSTEAD,
        source="PTX ISA, 'Miscellaneous Instructions: setmaxnreg'",
    )


def requested_registers(routine: Instruction) -> tuple[int, bool] | None:
    """The operand of a setmaxnreg, and whether it increases; None for another instruction."""
    way, _, count = routine.name.removeprefix(_NAME).partition("_")
    return (int(count), way == "inc") if routine.name.startswith(_NAME) else None


def instructions() -> Iterator[Instruction]:
    """Those of this file, one of each form."""
    yield from (set_max_registers(24, False), set_max_registers(240, True))
