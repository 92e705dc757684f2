"""Loads and stores of global memory with words to the caches, and prefetches.

Gives `load(dtype, ...)`, `store(dtype, ...)` and `PREFETCH`. Invariant: hints change no result; an access that is not
kept reads zero or writes nothing, and touches no memory.

Source: PTX ISA, "Data Movement and Conversion Instructions: ld, ld.global.nc, st, prefetch", "Cache Operators", "Cache
Eviction Priority Hints".
"""

from __future__ import annotations

import enum
from functools import cache
from typing import Any

import numpy as np

from tilelang.dtypes import DType
from tilelang.errors import NoLowering
from tilelang.isa.instruction import Instruction
from tilelang.isa.intrinsic import Helper
from tilelang.isa.machine import Pointer, Warp
from tilelang.isa.nvidia.lanes import spread
from tilelang.isa.nvidia.types import BITS, cuda_type, lane_type, words

SIZES = (1, 2, 4, 8, 16)  # in bytes; the address is a multiple of the size
_SOURCE = "PTX ISA, 'Data Movement and Conversion Instructions: {}'"


class CacheHint(enum.Enum):
    """What an access tells the caches."""

    NONE = ""
    EVICT_FIRST = "L1::evict_first"  # used once, soon to be dropped
    EVICT_LAST = "L1::evict_last"  # used again, to be kept
    NO_ALLOCATE = "L1::no_allocate"  # leaves the L1 cache as it is
    L2_ONLY = "cg"  # goes past the L1 cache
    STREAMING = "cs"  # used once


# per size: PTX type, registers of the type in `types.words`, constraint
_REGISTERS: dict[int, tuple[str, tuple[str, ...], str]] = {
    1: ("u8", ("value",), "h"),
    2: ("u16", ("value",), "h"),
    4: ("u32", ("value",), "r"),
    8: ("v2.u32", ("value.x", "value.y"), "r"),
    16: ("v4.u32", ("value.x", "value.y", "value.z", "value.w"), "r"),
}


def _places(first: int, count: int) -> str:
    """The operands of an asm text, a vector in braces."""
    names = ", ".join(f"%{first + i}" for i in range(count))
    return names if count == 1 else f"{{{names}}}"


def _size(dtype: DType, what: str) -> int:
    if dtype.storage_bytes not in SIZES:
        raise NoLowering(f"{what}: no access of {dtype.storage_bytes} bytes, which {dtype!s} has")
    return dtype.storage_bytes


def _suffix(hint: CacheHint, read_only: bool = False) -> str:
    return ("_nc" if read_only else "") + (f"_{hint.name.lower()}" if hint is not CacheHint.NONE else "")


def _loader(size: int, hint: CacheHint, read_only: bool) -> Helper:
    name = f"tl_load_{size}{_suffix(hint, read_only)}"
    kind, registers, constraint = _REGISTERS[size]
    # a cache operator stands before .nc, an eviction priority after it
    operator = f".{hint.value}" if hint in (CacheHint.L2_ONLY, CacheHint.STREAMING) else ""
    priority = f".{hint.value}" if hint is not CacheHint.NONE and not operator else ""
    instruction = f"ld.global{operator}{'.nc' if read_only else ''}{priority}.{kind}"
    target = words(size)
    # a byte needs a register of 16 bits
    value = "uint16_t value = 0" if size == 1 else f"{target.name} value = {target.name}{{}}"
    outputs = ", ".join(f'"={constraint}"({register})' for register in registers)
    text = f"""\
__device__ __forceinline__ {target.name} {name}(const void* global, bool keep) {{
    {value};
    if (keep) asm volatile("{instruction} {_places(0, len(registers))}, [%{len(registers)}];"
                           : {outputs} : "l"(global){"" if read_only else ' : "memory"'});
    return {"(uint8_t)value" if size == 1 else "value"};
}}
"""
    return Helper(name, text, needs=_needed(target.helper))


