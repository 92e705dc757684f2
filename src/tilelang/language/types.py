"""Annotations of parameters: tensors and pointers, and the symbolic dimensions of their shapes.

Takes names, shapes and dtypes in any spelling; gives `TensorType`, `PointerType` and variables. Invariant: everything
here also works outside of a kernel, where signatures are written.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from tilelang.dtypes import INT64, DType, as_dtype
from tilelang.errors import OptionError, ProgramError, ProgramTypeError, ProgramValueError, StagingError
from tilelang.ir.expr import Expr, ExprLike, as_expr, int_const
from tilelang.ir.expr import Var as Variable
from tilelang.language.api import api
from tilelang.language.deprecation import warn_deprecated
from tilelang.language.dtypes import AnyDType
from tilelang.language.extents import folded, shape_text, text
from tilelang.records import record

if TYPE_CHECKING:
    from tilelang.language.proxy import BufferProxy

__all__ = [
    "Buffer",
    "Ptr",
    "StridedTensor",
    "Tensor",
    "dyn",
    "dynamic",
    "ptr",
    "symbolic",
]

DTypeLike = AnyDType
ShapeLike = ExprLike | Sequence[ExprLike]


def plain_dtype(value: DTypeLike, what: str) -> DType:
    """The `DType` of a dtype in any spelling; an error names the construct `what` that needs it.

    `T.ptr` as a dtype means addresses, which are 64-bit integers.
    """
    if value is PointerType or isinstance(value, PointerType):
        return INT64
    try:
        return as_dtype(str(as_dtype(value)))
    except OptionError as error:
        raise OptionError(f"{what}: {error.message}", hint=error.hint) from None


def is_dtype_like(value: object) -> bool:
    """Whether a value may be a dtype: a text, or a dtype object or type of some library."""
    if isinstance(value, str | np.dtype | PointerType) or isinstance(value, type):
        return True
    return type(value).__module__ == "torch" and type(value).__name__ == "dtype"


def is_dtype_name(text: str) -> bool:
    """Whether a text is the name of a dtype."""
    try:
        as_dtype(text)
    except OptionError:
        return False
    return True


# -- annotations ---------------------------------------------------------------------------------------------
@record(eq=False)
class TensorType:
    """The annotation of a tensor parameter: `A: T.Tensor((M, K), T.float16)`.

    `T.Tensor` and `T.Buffer` are the same thing; `T.Tensor[(M, K), T.float16]` is another spelling. The tensor is
    dense and row-major unless `strides` says otherwise (`T.StridedTensor`).

    Shapes: a tuple or list of ints, symbolic dims (`T.dyn['K']`, `T.dynamic('K')`) and expressions of them; a bare
    int or dim means rank 1; `()` means a scalar in memory.

    Raises:
        ProgramError: An extent is negative or no integer.
        OptionError: The dtype is unknown.
    """

    shape: tuple[Expr, ...]
    dtype: DType
    strides: tuple[Expr, ...] | None
    scope: str

    def __new__(cls, *args: Any, **keywords: Any) -> Any:
        """The annotation; with `data`, a view of a buffer."""
        data = args[2] if len(args) > 2 else keywords.get("data")
        return super().__new__(cls) if data is None else _view_of_storage(*args, **keywords)

    @api
    def __init__(
        self,
        shape: ShapeLike,
        dtype: DTypeLike = "float32",
        data: StorageHandle | None = None,
        scope: str | None = None,
        *,
        strides: ShapeLike | None = None,
    ) -> None:
        del data  # `__new__` has returned the view
        what = "T.Tensor" if strides is None else "T.StridedTensor"
        extents = as_shape(shape, what)
        steps = None if strides is None else as_shape(strides, what, word="stride")
        if steps is not None and len(steps) != len(extents):
            raise ProgramValueError(f"{what}: {len(extents)} extents {shape_text(extents)} but {len(steps)} strides")
        object.__setattr__(self, "shape", extents)
        object.__setattr__(self, "dtype", plain_dtype(dtype, what))
        object.__setattr__(self, "strides", steps)
        object.__setattr__(self, "scope", scope or "global")

    def __class_getitem__(cls, item: Any) -> Any:
        """`T.Tensor[8, 16]` has these extents; where an item is a shape or a dtype, they are the call's arguments."""
        items = item if isinstance(item, tuple) else (item,)
        if any(isinstance(part, tuple | list) or is_dtype_like(part) for part in items):
            return cls(*items)
        return cls(items)

    @staticmethod
    def from_ptr(
        ptr: ExprLike | StorageHandle, shape: ShapeLike, dtype: DTypeLike = "float32", strides: ShapeLike | None = None
    ) -> BufferProxy:
        """The same as `T.make_tensor`."""
        from tilelang.language.tensors import make_tensor  # noqa: PLC0415  it needs what stands for buffers

        return make_tensor(ptr, shape, dtype, strides)

    def __repr__(self) -> str:
        return f"T.Tensor({shape_text(self.shape)}, {str(self.dtype)!r})"


