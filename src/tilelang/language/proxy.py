"""Proxies of buffers in the user's program: indexing gives elements and regions, assignment emits statements.

Takes Python indices of any kind, gives `Load` expressions, `RegionProxy` objects and `Store`, `Fill` and `Copy`
statements. Invariant: a region's start and extents are integer expressions within an on-chip buffer as far as that
can be seen while staging; a global region may hang over the edge, where it is guarded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn, Union

from tilelang.errors import (
    ProgramError,
    ProgramSliceError,
    ProgramValueError,
    StagingError,
    StagingTypeError,
    UnknownAttribute,
    nearest,
)
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import Expr, ExprLike, Load, as_expr, cast, int_const
from tilelang.ir.stmt import Store
from tilelang.language.address import Pointer, pointer_to
from tilelang.language.api import api
from tilelang.language.dtypes import dtype, user_dtype
from tilelang.language.extents import difference, match_regions, plain, shape_text, text
from tilelang.language.stage import current
from tilelang.language.types import StorageHandle
from tilelang.language.vector_access import load_elements, store_elements, vector_lanes, wrapped
from tilelang.ops.copy import Copy
from tilelang.ops.fill import Fill

Index = object  # an int, an integer expression, a slice, `...`, or a tuple of them
Value = Union[ExprLike, "TileProxy"]

# methods of arrays that tiles do not have: what to write instead, with the name of the tile
_METHODS = {
    **dict.fromkeys(("fill", "fill_"), "write T.fill({0}, value)"),
    **dict.fromkeys(("zero_", "clear"), "write T.clear({0})"),
    **dict.fromkeys(("copy", "clone", "copy_"), "write T.copy({0}, dst), where dst is another tile"),
    **dict.fromkeys(
        ("astype", "to", "cast", "type", "half", "float"),
        "write T.copy({0}, dst), with dst allocated in that dtype; of an element, T.cast({0}[i, j], dtype)",
    ),
    **dict.fromkeys(
        ("T", "mT", "transpose", "permute"),
        "write T.transpose({0}, dst), or T.gemm(..., transpose_A=True) for an operand",
    ),
    **{name: f"write T.reduce_{name}({{0}}, out, dim)" for name in ("sum", "max", "min")},
    "mean": "write T.reduce_sum({0}, out, dim), and divide by the extent in a T.Parallel loop",
    "reshape": "write T.reshape({0}, shape)",
    "view": "write T.view({0}, shape, dtype)",
    **dict.fromkeys(("size", "numel"), "multiply the extents of {0}.shape; len({0}) is the first"),
    **dict.fromkeys(("item", "cpu", "numpy", "tolist"), "a tile has values only when the kernel runs: T.print({0})"),
}


def _letters(count: int) -> str:
    """Names of that many indices: i, j, k."""
    return ", ".join("ijklmn"[d % 6] for d in range(count))


def _index_hint(item: object) -> str:
    """Return the hint about what to write in place of something that is no index."""
    if isinstance(item, tuple):
        return f"name the {len(item)} values apart, as in `for {_letters(len(item))} in ...` or `as (bx, by)`"
    return "an index is an int, an integer expression, a slice or `...`"


class TileProxy:
    """The base of buffers and regions: a box of memory that can be indexed, but is no value by itself.

    Arithmetic works on elements: write it in a loop, `for i in T.Parallel(n): B[i] = A[i] + 1`.
    """

    _region: Region
    _dims: tuple[int, ...]  # the dimensions of the buffer that are dimensions of this tile

    def __init__(self, region: Region, dims: tuple[int, ...]) -> None:
        self._region = region
        self._dims = dims

    # -- facts ------------------------------------------------------------------------------------------------
    @property
    def buffer(self) -> Buffer:
        """The memory underneath."""
        return self._region.buffer

    @property
    def region(self) -> Region:
        """The box of the buffer, in the buffer's own dimensions."""
        return self._region

    @property
    def name(self) -> str:
        """The buffer's name."""
        return self.buffer.name

    @property
    def shape(self) -> tuple[int | Expr, ...]:
        """The extents: Python ints where they are constant, expressions of symbolic dims elsewhere."""
        return tuple(plain(self._region.extent[d]) for d in self._dims)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self._dims)

    @property
    def dtype(self) -> dtype:
        """The element dtype, callable as a cast."""
        return user_dtype(self.buffer.dtype)

    @property
    def strides(self) -> list[int | Expr]:
        """Declared distances of neighbors along each dimension, in elements; empty where the tile's buffer is dense."""
        steps = self.buffer.strides
        return [] if steps is None else [plain(steps[d]) for d in self._dims]

    @property
    def dims(self) -> tuple[int, ...]:
        """Which dimensions of the buffer are dimensions of this tile."""
        return self._dims

    @property
    def is_whole(self) -> bool:
        """Whether this is a buffer, not a part of one."""
        return False

    def scope(self) -> str:
        """Where the buffer lives, as it was allocated: "global", "shared.dyn", "shared", "local.fragment", "local".

        Truth values lie in "shared".
        """
        if self.buffer.scope_name:
            return self.buffer.scope_name
        if self.buffer.scope is Scope.SHARED and self.buffer.dtype.is_bool:
            return "shared"
        return self.buffer.scope.value

    # -- elements and regions -----------------------------------------------------------------------------------
    def __getitem__(self, key: Index) -> Any:  # an Expr for one element, a RegionProxy for several
        places = self._places(key)
        if places is not None:
            return load_elements(self.buffer, places)
        start, extent, dims = self._select(key)
        if dims is None:
            return Load(self.buffer, start, self.buffer.dtype)
        return RegionProxy(Region(self.buffer, start, extent), dims)

    def __setitem__(self, key: Index, value: Value) -> None:
        stager = current(f"assigning to '{self.name}[...]'")
        places = self._places(key)
        if places is not None:
            store_elements(stager, self.buffer, places, as_expr(value))  # type: ignore[arg-type]
            return
        start, extent, dims = self._select(key)
        if dims is None:
            stager.emit(Store(self.buffer, start, self._element(value)))
            return
        target = RegionProxy(Region(self.buffer, start, extent), dims)
        if isinstance(value, TileProxy):
            matched = match_regions(value.region, target.region)
            if matched is None:
                raise ProgramError(
                    f"assignment: '{target.name}' is {shape_text(target.shape)} but '{value.name}' is "
                    f"{shape_text(value.shape)}",
                    hint="slice the larger side, or pass equal extents",
                )
            copy = Copy(*matched)
            copy.check()
            stager.emit(copy)
        elif isinstance(value, Expr) and value.dtype.lanes > self.buffer.dtype.lanes:
            store_elements(stager, self.buffer, self._row(target.region), value)
        else:
            stager.emit(Fill(target.region, self._element(value)))

    def _element(self, value: Value) -> Expr:
        if isinstance(value, TileProxy) and value.ndim:
            raise ProgramError(
                f"an element of '{self.name}' is assigned the whole of '{value.name}' {shape_text(value.shape)}",
                hint=f"index it, as in `{value.name}[...]`, or copy tiles with T.copy",
            )
        expr = as_expr(value)  # type: ignore[arg-type]
        if expr.dtype.lanes != self.buffer.dtype.lanes:
            raise ProgramError(
                f"'{self.name}' holds {self.buffer.dtype!s}, but the value is {expr.dtype!s}: they differ in lanes"
            )
        return current("a store").converted(expr, self.buffer)

    def _places(self, key: Index) -> list[tuple[Expr, ...]] | None:
        """The elements that an index names whose parts are vectors; None if none of them is one."""
        keys = self._spread(key if isinstance(key, tuple) else (key,))
        lanes = vector_lanes(self.name, keys)
        if lanes is None:
            return None
        for lane in lanes:
            for at, dim in enumerate(self._dims):
                one = keys[at]
                if isinstance(one, Expr) and one.dtype.lanes > 1:
                    lane[at] = wrapped(self._integer(lane[at], at), self._region.extent[dim])
        return [self._select(tuple(lane))[0] for lane in lanes]

    def _row(self, region: Region) -> list[tuple[Expr, ...]]:
        """The elements of a region of constant extents, of which only the last is more than 1."""
        *leading, count = [int_const(extent) for extent in region.extent]
        if count is None or any(extent != 1 for extent in leading):
            raise ProgramValueError(
                f"a region of '{self.name}' {shape_text(region.extent)} is assigned a vector",
                hint="give it one row of constant length, as in A[i, j : j + 4]",
            )
        return [(*region.start[:-1], region.start[-1] + lane) for lane in range(count)]

    def _select(self, key: Index) -> tuple[tuple[Expr, ...], tuple[Expr, ...], tuple[int, ...] | None]:
        """Start and extents in the buffer's dimensions, and those left open; None for those of an element."""
        keys = self._spread(key if isinstance(key, tuple) else (key,))
        start, extent = list(self._region.start), list(self._region.extent)
        dims: list[int] = []
        for position, (dim, item) in enumerate(zip(self._dims, keys, strict=True)):
            whole = self._region.extent[dim]
            if isinstance(item, slice):
                first, length = self._slice(item, whole, position)
                dims.append(dim)
            else:
                first, length = self._scalar(item, whole, position), as_expr(1)
            start[dim] = first if int_const(start[dim]) == 0 else start[dim] + first
            extent[dim] = length
        element = not any(isinstance(item, slice) for item in keys)
        return tuple(start), tuple(extent), None if element else tuple(dims)

    def _spread(self, keys: tuple[object, ...]) -> list[object]:
        """One index per dimension: `...` and missing ones become whole slices."""
        dots = sum(1 for k in keys if k is Ellipsis)
        if dots > 1:
            raise ProgramError(f"'{self.name}': an index can hold only one `...`")
        if self.ndim == 0 and len(keys) == 1 and isinstance(keys[0], int) and keys[0] == 0:
            return []  # buf[0] on a scalar buffer
        missing = self.ndim - (len(keys) - dots)
        if missing < 0:
            dimensions = f"{self.ndim} dimension{'s' * (self.ndim != 1)}"
            raise ProgramError(
                f"'{self.name}' has {dimensions} {shape_text(self.shape)} but is given {len(keys) - dots} indices",
                hint=f"write one index or slice for each, as in {self.name}[{_letters(self.ndim)}]",
            )
        at = keys.index(Ellipsis) if dots else len(keys)
        return [*keys[:at], *([slice(None)] * missing), *keys[at + dots :]]

    def _scalar(self, item: object, whole: Expr, position: int) -> Expr:
        index = self._integer(item, position)
        number, extent = int_const(index), int_const(whole)
        if number is None:
            return index
        if extent is None:
            return whole + index if number < 0 else index
        inside = -extent <= number < extent
        hangs = extent == 0 and not self.buffer.scope.on_chip  # an empty tensor: the access is guarded
        if not inside and not hangs:
            raise ProgramError(
                f"index {number} is out of range for dimension {position} of '{self.name}', which has extent {extent}",
                hint=f"valid indices are {-extent} to {extent - 1}" if extent else "",
            )
        return as_expr(number + extent) if number < 0 and extent else index

    def _slice(self, item: slice, whole: Expr, position: int) -> tuple[Expr, Expr]:
        where = f"dimension {position} of '{self.name}'"
        if item.step is not None and int_const(self._integer(item.step, position)) != 1:
            raise ProgramSliceError(
                f"{where}: a slice with a step is not a region", hint="loop over the elements: `A[i * step]`"
            )
        start = as_expr(0) if item.start is None else self._bound(item.start, whole, position)
        stop = whole if item.stop is None else self._bound(item.stop, whole, position)
        length = difference(stop, start)
        extent = (stop if int_const(start) == 0 else stop - start) if length is None else as_expr(length)
        if length is not None and length < 0:
            raise ProgramError(
                f"{where}: the slice {text(start)}:{text(stop)} ends before it starts",
                hint=f"write {text(stop)}:{text(start)}, or start:start + length",
            )
        beyond = difference(stop, whole)
        first = int_const(start)
        if self.buffer.scope.on_chip and (beyond is not None and beyond > 0 or first is not None and first < 0):
            raise ProgramError(
                f"{where}: the slice {text(start)}:{text(stop)} leaves the extent {text(whole)}",
                hint="only regions of global tensors may hang over the edge",
            )
        return start, extent

    def _bound(self, item: object, whole: Expr, position: int) -> Expr:
        bound = self._integer(item, position)
        number = int_const(bound)
        return whole + bound if number is not None and number < 0 else bound

    def _integer(self, item: object, position: int) -> Expr:
        if isinstance(item, TileProxy) and item.ndim:
            raise ProgramError(
                f"index {position} of '{self.name}' is the whole of '{item.name}' {shape_text(item.shape)}",
                hint=f"index it, as in `{item.name}[i]`",
            )
        try:
            expr = as_expr(item)  # type: ignore[arg-type]
        except ProgramError:  # which says more than that
            raise
        except (TypeError, ValueError, StagingError):
            raise ProgramError(
                f"index {position} of '{self.name}' is {item!r:.60}, not an integer", hint=_index_hint(item)
            ) from None
        if expr.dtype.is_float or expr.dtype.lanes != 1:
            raise ProgramError(
                f"index {position} of '{self.name}' is a {expr.dtype!s}, not an integer",
                hint="divide with //, or convert with T.int32(x)",
            )
        return cast(expr, as_expr(0).dtype) if expr.dtype.is_bool else expr

    @api
    def access_ptr(self, access_type: str | int = "r", *extents: ExprLike, offset: ExprLike = 0) -> Pointer:
        """The address of the tile's first element (level 3); `T.access_ptr` says more."""
        del extents
        return pointer_to(self.region, access_type, offset)

    # -- a tile is not a value -----------------------------------------------------------------------------------
    def __tilelang_expr__(self) -> Expr:
        """The only element of a tile without dimensions; anything larger is no scalar."""
        if self.ndim:
            self._no_value("a value")
        return Load(self.buffer, self._region.start, self.buffer.dtype)

    def _no_value(self, use: str) -> NoReturn:
        index = _letters(self.ndim)
        raise StagingTypeError(
            f"'{self.name}' is a tile {shape_text(self.shape)} and cannot be used as {use}",
            hint=f"index it, as in `{self.name}[{index}]`, inside `for {index} in T.Parallel(...)`",
        )

    def _operand(self) -> Expr:
        return self._no_value("an operand of arithmetic") if self.ndim else self.__tilelang_expr__()

    def __add__(self, other: ExprLike) -> Expr:
        return self._operand() + other

    def __radd__(self, other: ExprLike) -> Expr:
        return other + self._operand()

    def __sub__(self, other: ExprLike) -> Expr:
        return self._operand() - other

    def __rsub__(self, other: ExprLike) -> Expr:
        return other - self._operand()

    def __mul__(self, other: ExprLike) -> Expr:
        return self._operand() * other

    def __rmul__(self, other: ExprLike) -> Expr:
        return other * self._operand()

    def __truediv__(self, other: ExprLike) -> Expr:
        return self._operand() / other

    def __rtruediv__(self, other: ExprLike) -> Expr:
        return other / self._operand()

    def __floordiv__(self, other: ExprLike) -> Expr:
        return self._operand() // other

    def __rfloordiv__(self, other: ExprLike) -> Expr:
        return other // self._operand()

    def __mod__(self, other: ExprLike) -> Expr:
        return self._operand() % other

    def __rmod__(self, other: ExprLike) -> Expr:
        return other % self._operand()

    def __neg__(self) -> Expr:
        return -self._operand()

    def __abs__(self) -> Expr:
        return abs(self._operand())

    def __lt__(self, other: ExprLike) -> Expr:
        return self._operand() < other

    def __le__(self, other: ExprLike) -> Expr:
        return self._operand() <= other

    def __gt__(self, other: ExprLike) -> Expr:
        return self._operand() > other

    def __ge__(self, other: ExprLike) -> Expr:
        return self._operand() >= other

    def __matmul__(self, other: object) -> NoReturn:
        raise StagingTypeError(
            f"'{self.name}' is a tile {shape_text(self.shape)} and cannot be used as an operand of @",
            hint="write T.gemm(A, B, C), which adds the product to the tile C; T.clear(C) before the first",
        )

    __rmatmul__ = __matmul__

    def __bool__(self) -> bool:
        self._no_value("a truth value")

    def __iter__(self) -> Iterator[Expr]:
        self._no_value("something to iterate over")

    def __contains__(self, item: object) -> bool:
        self._no_value("a container to search")

    def __len__(self) -> int:
        first = self.shape[0] if self.ndim else None
        if isinstance(first, int):
            return first
        raise StagingError(
            f"'{self.name}' has no length in Python: its shape is {shape_text(self.shape)}",
            hint=f"use {self.name}.shape[0]",
        )

    def __getattr__(self, attribute: str) -> object:
        if attribute.startswith("_"):
            raise AttributeError(attribute)  # protocol probes such as __array__ and __dlpack__
        known = ["shape", "dtype", "ndim", "strides", "scope", "name", "buffer", "region"]
        near = nearest(attribute, known)
        instead = _METHODS.get(attribute, "").format(self.name)
        raise UnknownAttribute(
            f"'{self.name}' is a tile {shape_text(self.shape)} and has no attribute '{attribute}'",
            hint=instead or (f"did you mean '{near}'?" if near else f"it has {', '.join(known)}"),
        )

    def __array__(self, *_: object, **__: object) -> NoReturn:
        raise StagingTypeError(
            f"a function of NumPy is given the tile '{self.name}' {shape_text(self.shape)}",
            hint="write T.exp(x), T.max(x, y) and the like on elements in a T.Parallel loop, and T.reduce_sum(tile, "
            "out, dim) and similar operators for reductions",
        )

    def __array_ufunc__(self, *_: object, **__: object) -> NoReturn:
        self.__array__()


