"""Buffers, their scopes, and regions of them."""

from __future__ import annotations

import enum
import math
from functools import cached_property

from tilelang.dtypes import DType
from tilelang.errors import NOWHERE, Loc
from tilelang.ir.expr import Expr, int_const
from tilelang.records import record


class Scope(enum.Enum):
    """The memory space of a buffer; the value is what `buffer.scope()` returns."""

    GLOBAL = "global"
    SHARED = "shared.dyn"
    FRAGMENT = "local.fragment"
    LOCAL = "local"
    VAR = "local.var"  # a mutable scalar; rank 0
    BARRIER = "shared.barrier"

    @property
    def on_chip(self) -> bool:
        """Whether the buffer belongs to one block."""
        return self is not Scope.GLOBAL


@record(eq=False, repr=False)
class Buffer:
    """A typed, shaped piece of memory; compared by identity.

    Attributes:
        name: Name in the program.
        shape: Extents in elements; on-chip buffers have constant ones.
        dtype: Element dtype.
        scope: Memory space.
        strides: Elements between neighbors, per dimension; None means row-major and dense.
        view_of: The buffer that this one is a view of, by `T.view` or `T.reshape`.
        loc: Where it was declared.
        alignment_bytes: Alignment of a parameter's address on a GPU, checked by the call. A view has that of its
            storage.
        address: Address of a global tensor that is neither a parameter nor a workspace: an integer expression,
            evaluated at its `Alloc`. Shape and strides may then depend on variables of the block.
        sequential: Whether it is per-thread state that is carried from one iteration of a parallel loop to the next
            one of the same thread, in increasing order.
        scope_name: The alias of the scope that the user wrote, such as "shared" for "shared.dyn".
    """

    name: str
    shape: tuple[Expr, ...]
    dtype: DType
    scope: Scope
    strides: tuple[Expr, ...] | None = None
    view_of: Buffer | None = None
    loc: Loc = NOWHERE
    alignment_bytes: int = 16
    address: Expr | None = None
    sequential: bool = False
    scope_name: str = ""

    def __repr__(self) -> str:
        return f"<{self.name}: {self.dtype!s} {self.shape!r} in {self.scope.value}>"

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @cached_property
    def static_shape(self) -> tuple[int, ...] | None:
        """The extents as integers, or None if one of them is symbolic."""
        extents = [int_const(extent) for extent in self.shape]
        return None if None in extents else tuple(e for e in extents if e is not None)

    @property
    def storage(self) -> Buffer:
        """The buffer that owns the bytes: itself unless it is a view."""
        return self if self.view_of is None else self.view_of.storage

    @property
    def expressions(self) -> tuple[Expr, ...]:
        """The expressions that its declaration evaluates, of a tensor at an address."""
        return () if self.address is None else (self.address, *self.shape, *(self.strides or ()))

    @property
    def bytes(self) -> int | None:
        """Bytes of a dense buffer of constant shape, or None."""
        shape = self.static_shape
        return None if shape is None else math.prod(shape) * self.dtype.storage_bytes


@record(eq=False, slots=True)
class Region:
    """A box of a buffer: per dimension where it starts and how far it extends, in elements."""

    buffer: Buffer
    start: tuple[Expr, ...]
    extent: tuple[Expr, ...]

    @property
    def static_extent(self) -> tuple[int, ...] | None:
        """The extents as integers, or None if one of them is symbolic."""
        extents = [int_const(extent) for extent in self.extent]
        return None if None in extents else tuple(e for e in extents if e is not None)

    @property
    def dtype(self) -> DType:
        """The element dtype."""
        return self.buffer.dtype
