"""Every file of records of instructions that GPUs of all vendors have.

Gives `MODULES`. Each has a function `instructions()`; those whose instructions are functions of the language also have
`FUNCTIONS`.
"""

from __future__ import annotations

from tilelang.targets.gpu.isa import fence, sync, warp

MODULES = (sync, fence, warp)
