"""`T.alloc_*`, `T.reshape` and `T.view`: the memory of a block, and new names for old bytes.

Takes shapes and dtypes, emits `Alloc` statements, gives proxies. Invariant: on-chip buffers have constant extents.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tilelang.dtypes import DType
from tilelang.errors import ProgramError, ProgramTypeError, ProgramValueError, StagingRuntimeError
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Expr, ExprLike, Load, as_expr, int_const
from tilelang.ir.scalar import convert
from tilelang.ir.stmt import Alloc
from tilelang.language.api import api
from tilelang.language.dtypes import convert_to
from tilelang.language.extents import product, shape_text, text
from tilelang.language.proxy import BufferProxy
from tilelang.language.regions import as_buffer
from tilelang.language.stage import current
from tilelang.language.types import DTypeLike, ShapeLike, as_shape, is_dtype_name, plain_dtype
from tilelang.language.views import known_before_launch, view_of, wrong_size

__all__ = [
    "alloc_fragment",
    "alloc_global",
    "alloc_local",
    "alloc_shared",
    "alloc_var",
    "reshape",
    "view",
]


# scopes of registers by their names
_REGISTERS = {"local.fragment": Scope.FRAGMENT, "fragment": Scope.FRAGMENT, "local": Scope.LOCAL}


@api
def alloc_shared(shape: ShapeLike, dtype: DTypeLike = "float32", scope: str = "shared.dyn") -> BufferProxy:
    """A buffer that the whole block shares; its contents are undefined until written.

    Shapes: constants, zero and rank 0 included, and expressions of dims and scalar parameters, with which the size of
    a block's memory is computed at each launch; a bare int means rank 1.

    Args:
        shape: The extents.
        dtype: The element dtype.
        scope: "shared.dyn" or "shared"; both mean the same.

    Raises:
        ProgramError: An extent is negative or depends on values of the kernel, or the scope is another one.
        ResourceError: When the kernel is launched and a block of the device has less memory.

    Example:
        `A_s = T.alloc_shared((block_M, block_K), T.float16)`
    """
    _check_scope("T.alloc_shared", scope, ("shared.dyn", "shared"))
    return on_chip("T.alloc_shared", shape, dtype, Scope.SHARED, scope if scope == "shared" else "")


@api
def alloc_fragment(shape: ShapeLike, dtype: DTypeLike = "float32", scope: str = "local.fragment") -> BufferProxy:
    """A tile held in registers, spread over the threads of the block; its contents are undefined until written.

    Shapes: constant extents.

    Args:
        shape: The extents.
        dtype: The element dtype.
        scope: "local.fragment"; "local" makes what `T.alloc_local` does.

    Raises:
        ProgramError: An extent is symbolic or negative.

    Example:
        `C_local = T.alloc_fragment((block_M, block_N), T.float32)`
    """
    _check_scope("T.alloc_fragment", scope, tuple(_REGISTERS))
    return on_chip("T.alloc_fragment", shape, dtype, _REGISTERS[scope])


@api
def alloc_local(shape: ShapeLike, dtype: DTypeLike = "float32", scope: str = "local") -> BufferProxy:
    """A small array of the block's sequential program; its contents are undefined until written.

    Shapes: constant extents.

    Args:
        shape: The extents.
        dtype: The element dtype.
        scope: "local"; "local.fragment" makes what `T.alloc_fragment` does.

    Raises:
        ProgramError: An extent is symbolic or negative.
    """
    _check_scope("T.alloc_local", scope, ("local", "local.fragment"))
    return on_chip("T.alloc_local", shape, dtype, _REGISTERS[scope])


@api
def alloc_var(dtype: DTypeLike, *args: ExprLike | str, init: ExprLike | str | None = None, scope: str = "") -> Any:
    """A mutable scalar: `x = expr` and `x += expr` assign it, `x` in an expression reads it.

    Args:
        dtype: Its dtype; what is assigned is converted to it.
        args: The first value, the scope, or both in this order; a text is the scope.
        init: The first value by keyword; undefined without one. A Python number must be one that the dtype has.
        scope: "local.var"; nothing else.

    Raises:
        ProgramTypeError: There are two first values, or two scopes.
        ProgramValueError: A Python number is out of the range of the dtype, or the scope is another one.
        ProgramError: The first value is no scalar.

    Example:
        `best = T.alloc_var(T.float32, -T.infinity(T.float32))`
    """
    what = "T.alloc_var"
    row = plain_dtype(dtype, what)
    values = [value for value in (*args, init) if value is not None and not _is_scope(value)]
    scopes = [value for value in (*args, init, scope or None) if _is_scope(value)]
    if len(values) > 1 or len(scopes) > 1:
        raise ProgramTypeError(
            f"{what}: got {'two first values' if len(values) > 1 else 'two scopes'}",
            hint="the form is T.alloc_var(dtype, init=None, scope='local.var')",
        )
    if scopes:
        _check_scope(what, str(scopes[0]), ("local.var",))
    stager = current(what)
    first = None
    if values:
        _check_range(what, values[0], row)
        first = convert_to(values[0], row, what)
    buffer = Buffer(stager.suggest("var"), (), row, Scope.VAR, loc=stager.loc)
    stager.emit(Alloc(buffer, first))
    return Load(buffer, (), row)


def _is_scope(value: object) -> bool:
    """Whether an argument is a text other than those of numbers."""
    return isinstance(value, str) and value.strip("+-").lower() not in ("inf", "infinity", "nan")


def _check_range(what: str, value: object, dtype: DType) -> None:
    """Raises for a Python number beyond the finite values of a dtype; one that rounds to the last of them is none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or dtype.is_bool or not math.isfinite(value):
        return
    low, high = dtype.limits
    if low <= value <= high or dtype.is_float and dtype.bits > 8 and math.isfinite(float(convert(value, dtype))):
        return
    side, limit = ("maximum", high) if value > high else ("minimum", low)
    raise ProgramValueError(
        f"{what}: {value} exceeds {side} of {dtype!s}, which is {limit}", hint="write a dtype that has the value"
    )


