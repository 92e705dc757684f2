"""Instructions of GPUs that no target of this version generates: those of Blackwell's matrix units.

Gives records that only stand for them in a program. Invariant: no architecture has what they need, so a program with
one is refused before it is lowered.
"""

from __future__ import annotations

import functools
from typing import NoReturn

from tilelang.errors import NoLowering
from tilelang.isa.instruction import Instruction
from tilelang.isa.simulated import Warp
from tilelang.targets.nvidia.machines import Feature


@functools.cache
def unsupported(name: str) -> Instruction:
    """The record of an instruction by its name in the language.

    Source: PTX ISA, "TensorCore 5th Generation Family Instructions".
    """

    def simulate(warp: Warp, *arguments: object) -> NoReturn:
        raise NoLowering(f"T.{name}: no target of this version has it", hint="write T.gemm")

    return Instruction(name, {"cuda": f"{name}()"}, {}, simulate=simulate, needs=Feature.TCGEN05)
