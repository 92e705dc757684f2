"""Loads and stores of global memory with cache hints, and prefetches.

Gives `load(dtype, ...)`, `store(dtype, ...)` and `PREFETCH`. Invariant: hints change no result; an access that is not
kept reads zero or writes nothing, and touches no memory.

Source: PTX ISA, "Data Movement and Conversion Instructions: ld, ld.global.nc, st, prefetch", "Cache Operators", "Cache
Eviction Priority Hints".
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

from tilelang.dtypes import BOOL, DType
from tilelang.errors import NoLowering
from tilelang.ir.expr import const
from tilelang.isa.function import Function, Parameter, ParameterKind
from tilelang.isa.instruction import Instruction
from tilelang.isa.intrinsic import Helper
from tilelang.isa.simulated import Pointer, Warp
from tilelang.targets.gpu.isa.lanes import spread
from tilelang.targets.nvidia.isa.access import SAMPLES, Access, access, as_bits, as_value
from tilelang.targets.nvidia.machines import Feature

_INSTEAD = "write the element itself, as in A[i] = B[j]: hints and caches decide nothing about results"
_SOURCE = "PTX ISA, 'Data Movement and Conversion Instructions: {}'"


class CacheHint(enum.Enum):
    """The cache hint of an access."""

    NONE = ""
    EVICT_FIRST = "L1::evict_first"  # used once, soon to be dropped
    EVICT_LAST = "L1::evict_last"  # used again, to be kept
    NO_ALLOCATE = "L1::no_allocate"  # allocates no line in L1
    L2_ONLY = "cg"  # goes past the L1 cache
    STREAMING = "cs"  # used once


def _suffix(hint: CacheHint, read_only: bool = False) -> str:
    return ("_nc" if read_only else "") + (f"_{hint.name.lower()}" if hint is not CacheHint.NONE else "")


def _loader(how: Access, hint: CacheHint, read_only: bool) -> Helper:
    name = f"tl_load_{how.size}{_suffix(hint, read_only)}"
    # a cache operator stands before .nc, an eviction priority after it
    operator = f".{hint.value}" if hint in (CacheHint.L2_ONLY, CacheHint.STREAMING) else ""
    priority = f".{hint.value}" if hint is not CacheHint.NONE and not operator else ""
    instruction = f"ld.global{operator}{'.nc' if read_only else ''}{priority}.{how.kind}"
    text = f"""\
__device__ __forceinline__ {how.word.name} {name}(const void* global, bool keep) {{
    {how.variable} value = {how.variable}{{}};
    if (keep) asm volatile("{instruction} {how.operands(0)}, [%{len(how.registers)}];"
                           : {how.outputs} : "l"(global){"" if read_only else ' : "memory"'});
    return {how.result};
}}
"""
    return Helper(name, text, needs=how.needs)


def _storer(how: Access, hint: CacheHint) -> Helper:
    name = f"tl_store_{how.size}{_suffix(hint)}"
    qualifier = f".{hint.value}" if hint is not CacheHint.NONE else ""
    text = f"""\