def _storer(size: int, hint: CacheHint) -> Helper:
    name = f"tl_store_{size}{_suffix(hint)}"
    kind, registers, constraint = _REGISTERS[size]
    qualifier = f".{hint.value}" if hint is not CacheHint.NONE else ""
    target = words(size)
    inputs = ", ".join(f'"{constraint}"({"(uint16_t)value" if size == 1 else register})' for register in registers)
    text = f"""\
__device__ __forceinline__ void {name}(void* global, {target.name} value, bool keep) {{
    if (keep) asm volatile("st.global{qualifier}.{kind} [%0], {_places(1, len(registers))};"
                           : : "l"(global), {inputs} : "memory");
}}
"""
    return Helper(name, text, needs=_needed(target.helper))


def _needed(*helpers: Helper | None) -> tuple[Helper, ...]:
    return tuple(helper for helper in helpers if helper is not None)


@cache
def load(dtype: DType, hint: CacheHint = CacheHint.NONE, *, read_only: bool = False) -> Instruction:
    """A load of an element or a short vector from global memory.

    It is called with the address and whether to read there; if not, the value is zero. `read_only` promises that no
    thread writes there while the kernel runs.

    Raises:
        NoLowering: The value is no access of 1, 2, 4, 8 or 16 bytes.
    """
    helper = _loader(_size(dtype, "load"), hint, read_only)
    text = f"{helper.name}({{0}}, {{1}})"
    if dtype.lanes == 1:
        kind = cuda_type(dtype)
        text = f"({kind.value})tl_bits<{kind.name}>({text})"
        helper = Helper(f"{helper.name} as {dtype!s}", "", needs=_needed(helper, BITS, kind.helper))

    def simulate(warp: Warp, src: Pointer, keep: Any) -> np.ndarray:
        kept = warp.active & spread(keep).astype(bool)
        values = warp.read(src, dtype.lanes, where=kept)
        values = np.where(kept[:, None], values, np.zeros((), values.dtype))
        return values if dtype.lanes > 1 else values[:, 0]

    return Instruction(
        f"load_{dtype!s}{_suffix(hint, read_only)}",
        {"cuda": text},
        {"cuda": helper},
        simulate,
        result=dtype,
        predicate=1,
        source=_SOURCE.format("ld.global.nc" if read_only else "ld"),
    )


@cache
def store(dtype: DType, hint: CacheHint = CacheHint.NONE) -> Instruction:
    """A store of an element or a short vector to global memory.

    It is called with the address, the value and whether to write.

    Raises:
        NoLowering: The value is no access of 1, 2, 4, 8 or 16 bytes.
    """
    helper = _storer(_size(dtype, "store"), hint)
    text = f"{helper.name}({{0}}, {{1}}, {{2}})"
    if dtype.lanes == 1:
        kind, word = cuda_type(dtype), words(dtype.storage_bytes)
        text = f"{helper.name}({{0}}, tl_bits<{word.name}>({kind.name}({{1}})), {{2}})"
        helper = Helper(f"{helper.name} as {dtype!s}", "", needs=_needed(helper, BITS, lane_type(dtype).helper))

    def simulate(warp: Warp, dst: Pointer, value: Any, keep: Any) -> None:
        values = np.asarray(value)
        values = values if dtype.lanes > 1 else spread(values)[:, None]
        warp.write(dst, values, where=warp.active & spread(keep).astype(bool))

    return Instruction(
        f"store_{dtype!s}{_suffix(hint)}",
        {"cuda": text},
        {"cuda": helper},
        simulate,
        predicate=2,
        source=_SOURCE.format("st"),
    )


@cache
def prefetch(level: str) -> Instruction:
    """Brings the cache line of a global address into the "L1" or "L2" cache; called with the address and whether to.

    Raises:
        NoLowering: There is no such cache.
    """
    if level not in ("L1", "L2"):
        raise NoLowering(f"prefetch: no cache {level!r}", hint="the caches are 'L1' and 'L2'")
    name = f"tl_prefetch_{level}"
    text = f"""\
__device__ __forceinline__ void {name}(const void* global, bool keep) {{
    if (keep) asm volatile("prefetch.global.{level} [%0];" : : "l"(global));
}}
"""
    return Instruction(
        f"prefetch_{level}",
        {"cuda": f"{name}({{0}}, {{1}})"},
        {"cuda": Helper(name, text)},
        _nothing,
        predicate=1,
        source=_SOURCE.format("prefetch"),
    )


def _nothing(warp: Warp, *arguments: Any) -> None:
    """A hint has no meaning."""
