"""The functions of the language that are instructions of NVIDIA's GPUs (level 3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from tilelang.language.instruction_functions import functions_of
from tilelang.targets.nvidia.isa import (
    cluster,
    cp_async,
    debug,
    dependent_launch,
    fence,
    mbarrier,
    memory,
    named_barrier,
    registers,
    tma,
    wgmma,
)

MODULES = (dependent_launch, named_barrier, mbarrier, cp_async, cluster, tma, fence, wgmma, registers, memory, debug)
"""The records of instructions that functions may call."""

FUNCTIONS: Mapping[str, Callable[..., Any]] = MappingProxyType(functions_of(*MODULES))