__device__ __forceinline__ void {name}(void* global, {how.word.name} value, bool keep) {{
    if (keep) asm volatile("st.global{qualifier}.{how.kind} [%0], {how.operands(1)};"
                           : : "l"(global), {how.inputs} : "memory");
}}
"""
    return Helper(name, text, needs=how.needs)


@cache
def load(dtype: DType, hint: CacheHint = CacheHint.NONE, *, read_only: bool = False) -> Instruction:
    """A load of an element or a short vector from global memory.

    It is called with the address and whether to read there; if not, the value is zero. `read_only` promises that no
    thread writes there while the kernel runs.

    Raises:
        NoLowering: The value is no access of 1, 2, 4, 8 or 16 bytes.
    """
    loader = _loader(access(dtype, "load"), hint, read_only)
    text, helper = as_value(dtype, f"{loader.name}({{0}}, {{1}})", loader)

    def simulate(warp: Warp, src: Pointer, keep: Any) -> np.ndarray:
        kept = warp.active & spread(warp, keep).astype(bool)
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
        instead=_INSTEAD,
        source=_SOURCE.format("ld.global.nc" if read_only else "ld"),
    )


@cache
def store(dtype: DType, hint: CacheHint = CacheHint.NONE) -> Instruction:
    """A store of an element or a short vector to global memory.

    It is called with the address, the value and whether to write.

    Raises:
        NoLowering: The value is no access of 1, 2, 4, 8 or 16 bytes.
    """
    storer = _storer(access(dtype, "store"), hint)
    value, helper = as_bits(dtype, "{1}", storer)

    def simulate(warp: Warp, dst: Pointer, value: Any, keep: Any) -> None:
        values = np.asarray(value)
        values = values if dtype.lanes > 1 else spread(warp, values)[:, None]
        warp.write(dst, values, where=warp.active & spread(warp, keep).astype(bool))

    return Instruction(
        f"store_{dtype!s}{_suffix(hint)}",
        {"cuda": f"{storer.name}({{0}}, {value}, {{2}})"},
        {"cuda": helper},
        simulate,
        predicate=2,
        instead=_INSTEAD,
        source=_SOURCE.format("st"),
    )


# what prefetches take for the cache, and with which priority data stays there
_LEVELS = {
    "L1": Feature.NONE,
    "L2": Feature.NONE,
    "L2::evict_last": Feature.CP_ASYNC,  # which all have from sm_80 on
    "L2::evict_normal": Feature.CP_ASYNC,
}


def _check_level(what: str, level: str) -> None:
    if level not in _LEVELS:
        raise NoLowering(f"{what}: no cache {level!r:.40}", hint=f"write one of {', '.join(map(repr, _LEVELS))}")


@cache
def prefetch(level: str) -> Instruction:
    """Prefetches the cache line of a global address into "L1" or "L2"; called with the address and a predicate.

    "L2::evict_last" keeps it there for long, and "L2::evict_normal" as usual.

    Raises:
        NoLowering: There is no such cache.
    """
    _check_level("prefetch", level)
    name = f"tl_prefetch_{level.replace('::', '_')}"
    text = f"""\
__device__ __forceinline__ void {name}(const void* global, bool keep) {{
    if (keep) asm volatile("prefetch.global.{level} [%0];" : : "l"(global));
}}
"""
    return Instruction(
        name.removeprefix("tl_"),
        {"cuda": f"{name}({{0}}, {{1}})"},
        {"cuda": Helper(name, text)},
        _nothing,
        predicate=1,
        needs=_LEVELS[level],
        optional=True,
        source=_SOURCE.format("prefetch, prefetchu"),
    )


def _nothing(warp: Warp, *arguments: Any) -> None:
    """A hint has no meaning."""


FUNCTIONS = (
    Function(
        "prefetch_global",
        lambda dtype, level: prefetch(level),
        """Fetches the cache line of an element of a global tensor before it is needed; nothing out of bounds.

        A hint, which changes no result. Targets that cannot do so go on without.
        """,
        (
            Parameter("element", ParameterKind.GLOBAL, "`A[i, j]`."),
            Parameter(
                "level",
                ParameterKind.WORD,
                'The cache: "L1" or "L2"; "L2::evict_last" and "L2::evict_normal" say how long L2 keeps it.',
                default="L2",
                check=_check_level,
            ),
        ),
        operands=("element", const(True, BOOL)),
        raises=("NoLowering: There is no such cache.",),
        example="T.prefetch_global(A[i + 64, j])",
    ),
)


def instructions() -> Iterator[Instruction]:
    """Those of this file, one of each form."""
    for dtype in SAMPLES:
        for hint in CacheHint:
            yield from (load(dtype, hint), store(dtype, hint), load(dtype, hint, read_only=True))
    yield from map(prefetch, _LEVELS)
