"""Accesses of 4 to 32 bytes at once, whose values are words of 32 bits (level 3): `T.ldg128`, `T.sts64` and their kin.

Gives `FUNCTIONS`, made from one for each memory and direction: they emit load and store instructions for global
memory, and vector accesses for shared memory. Invariant: addresses are multiples of the bytes of an access, which the
program sees to; an access whose predicate is false reads zero or writes nothing.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from tilelang.dtypes import BOOL, DType, as_dtype
from tilelang.errors import ProgramError, ProgramTypeError
from tilelang.ir.buffer import Region, Scope
from tilelang.ir.expr import Const, Expr, ExprLike, Load, Reinterpret, as_bool, as_expr
from tilelang.ir.stmt import Store
from tilelang.ir.vector import lane, lanes_of, pack
from tilelang.language.api import api
from tilelang.language.calls import emit_call, inside_kernel
from tilelang.language.pointers import Place, neighbors, pointer_of
from tilelang.targets.nvidia.isa.memory import load, store

_WORD = as_dtype("uint32")
_MAX_BYTES = 16  # bytes of one instruction before sm_100. Source: PTX ISA, "ld"


def _load_global(what: str, size: int, src: Place, pred: ExprLike | None = None) -> Expr:
    """4 bytes of global memory from the element `src` on, as a uint32.

    Args:
        src: `A[i, j]`, an element of a tensor that nothing writes while the kernel runs, or the first of a region.
        pred: Where it is false nothing is read, and the value is 0.

    Raises:
        ProgramError: The element is not in global memory, or its dtype does not divide the access.
    """
    region = _first(what, src, Scope.GLOBAL, size)
    keep = Const(True, BOOL) if pred is None else as_bool(pred)
    parts = []
    for touched in _parts(region, size):
        dtype = _in_elements(region, min(size, _MAX_BYTES))
        loaded = emit_call(what, load(dtype, read_only=True), touched, keep, reads=(touched,))
        assert loaded is not None
        parts.append(_as_words(loaded, min(size, _MAX_BYTES)))
    return _joined(parts)


def _store_global(what: str, size: int, dst: Place, value: ExprLike, pred: ExprLike | None = None) -> None:
    """Writes a uint32 to the 4 bytes of global memory from the element `dst` on.

    Args:
        dst: `A[i, j]`, or the first element of a region.
        value: A value of 4 bytes.
        pred: Where it is false nothing is written.

    Raises:
        ProgramError: The element is not in global memory, or its dtype does not divide the access.
        ProgramTypeError: The value has another size.
    """
    region = _first(what, dst, Scope.GLOBAL, size)
    keep = Const(True, BOOL) if pred is None else as_bool(pred)
    dtype = _in_elements(region, min(size, _MAX_BYTES))
    for touched, part in zip(_parts(region, size), _split(what, value, size), strict=True):
        emit_call(what, store(dtype), touched, _as(part, dtype), keep, writes=(touched,))


def _load_shared(what: str, size: int, src: Place) -> Expr:
    """4 bytes of shared memory from the element `src` on, as a uint32.

    Raises:
        ProgramError: The element is not in shared memory, or its dtype does not divide the access.
    """
    region = _first(what, src, Scope.SHARED, size)
    stager, _ = inside_kernel(what)
    return _as_words(stager.bind("loaded", Load(region.buffer, region.start, _in_elements(region, size))), size)


def _store_shared(what: str, size: int, dst: Place, value: ExprLike) -> None:
    """Writes a uint32 to the 4 bytes of shared memory from the element `dst` on.

    Raises:
        ProgramError: The element is not in shared memory, or its dtype does not divide the access.
        ProgramTypeError: The value has another size.
    """
    region = _first(what, dst, Scope.SHARED, size)
    stager, _ = inside_kernel(what)
    (part,) = _split(what, value, size)
    stager.emit(Store(region.buffer, region.start, _as(part, _in_elements(region, size))))


def _first(what: str, place: Place, scope: Scope, size: int) -> Region:
    """The first element of an access."""
    region = pointer_of(what, place).region
    if region.buffer.scope is not scope:
        raise ProgramError(
            f"{what}: '{region.buffer.name}' is not in {scope.name.lower()} memory",
            hint="T.ldg and T.stg access global memory, T.lds and T.sts shared memory",
        )
    bits = region.dtype.bits * region.dtype.lanes
    if bits < 8 or 8 * size % bits:
        raise ProgramError(f"{what}: {size} bytes are no whole number of elements of {region.dtype!s}")
    return Region(region.buffer, region.start, tuple(as_expr(1) for _ in region.start))


def _in_elements(region: Region, size: int) -> DType:
    """The dtype of `size` bytes of elements of the buffer."""
    count = size // region.dtype.storage_bytes
    return region.dtype if count == 1 else as_dtype(f"{region.dtype!s}x{count}")


def _parts(region: Region, size: int) -> list[Region]:
    """Return the parts of a region that each instruction of an access touches."""
    count = min(size, _MAX_BYTES) // region.dtype.storage_bytes
    *leading, last = region.start
    starts = [(*leading, last + i * count) for i in range(-(-size // _MAX_BYTES))]
    return [neighbors(Region(region.buffer, start, region.extent), count) for start in starts]


def _words(size: int) -> DType:
    return _WORD if size == 4 else as_dtype(f"uint32x{size // 4}")


def _as_words(value: Expr, size: int) -> Expr:
    return _as(value, _words(size))


def _as(value: Expr, dtype: DType) -> Expr:
    return value if value.dtype == dtype else Reinterpret(value, dtype)


def _joined(parts: list[Expr]) -> Expr:
    return parts[0] if len(parts) == 1 else pack([one for part in parts for one in lanes_of(part)])


def _split(what: str, value: ExprLike, size: int) -> list[Expr]:
    """A value in the parts that one instruction takes each."""
    given = as_expr(value)
    if given.dtype.bits * given.dtype.lanes != 8 * size:
        raise ProgramTypeError(
            f"{what}: writes {size} bytes, and {given.dtype!s} has {given.dtype.bits * given.dtype.lanes} bits",
            hint=f"write a value of {_words(size)!s}, such as T.reinterpret(value, {str(_words(size))!r})",
        )
    if size <= _MAX_BYTES:
        return [given]
    half = given.dtype.lanes // 2
    if not half:
        raise ProgramTypeError(f"{what}: expected a vector, got {given.dtype!s}")
    return [pack([lane(given, i) for i in range(start, start + half)]) for start in (0, half)]


_SIZES: Mapping[str, tuple[Callable[..., Any], tuple[int, ...]]] = MappingProxyType(
    {
        "ldg": (_load_global, (4, 8, 16, 32)),
        "lds": (_load_shared, (4, 8, 16)),
        "stg": (_store_global, (4, 8, 16, 32)),
        "sts": (_store_shared, (4, 8, 16)),
    }
)
"""The function for accesses of a kind, and their sizes in bytes; its documentation is that of the first size."""


def _function(kind: str, size: int) -> Callable[..., Any]:
    access, (least, *_) = _SIZES[kind]
    name = f"{kind}{8 * size}"
    full = inspect.signature(access)
    signature = full.replace(parameters=list(full.parameters.values())[2:])

    def function(*args: Any, **keywords: Any) -> Any:
        bound = signature.bind(*args, **keywords)
        return access(f"T.{name}", size, *bound.args, **bound.kwargs)

    by_two = f", by two {'loads' if kind[0] == 'l' else 'stores'}" if size > _MAX_BYTES else ""
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`T.{kind}{8 * least}` of {size} bytes, a {_words(size)!s}{by_two}."
    if size == least:
        function.__doc__ = access.__doc__
    function.__signature__ = signature  # type: ignore[attr-defined]
    return api(function)


FUNCTIONS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {f"{kind}{8 * size}": _function(kind, size) for kind, (_, sizes) in _SIZES.items() for size in sizes}
)
