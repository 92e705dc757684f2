"""Loop nests over regions, for all lowerings of the CPU.

Invariant: loops run in row-major order, as specified by the tile operators.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilelang.dtypes import INT32, DType
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.builder import Builder, as_body
from tilelang.ir.expr import Expr, Load, Var, as_expr
from tilelang.ir.stmt import Alloc, For, ForKind, Store
from tilelang.lowering.elements import LETTERS, Element
from tilelang.lowering.regions import ZERO, whole


def loop(build: Builder, name: str, extent: Expr, body: Callable[[Var], None]) -> None:
    """`for name in range(extent)`."""
    var = Var(name, INT32, index=True)
    with build.block() as statements:
        body(var)
    build.emit(For(var, ZERO, extent, 1, ForKind.SERIAL, as_body(statements, build.loc)))


def nest(build: Builder, extents: Sequence[Expr], element: Element, letters: str = LETTERS) -> None:
    """Loops over all coordinates of a box, the last one innermost."""
    _nest(build, extents, element, letters, ())


def _nest(build: Builder, extents: Sequence[Expr], element: Element, letters: str, outer: tuple[Var, ...]) -> None:
    depth = len(outer)
    if depth == len(extents):
        element(outer)
    else:
        name = letters[depth % len(letters)]
        loop(build, name, extents[depth], lambda var: _nest(build, extents, element, letters, (*outer, var)))


def variable(build: Builder, name: str, dtype: DType, init: Expr | None = None) -> Buffer:
    """Allocates a mutable scalar."""
    buffer = Buffer(name, (), dtype, Scope.VAR)
    build.emit(Alloc(buffer, init))
    return buffer


def scratch(build: Builder, name: str, extents: Sequence[int], dtype: DType) -> Region:
    """Allocates a buffer of the block; returns it as a region."""
    shape = tuple(as_expr(extent) for extent in extents)
    buffer = Buffer(name, shape, dtype, Scope.LOCAL)
    build.emit(Alloc(buffer))
    return whole(buffer)


def read(buffer: Buffer) -> Load:
    """The value of a mutable scalar."""
    return Load(buffer, (), buffer.dtype)


def assign(build: Builder, buffer: Buffer, value: Expr) -> None:
    """Assigns a mutable scalar."""
    build.emit(Store(buffer, (), value))
