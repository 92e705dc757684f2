"""Calls of older programs, each of which is something that the language has by another name.

Takes what those programs pass, gives or records what the newer name does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilelang.errors import NoLowering, ProgramError, ProgramTypeError
from tilelang.ir.builder import as_body
from tilelang.ir.expr import Expr, ExprLike, Var, as_bool, as_expr, cast
from tilelang.ir.stmt import If
from tilelang.language import arithmetic, math
from tilelang.language.address import Pointer, pointer_to
from tilelang.language.api import api
from tilelang.language.calls import emit_call
from tilelang.language.debug import device_assert
from tilelang.language.extern import call_extern
from tilelang.language.lanes import lane_mask
from tilelang.language.proxy import BufferProxy, TileProxy
from tilelang.language.stage import current
from tilelang.language.tensors import decl_buffer
from tilelang.language.types import DTypeLike, plain_dtype
from tilelang.language.views import BufferStorage
from tilelang.targets.gpu.isa.lanes import FULL_MASK
from tilelang.targets.gpu.isa.sync import SYNC_GRID, SYNC_THREADS, SYNC_WARP

__all__ = [
    "Assert",
    "arg",
    "buffer",
    "buffer_decl",
    "buffer_store",
    "call_intrin",
    "call_pure_extern",
    "func_ret",
    "handle_add_byte_offset",
    "index_map",
    "isnullptr",
    "target",
    "tvm_access_ptr",
    "tvm_storage_sync",
    "type_annotation",
    "var",
]


class Op:
    """The name of a function for `T.call_intrin`, as `Op.get("tl.max_nan")` gives it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"Op({self.name!r})"

    @staticmethod
    @api
    def get(op_name: str) -> Op:
        """The operator of that name; whether there is a function of it is what `T.call_intrin` says."""
        return Op(op_name)


_CALLED_BY_NAME = {
    **math.FUNCTIONS,
    **{name: getattr(arithmetic, name) for name in arithmetic.__all__},
    "max_nan": math.max,
    "min_nan": math.min,
}


class Assert:
    """`T.Assert(condition, message)`, alone or after `with`: stops the kernel if the condition does not hold.

    Args:
        condition: A truth value.
        message: What the error says; the parts of a sequence follow each other.
        error_kind: Accepted for older programs; the error is a `DeviceAssertError`, which is a `RuntimeError`.
    """

    @api
    def __init__(
        self, condition: ExprLike, message: str | Sequence[str] = "", error_kind: str = "RuntimeError"
    ) -> None:
        del error_kind
        device_assert(condition, message if isinstance(message, str) else "".join(map(str, message)))

    def __enter__(self) -> None:
        """It was tested already."""

    def __exit__(self, *error: object) -> None:
        """There is nothing to end."""


@api
def buffer_store(buffer: TileProxy, value: ExprLike, indices: Any, predicate: ExprLike | None = None) -> None:
    """Writes an element: `buffer[indices] = value`, where `predicate` holds.

    Raises:
        ProgramTypeError: What is written is no buffer.
    """
    if not isinstance(buffer, TileProxy):
        raise ProgramTypeError(f"T.buffer_store: {buffer!r:.40} is no buffer")
    stager = current("T.buffer_store")
    key = tuple(indices) if isinstance(indices, Sequence) else indices
    if predicate is None:
        buffer[key] = value
        return
    stager.open_block()
    buffer[key] = value
    stager.emit(If(as_bool(predicate), as_body(stager.close_block(), stager.loc), loc=stager.loc))


@api
def tvm_access_ptr(ptype: object, data: object, offset: ExprLike, extent: object, rw_mask: int = 3) -> Pointer:
    """The address of the element `offset` elements after the beginning of a buffer.

    Args:
        ptype: Accepted for older programs.
        data: A buffer, or its `.data`.
        offset: In elements, in row-major order.
        extent: Accepted for older programs.
        rw_mask: 1 reads, 2 writes, 3 does both.

    Raises:
        ProgramTypeError: `data` is no buffer.
        ProgramError: There is no such mask.
    """
    del ptype, extent
    proxy = BufferProxy(data.buffer) if isinstance(data, BufferStorage) else data
    if not isinstance(proxy, BufferProxy):
        raise ProgramTypeError(f"T.tvm_access_ptr: {data!r:.40} is no buffer", hint="pass buf.data, or the buffer")
    return pointer_to(proxy.region, rw_mask, offset)


