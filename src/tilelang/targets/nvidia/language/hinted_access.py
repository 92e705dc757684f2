"""Loads and stores of global memory with words to the caches (level 3): `T.ldg`, `T.stg`.

Takes elements (`A[i, j]`), tiles and pointers made of them, emits calls of instructions. Invariant: what a call touches
is written down with it.
"""

from __future__ import annotations

from tilelang.dtypes import BOOL, DType, as_dtype
from tilelang.errors import ProgramError
from tilelang.ir.buffer import Region
from tilelang.ir.expr import Const, Expr, ExprLike, as_expr, cast
from tilelang.language.api import api
from tilelang.language.calls import emit_call
from tilelang.language.pointers import Place, global_region, neighbors
from tilelang.targets.nvidia.isa.memory import CacheHint
from tilelang.targets.nvidia.isa.memory import load as hinted_load
from tilelang.targets.nvidia.isa.memory import store as hinted_store

__all__ = [
    "ldg",
    "stg",
]

_ALWAYS = Const(True, BOOL)


@api
def ldg(element: Place, dtype: object = None, hint: str = "none") -> Expr:
    """An element of a global tensor that is read-only while the kernel runs; 0 out of bounds.

    Args:
        element: `A[i, j]`.
        dtype: A vector dtype such as "float16x8" takes that many neighbors at once; the address must be a multiple of
            its size. The tensor's dtype without it.
        hint: The cache hint: "none", "evict_first", "evict_last", "no_allocate", "l2_only" or "streaming".
    """
    what = "T.ldg"
    region = global_region(what, element)
    kind = region.dtype if dtype is None else as_dtype(dtype)
    return _load(what, region, kind, hint)


@api
def stg(element: Place, value: ExprLike, hint: str = "none") -> None:
    """Writes an element, or as many neighbors as `value` has lanes, to a global tensor. As `T.ldg` otherwise."""
    what = "T.stg"
    region = global_region(what, element)
    number = as_expr(value)
    dtype = number.dtype if number.dtype.lanes > 1 else region.dtype
    _check_lanes(what, region, dtype)
    touched = neighbors(region, dtype.lanes)
    emit_call(what, hinted_store(dtype, _hint(what, hint)), touched, cast(number, dtype), _ALWAYS, writes=(touched,))


def _check_lanes(what: str, region: Region, dtype: DType) -> None:
    if dtype.lanes > 1 and not str(dtype).startswith(str(region.dtype)):
        raise ProgramError(
            f"{what}: '{region.buffer.name}' holds {region.dtype!s}, not neighbors that make a {dtype!s}",
            hint=f"write {region.dtype!s}x{dtype.lanes}",
        )


def _load(what: str, region: Region, dtype: DType, hint: str) -> Expr:
    _check_lanes(what, region, dtype)
    touched = neighbors(region, dtype.lanes)
    instruction = hinted_load(dtype, _hint(what, hint), read_only=True)
    result = emit_call(what, instruction, touched, _ALWAYS, reads=(touched,))
    assert result is not None
    return result


def _hint(what: str, name: str) -> CacheHint:
    if name.upper() not in CacheHint.__members__:
        names = ", ".join(repr(hint.name.lower()) for hint in CacheHint)
        raise ProgramError(f"{what}: {name!r:.40} is no hint for a cache", hint=f"write one of {names}")
    return CacheHint[name.upper()]
