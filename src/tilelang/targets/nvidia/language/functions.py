"""The functions of the language that are instructions of NVIDIA's GPUs (level 3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from tilelang.language.instruction_functions import functions_of
from tilelang.targets.nvidia.isa import cluster, cp_async, dependent_launch, fence, mbarrier, tma, wgmma

FUNCTIONS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    functions_of(dependent_launch, mbarrier, cp_async, cluster, tma, fence, wgmma)
)
