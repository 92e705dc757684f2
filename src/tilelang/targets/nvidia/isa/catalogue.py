"""Every instruction of NVIDIA's GPUs that this version supports, by name.

Gives `INSTRUCTIONS`: the `instructions()` of each file of records; of large families some members. Instructions made of
the user's own text are not among them.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tilelang.isa.instruction import Instruction
from tilelang.targets.gpu.isa import fence as fence_of_threads
from tilelang.targets.gpu.isa import sync, warp
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
    registers,
    tma,
    wgmma,
)

MODULES = (
    *(sync, named_barrier, fence_of_threads, warp, dependent_launch, cluster, dot, cp_async, mbarrier, fence, tma),
    *(cache_policy, memory, atomic, debug, mma, wgmma, registers, ldmatrix),
)

INSTRUCTIONS: Mapping[str, Instruction] = MappingProxyType(
    {record.name: record for module in MODULES for record in module.instructions()}
)