@api
def _view_of_storage(
    shape: ShapeLike,
    dtype: DTypeLike = "float32",
    data: object = None,
    scope: str | None = None,
    *,
    strides: ShapeLike | None = None,
) -> BufferProxy:
    del scope  # it is that of the storage
    return storage_of(data, "T.Tensor").tensor(shape, dtype, strides)


Tensor = TensorType


class StridedTensor:
    """The annotation of a tensor that is not dense: strides are in elements, ints, symbolic, or expressions.

    Symbolic strides are bound at a call as dims are. `T.StridedTensor[[M, N], [ld, 1], T.float16]` is another spelling.

    Shapes: as many strides as extents.

    Raises:
        ProgramValueError: The numbers of extents and strides differ.
        ProgramError: An extent or a stride is no integer.

    Example:
        `A: T.StridedTensor((M, N), (T.dyn['ld'], 1), T.float16)`
    """

    @api
    def __new__(
        cls,
        shape: ShapeLike,
        strides: ShapeLike,
        dtype: DTypeLike = "float32",
        scope: str | None = None,
        *,
        data: StorageHandle | None = None,
    ) -> Any:
        """The annotation, a `T.Tensor` with strides."""
        return TensorType(shape, dtype, data, scope, strides=strides)

    def __class_getitem__(cls, item: Any) -> Any:
        arguments: tuple[Any, ...] = item if isinstance(item, tuple) else (item,)
        return cls(*arguments)


class Buffer:
    """The deprecated name of `T.Tensor`, with the arguments of older programs.

    Args:
        shape: The extents.
        dtype: The element dtype.
        data: As for `T.Tensor`.
        strides: In elements; row-major and dense without them.
        elem_offset: None or 0.
        scope: As for `T.Tensor`.
        align: Accepted for older programs, as are the arguments after it.

    Raises:
        ProgramValueError: `elem_offset` is another one.
    """

    @api
    def __new__(
        cls,
        shape: ShapeLike,
        dtype: DTypeLike = "float32",
        data: Any = None,
        strides: ShapeLike | None = None,
        elem_offset: ExprLike | None = None,
        scope: str | None = None,
        align: int = 0,
        offset_factor: int = 0,
        buffer_type: str = "",
        axis_separators: Any = None,
    ) -> Any:
        """The annotation, a `T.Tensor`."""
        del align, offset_factor, buffer_type, axis_separators
        warn_deprecated("T.Buffer", "write T.Tensor")
        if elem_offset is not None and int_const(as_expr(elem_offset)) != 0:
            raise ProgramValueError(
                f"T.Buffer: a tensor begins at its first element, not at elem_offset={elem_offset!r:.40}",
                hint="pass the part of the tensor that begins there",
            )
        return TensorType(shape, dtype, data, scope or None, strides=strides)

    def __class_getitem__(cls, item: Any) -> Any:
        warn_deprecated("T.Buffer", "write T.Tensor")
        return TensorType.__class_getitem__(item)


class StorageHandle(abc.ABC):
    """The storage of a buffer, `buf.data`, of which `T.Tensor(shape, dtype, buf.data)` is a view."""

    @abc.abstractmethod
    def tensor(self, shape: ShapeLike, dtype: DTypeLike, strides: ShapeLike | None = None) -> BufferProxy:
        """The same bytes from their start under another shape and dtype."""


def storage_of(data: object, what: str) -> StorageHandle:
    """The storage that was passed as `data=`.

    Raises:
        ProgramTypeError: It is no storage.
    """
    if isinstance(data, StorageHandle):
        return data
    raise ProgramTypeError(
        f"{what}: data is {data!r:.60}, not the storage of a buffer", hint="write data=buf.data"
    )