@api
def type_annotation(dtype: DTypeLike) -> DTypeLike:
    """The dtype itself, as `T.tvm_access_ptr` takes it."""
    plain_dtype(dtype, "T.type_annotation")
    return dtype


@api
def tvm_storage_sync(storage_scope: str) -> None:
    """A barrier: of the block for "shared" and its kin, of the warp for "warp", of the grid for "global".

    Raises:
        ProgramError: The scope is another one.
    """
    what = "T.tvm_storage_sync"
    if storage_scope.startswith("shared"):
        emit_call(what, SYNC_THREADS)
    elif storage_scope == "warp":
        emit_call(what, SYNC_WARP, lane_mask(FULL_MASK))
    elif storage_scope == "global":
        emit_call(what, SYNC_GRID)
    else:
        raise ProgramError(f"{what}: {storage_scope!r:.40} is no scope that threads share", hint="write 'shared'")


@api
def handle_add_byte_offset(handle: ExprLike, offset: ExprLike) -> Expr:
    """The address, as an integer, that lies `offset` bytes behind another."""
    return as_expr(handle) + offset


@api
def isnullptr(x: ExprLike, span: object = None) -> Expr:
    """Whether an address, as an integer, is 0."""
    del span
    return as_expr(x) == 0


@api
def call_intrin(
    dtype: DTypeLike, func_name: str | Op, *args: ExprLike, annotations: object = None, span: object = None
) -> Any:
    """A function of the language by its name, as in `T.call_intrin("float32", "tir.exp", x)`, or one of CUDA's.

    "tl.max_nan" and "tl.min_nan" are `T.max` and `T.min`, in which NaN wins.

    Raises:
        NoLowering: Neither has such a function.
    """
    del annotations, span
    name = str(func_name).rpartition(".")[2]
    if name in _CALLED_BY_NAME:
        return cast(as_expr(_CALLED_BY_NAME[name](*args)), plain_dtype(dtype, "T.call_intrin"))
    if name.startswith("__"):
        return call_extern(dtype, name, *args)
    raise NoLowering(
        f"T.call_intrin: {func_name!r:.60} is no function of the language, nor of CUDA",
        hint="write the operator of the language, or T.call_extern with a function of T.import_source",
    )


@api
def call_pure_extern(*args: object, dtype: object = None, span: object = None) -> Expr | None:
    """The same as `T.call_extern`."""
    del span
    return call_extern(*args, dtype=dtype)


@api
def var(dtype: DTypeLike, name: str = "") -> Var:
    """A new variable, to which `T.let` gives a value."""
    row = plain_dtype(dtype, "T.var")
    return Var(name or "v", row, index=row.is_int)


@api
def func_ret(ret_type: object) -> None:
    """Accept the return type of a function, which is none, for older programs."""


@api
def target(target_config: object, host: object = None) -> object:
    """The target itself; a function is compiled for that of `tilelang.compile`."""
    del host
    return target_config


@api
def arg(name: str, obj: object) -> object:
    """The parameter itself."""
    del name
    return obj


@api
def index_map(mapping: Callable[..., Any], *, inverse_index_map: object = None, index_dtype: str = "int64") -> Any:
    """The index function itself."""
    del inverse_index_map, index_dtype
    return mapping


class IndexMap:
    """A function from indices to indices, as `tvm.tirx.IndexMap`."""

    def __init__(self, mapping: Callable[..., Any]) -> None:
        self._mapping = mapping

    @staticmethod
    def from_func(
        mapping_function: Callable[..., Any],
        ndim: int | None = None,
        inverse_index_map: object = None,
        *,
        index_dtype: object = "int64",
    ) -> IndexMap:
        """The map of a function of as many indices as are given to `map_indices`."""
        del ndim, inverse_index_map, index_dtype
        return IndexMap(mapping_function)

    def map_indices(self, indices: Sequence[Any]) -> list[Any]:
        """What the function makes of indices."""
        mapped = self._mapping(*indices)
        return list(mapped) if isinstance(mapped, tuple | list) else [mapped]


buffer = buffer_decl = decl_buffer
