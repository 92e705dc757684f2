"""The functions of the language that are instructions of NVIDIA's GPUs (level 3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from tilelang.language.instruction_functions import functions_of
from tilelang.targets.nvidia.isa.catalogue import MODULES

FUNCTIONS: Mapping[str, Callable[..., Any]] = MappingProxyType(functions_of(*MODULES))
