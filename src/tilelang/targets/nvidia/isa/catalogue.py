"""Every file of records of instructions of NVIDIA's GPUs.

Gives `MODULES`, by which `language.functions` finds functions and `instructions` finds records. A file of records has a
function `instructions()`, of large families with some members only; if instructions of it are functions of the
language, it also has `FUNCTIONS`. Instructions made of the user's own text are not among them.
"""

from __future__ import annotations

from tilelang.isa.instruction import Instruction
from tilelang.targets.gpu.isa.catalogue import MODULES as GPU_MODULES
from tilelang.targets.nvidia.isa import (
    atomic,
    cache_policy,
    cluster,
    cp_async,
    debug,
    dependent_launch,
    dot,
    fence,
    ldmatrix,
    mbarrier,
    memory,
    mma,
    named_barrier,
    opaque_zero,
    quad_exchange,
    registers,
    renewed,
    thread_index,
    tma,
    warpgroup_index,
    wgmma,
    wgmma_registers,
)

MODULES = (
    *(named_barrier, dependent_launch, cluster, dot, cp_async, mbarrier, fence, tma),
    *(cache_policy, memory, atomic, debug, mma, wgmma, quad_exchange, registers, renewed, opaque_zero),
    *(thread_index, warpgroup_index, ldmatrix, wgmma_registers),
)


def instructions() -> dict[str, Instruction]:
    """The records by name, those of every GPU included."""
    return {record.name: record for module in (*GPU_MODULES, *MODULES) for record in module.instructions()}