@record
class PointerType:
    """The annotation of a pointer parameter: `p: T.ptr`, or called, `p: T.ptr(T.float32)`.

    A call passes a tensor, whose address it is, or an address as a Python int. `T.make_tensor(p, shape, dtype)` is the
    tensor that lies there. As the dtype of a tensor or variable it is int64: `T.Tensor([n], T.ptr)` is a table of
    addresses.
    """

    dtype: DType | None

    @api
    def __init__(self, dtype: DTypeLike | None = None, storage_scope: str = "global") -> None:
        if storage_scope != "global":
            raise ProgramValueError(
                f"T.ptr: a parameter points to global memory, not to {storage_scope!r}", hint="leave storage_scope out"
            )
        object.__setattr__(self, "dtype", None if dtype is None else plain_dtype(dtype, "T.ptr"))


ptr = PointerType
Ptr = PointerType


def as_shape(shape: ShapeLike, what: str, word: str = "extent") -> tuple[Expr, ...]:
    """A shape in any spelling as a tuple of integer expressions.

    Raises:
        ProgramError: An extent is negative, a float or otherwise no integer; the message starts with `what`.
    """
    if isinstance(shape, Sequence) and not isinstance(shape, str):  # type: ignore[unreachable]
        return tuple(_extent(item, what, word) for item in shape)
    return (_extent(shape, what, word),)


def _instead_of(value: str | None, what: str) -> str:
    """Return the hint about what to write where a text is given for an extent."""
    if value is None:
        return "write an int, T.dyn['K'] or T.dynamic('K')"
    if is_dtype_name(value):
        return f"the shape comes first: {what}((M, N), {value!r})"
    if value.isidentifier():
        return f"write an int, or T.dyn[{value!r}] for a size that is known at the call"
    return f"write an int: {value}" if value.isdecimal() else "write an int, T.dyn['K'] or T.dynamic('K')"


def _extent(value: ExprLike, what: str, word: str) -> Expr:
    if isinstance(value, str) or value is None:
        raise ProgramTypeError(f"{what}: {value!r} is not an {word}", hint=_instead_of(value, what))
    try:
        expr = as_expr(value)
    except (TypeError, StagingError):
        hint = "write an int or a symbolic dim"
        raise ProgramTypeError(f"{what}: {value!r:.60} is not an {word}", hint=hint) from None
    if not expr.dtype.is_int or expr.dtype.lanes != 1:
        raise ProgramTypeError(
            f"{what}: {word} {text(expr)} is a {expr.dtype!s}, not an integer", hint="divide with //, not with /"
        )
    expr = folded(expr)
    number = int_const(expr)
    if number is not None and number < 0:
        raise ProgramError(f"{what}: {word} {number} is negative")
    return expr


# -- symbolic dims -------------------------------------------------------------------------------------------
@cache
def _dim(name: str, dtype_name: str) -> Variable:
    return Variable(name, as_dtype(dtype_name), index=True)


@api
def dynamic(name: str, dtype: DTypeLike = "int32") -> Any:  # a Var for one name, else a tuple of them
    """A symbolic dimension, usable in annotations and in kernel bodies; several at once as `T.dynamic("M, N")`.

    A dim is bound from the shape of the argument at the call; arguments that disagree are an error. One name is one
    dimension: asking for it again gives the same variable.

    Raises:
        ProgramError: The name is no identifier or the dtype no integer.
    """
    plain = plain_dtype(dtype, "T.dynamic")
    if not plain.is_int:
        raise ProgramError(f"T.dynamic: a dimension has an integer dtype, not {plain!s}")
    names = [part.strip() for part in str(name).split(",")]
    for part in names:
        if not part.isidentifier():
            raise ProgramError(f"T.dynamic: {part!r} is not a name", hint="write T.dynamic('K')")
    dims = tuple(_dim(part, str(plain)) for part in names)
    return dims[0] if len(dims) == 1 else dims


@api
def symbolic(name: str, dtype: DTypeLike = "int32") -> Any:
    """The deprecated name of `T.dynamic`."""
    warn_deprecated("T.symbolic", "write T.dynamic")
    return dynamic(name, dtype)


class _Dyn:
    """`T.dyn['K']`: a symbolic dimension for annotations, the same one wherever the name is the same."""

    @api
    def __getitem__(self, name: str) -> Any:
        return dynamic(name)

    @api
    def __call__(self, name: str, dtype: DTypeLike = "int32") -> Any:
        return dynamic(name, dtype)


dyn = _Dyn()
"""Makes symbolic dimensions: `T.dyn['K']`, or `T.dyn('K', 'int64')`."""