@api
def alloc_global(shape: ShapeLike, dtype: DTypeLike = "float32", scope: str = "global") -> BufferProxy:
    """A workspace in global memory that the runtime allocates for the duration of the call.

    It stands outside of `with T.Kernel(...)` and carries data from one kernel of the function to the next.

    Shapes: constants, symbolic dims and expressions of them.

    Raises:
        StagingRuntimeError: It stands inside a kernel.
        ProgramValueError: The scope is another one than "global".
    """
    _check_scope("T.alloc_global", scope, ("global",))
    stager = current("T.alloc_global")
    if stager.hints is not None:
        raise StagingRuntimeError(
            "T.alloc_global: a workspace belongs to the function, but stands inside of `with T.Kernel(...)`",
            hint="move it in front of the kernel; memory of a block is T.alloc_shared",
        )
    extents = as_shape(shape, "T.alloc_global")
    row = plain_dtype(dtype, "T.alloc_global")
    buffer = Buffer(stager.suggest("workspace"), extents, row, Scope.GLOBAL, loc=stager.loc)
    stager.emit(Alloc(buffer))
    return BufferProxy(buffer)


@api
def reshape(buffer: BufferProxy, shape: ShapeLike) -> BufferProxy:
    """The same bytes under another shape, row-major; writing through either name is seen by both.

    Shapes: the number of elements stays; one extent may be -1 and is then computed.

    Raises:
        ProgramSizeError: The number of elements differs.
        ProgramError: The buffer is not dense.

    Example:
        `flat = T.reshape(A_s, (block_M * block_K,))`
    """
    source = _viewable(buffer, "T.reshape")
    return view_of("T.reshape", source, _with_rest(shape, source), source.dtype)


