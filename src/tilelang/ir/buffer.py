"""Memory that statements name: buffers, the scopes they live in, and regions of them."""

from __future__ import annotations

import enum
import math
from functools import cached_property

from tilelang.dtypes import DType
from tilelang.errors import NOWHERE, Loc
from tilelang.ir.expr import Expr, int_const
from tilelang.records import record


class Scope(enum.Enum):
    """Where a buffer lives. The value is the name that users see from `buffer.scope()`."""

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
        name: The user's name for it.
        shape: Extents in elements; on-chip buffers have constant ones.
        dtype: Element dtype.
        scope: Where it lives.
        strides: Distance of neighbors per dimension, in elements; None means row-major and dense.
        view_of: The buffer whose bytes this one names, for `T.view` and `T.reshape`.
        loc: Where it was declared.
        alignment_bytes: The address of a parameter's first element is a multiple of this on a GPU; the caller checks.
            Of a view, its storage's counts.
        address: Where a global tensor begins that is neither a parameter nor a workspace: an integer expression, whose
            value holds where the `Alloc` of the buffer stands. Its shape and strides may then depend on variables of a
            block, too.
        sequential: Whether it is state that each thread advances for itself: the iterations of a parallel loop that a
            thread executes take turns in increasing order, and what one of them leaves is what the next one finds.
        scope_name: What the user called the scope, if that is another name of it, as "shared" is of "shared.dyn".
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