class BufferProxy(TileProxy):
    """A tensor parameter or an allocated buffer, as the kernel's body sees it.

    `A[i, j]` is an element; `A[i]`, `A[a:b, :]` and `A[..., k]` are regions; `A[-1]` counts from the end. Reading an
    element gives an expression; assigning to one emits a store, which converts the value to the buffer's dtype.
    Assigning to a region fills it (a scalar) or copies into it (a tile).

    Two proxies are equal if they name the same buffer.
    """

    def __init__(self, buffer: Buffer) -> None:
        start = tuple(as_expr(0) for _ in buffer.shape)
        super().__init__(Region(buffer, start, buffer.shape), tuple(range(buffer.rank)))

    @property
    def is_whole(self) -> bool:
        """Always true: this is the buffer itself."""
        return True

    @property
    def data(self) -> StorageHandle:
        """The handle of the buffer's storage, by which `T.Tensor(shape, dtype, buf.data)` gives it another name."""
        from tilelang.language.views import BufferStorage  # noqa: PLC0415  it makes proxies

        return BufferStorage(self.buffer)

    def __eq__(self, other: object) -> bool:
        if other is None or isinstance(other, TileProxy):
            return isinstance(other, BufferProxy) and other.buffer is self.buffer
        self._no_value("an operand of a comparison")

    def __hash__(self) -> int:
        return hash(self.buffer)

    def __repr__(self) -> str:
        return f"<{self.name}: {self.buffer.dtype!s} {shape_text(self.buffer.shape)} in {self.scope()}>"


class RegionProxy(TileProxy):
    """A box of a buffer, usable as an operand of tile operators and indexable like a buffer.

    `R = A_s[stage]` selects one of several tiles; `R[i, j]` is then `A_s[stage, i, j]`. Dimensions that were indexed
    by a scalar are gone from `shape`.
    """

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        if other is None or isinstance(other, TileProxy):
            return self is other
        self._no_value("an operand of a comparison")

    def __repr__(self) -> str:
        return f"<region {shape_text(self.shape)} of {self.name}>"
