"""Operands for every instruction of NVIDIA's catalogue, found by its name: for compilers, simulators and devices alike."""

import re
from dataclasses import dataclass

from tilelang.dtypes import BOOL, INT32, SCALARS, DType, as_dtype, lane_dtype
from tilelang.isa.function import Function, ParameterKind
from tilelang.isa.instruction import Instruction
from tilelang.targets.gpu.isa.catalogue import MODULES as GPU_MODULES
from tilelang.targets.nvidia.isa.catalogue import MODULES as NVIDIA_MODULES

UINT32 = SCALARS["uint32"]


@dataclass(frozen=True)
class Address:
    """The address of an element of a dtype, in memory of this scope."""

    dtype: DType
    scope: str = "global"


@dataclass(frozen=True)
class Mask:
    """The mask of the lanes that take part."""


Operand = Address | Mask | DType | int
_ELSEWHERE = (
    "wgmma",
    "matrix",
    "set",
    "mma",
    "ldmatrix",
    "stmatrix",
    "mbarrier",
    "cluster",
    "tma",
    "bulk",
    "l2",
)  # have tests of their own


def operands(name: str) -> list[Operand] | None:
    """What an instruction is called with: addresses, values of a dtype, constants; None if it needs a test of its own."""
    parts = name.removeprefix("tl_").split("_")
    if parts[0] in _ELSEWHERE:
        return None
    if name in _FIXED:
        return _FIXED[name]
    match parts:
        case ["shuffle", _, *rest]:
            return [Mask(), _dtype(rest), 1, 32]
        case ["redux", _, *rest]:
            return [Mask(), _dtype(rest)]
        case ["dp4a", a, b]:
            return [as_dtype(a), as_dtype(b), UINT32 if a == b == "uint32" else INT32]
        case ["cp", "async", _, *predicate]:
            memory = [Address(SCALARS["float16"], "shared"), Address(SCALARS["float16"])]
            return [*memory, BOOL, *(BOOL for _ in predicate)]
        case ["load", *rest]:
            return [Address(lane_dtype(_dtype(rest))), BOOL]
        case ["store", *rest]:
            return [Address(lane_dtype(_dtype(rest))), _dtype(rest), BOOL]
        case ["prefetch", *_]:
            return [Address(SCALARS["float32"]), BOOL]
        case ["atomic", op, *rest]:
            dtype = _dtype(rest)
            return [Address(lane_dtype(dtype)), *[dtype] * {"load": 0, "cas": 2}.get(op, 1)]
    return _OF_FUNCTIONS[name]


_FIXED: dict[str, list[Operand]] = {
    **{name: [] for name in ("sync_threads", "fence_block", "fence_device", "fence_system")},
    **{name: [] for name in ("fence_proxy_async", "fence_proxy_async_global")},
    **{name: [] for name in ("cp_async_commit", "trap", "clock64", "global_timer", "opaque_zero")},
    **{name: [] for name in ("thread_index", "warpgroup_index")},
    **{name: [Mask(), SCALARS["float32"]] for name in ("match_any", "match_all")},
    "elect": [Mask()],
    "bar_sync": [1, 32],
    "bar_arrive": [1, 64],
    "bar_sync_or": [1, 32, BOOL],
    "sync_group_or": [BOOL],
    "cp_async_wait": [0],
    "nanosleep": [20],
    "renewed": [SCALARS["int32"]],
    "quad_exchange": [Address(SCALARS["int8"]), Address(SCALARS["int8"])],
}


def _described(function: Function) -> list[Operand]:
    """The operands that the description of a function says."""
    kinds = {each.name: each for each in function.parameters}
    order = kinds if function.operands is None else function.operands
    operands: list[Operand] = []
    for each in order:
        parameter = kinds.get(each) if isinstance(each, str) else None
        if parameter is None:
            operands.append(BOOL if each.dtype.is_bool else each.value)
        elif parameter.kind is ParameterKind.LANES:
            operands.append(Mask())
        elif parameter.kind is ParameterKind.GLOBAL:
            operands.append(Address(SCALARS["float32"]))
        else:
            operands.append(BOOL if parameter.kind is ParameterKind.PREDICATE else parameter.dtype)
    return operands


_OF_FUNCTIONS = {
    function.instruction.name: _described(function)
    for module in (*GPU_MODULES, *NVIDIA_MODULES)
    for function in getattr(module, "FUNCTIONS", ())
    if isinstance(function.instruction, Instruction)
}


def _dtype(parts: list[str]) -> DType:
    """The dtype whose name begins a list of words."""
    for count in (3, 2, 1):
        name = "_".join(parts[:count])
        if re.sub(r"x\d+$", "", name) in SCALARS:
            return as_dtype(name)
    raise KeyError("_".join(parts))