@api
def view(buffer: BufferProxy, shape: ShapeLike | None = None, dtype: DTypeLike | None = None) -> BufferProxy:
    """The same bytes under another shape and dtype; writing through either name is seen by both.

    Shapes: the number of bytes stays. Without `shape`, the last extent grows or shrinks with the dtype.

    Raises:
        ProgramSizeError: The number of bytes differs.
        ProgramError: The buffer is not dense.

    Example:
        `bits = T.view(A_s, dtype=T.uint16)`
    """
    source = _viewable(buffer, "T.view")
    row = source.dtype if dtype is None else plain_dtype(dtype, "T.view")
    if shape is not None:
        return view_of("T.view", source, as_shape(shape, "T.view"), row)
    if not source.shape:
        return view_of("T.view", source, (), row)
    old, new = source.dtype.storage_bytes, row.storage_bytes
    if old % new == 0:
        return view_of("T.view", source, (*source.shape[:-1], source.shape[-1] * (old // new)), row)
    last = source.shape[-1] * old
    if int_const(last) is not None and int_const(last % new) != 0:
        raise ProgramError(
            f"T.view: the last extent of '{source.name}' {shape_text(source.shape)} holds {text(last)} bytes, "
            f"no multiple of the {new} of {row!s}"
        )
    return view_of("T.view", source, (*source.shape[:-1], last // new), row)


def on_chip(what: str, shape: ShapeLike, dtype: DTypeLike, scope: Scope, scope_name: str = "") -> BufferProxy:
    """A new buffer for the `T.alloc_*` function called `what`.

    Raises:
        ProgramError: An extent is negative or only known when the kernel runs.
    """
    stager = current(what)
    extents = as_shape(shape, what)
    row = plain_dtype(dtype, what)
    for dim, extent in enumerate(extents):
        if int_const(extent) is None and not (scope is Scope.SHARED and known_before_launch(stager, (extent,))):
            raise ProgramError(
                f"{what}: extent {text(extent)} of dimension {dim} is only known when the kernel runs",
                hint="on-chip memory has constant extents: write a tile size such as 128, and loop over the tiles",
            )
    name = stager.suggest(what.rpartition("_")[2])
    buffer = Buffer(name, extents, row, scope, loc=stager.loc, scope_name=scope_name)
    stager.emit(Alloc(buffer))
    return BufferProxy(buffer)


def _check_scope(what: str, scope: str, allowed: tuple[str, ...]) -> None:
    if scope not in allowed:
        instead = f"leave it out, or write {allowed[0]!r}"
        if is_dtype_name(scope):
            instead = f"write the shape as one argument: {what}((M, N), {scope!r})"
        raise ProgramValueError(f"{what}: unknown scope {scope!r}", hint=instead)


def _viewable(buffer: BufferProxy, what: str) -> Buffer:
    source = as_buffer(buffer, what)
    if source.strides is not None:
        raise ProgramError(
            f"{what}: '{source.name}' is a strided tensor, whose elements do not lie side by side",
            hint="copy it into a dense buffer first",
        )
    if source.scope is Scope.VAR:
        raise ProgramError(f"{what}: '{source.name}' is a mutable scalar", hint="write T.reinterpret(x, dtype)")
    return source


def _with_rest(shape: ShapeLike, source: Buffer) -> tuple[Expr, ...]:
    items: list[ExprLike] = list(shape) if isinstance(shape, Sequence) else [shape]
    rest = [i for i, item in enumerate(items) if isinstance(item, int) and item == -1]
    if len(rest) > 1:
        raise ProgramError("T.reshape: only one extent can be -1")
    if rest:
        known = as_shape([item for i, item in enumerate(items) if i != rest[0]], "T.reshape")
        whole, part = int_const(product(source.shape)), int_const(product(known))
        if whole is None or part is None:
            raise ProgramError("T.reshape: -1 needs constant extents", hint="write the extent out")
        if not part or whole % part:
            raise wrong_size("T.reshape", source, (*known[: rest[0]], as_expr(-1), *known[rest[0] :]), source.dtype)
        items[rest[0]] = whole // part
    return as_shape(items, "T.reshape")
