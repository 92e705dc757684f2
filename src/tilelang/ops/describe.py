"""Checks that tile operators share, and operands as text in their messages.

Invariant: only two constant extents can disagree at compile time; symbolic ones are compared when the kernel runs.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilelang.errors import ProgramError, ProgramValueError
from tilelang.ir.buffer import Region, Scope
from tilelang.ir.expr import Expr, int_const
from tilelang.ir.printer import to_text


def extent_text(expr: Expr) -> str:
    """An extent or index in the syntax of the language."""
    value = int_const(expr)
    return to_text(expr) if value is None else str(value)


def shape_text(extents: Sequence[Expr]) -> str:
    """Extents as a Python tuple."""
    inner = ", ".join(extent_text(extent) for extent in extents)
    return f"({inner},)" if len(extents) == 1 else f"({inner})"


def operand_text(region: Region) -> str:
    """An operand with its extents: `'A_s' is (64, 32)`."""
    return f"'{region.buffer.name}' is {shape_text(region.extent)}"


def drop_units(extents: Sequence[Expr]) -> tuple[Expr, ...]:
    """The extents that are not the constant 1."""
    return tuple(extent for extent in extents if int_const(extent) != 1)


def matrix_axes(region: Region) -> tuple[int, ...]:
    """The dimensions of a region as a matrix: unit dimensions beyond two are dropped, leading ones first."""
    axes = list(range(len(region.extent)))
    for axis in tuple(axes):
        if len(axes) > 2 and int_const(region.extent[axis]) == 1:
            axes.remove(axis)
    return tuple(axes)


def may_equal(a: Expr, b: Expr) -> bool:
    """Whether two extents may be equal: unless both are constant and differ."""
    x, y = int_const(a), int_const(b)
    return x is None or y is None or x == y


def same_extents(a: Sequence[Expr], b: Sequence[Expr]) -> bool:
    """Whether two lists of extents may be equal."""
    return len(a) == len(b) and all(may_equal(x, y) for x, y in zip(a, b, strict=True))


def check_extents(name: str, src: Region, dst: Region) -> None:
    """Checks that two regions have equal extents, without unit extents.

    Raises:
        ProgramValueError: They differ.
    """
    if not same_extents(drop_units(src.extent), drop_units(dst.extent)):
        raise ProgramValueError(
            f"{name}: {operand_text(src)} but {operand_text(dst)}",
            hint="slice the larger side, or allocate both with equal extents",
        )


def check_memory(name: str, *regions: Region) -> None:
    """Checks that no operand is a barrier.

    Raises:
        ProgramError: One is.
    """
    for region in regions:
        if region.buffer.scope is Scope.BARRIER:
            raise ProgramError(
                f"{name}: '{region.buffer.name}' is a barrier and holds no data",
                hint="pass a tensor, or a buffer of T.alloc_shared, T.alloc_fragment or T.alloc_local",
            )


def check_lanes(name: str, src: Region, dst: Region) -> None:
    """Checks that the dtypes of both sides have the same number of lanes.

    Raises:
        ProgramError: They differ.
    """
    if src.dtype.lanes != dst.dtype.lanes:
        raise ProgramError(
            f"{name}: '{src.buffer.name}' holds {src.dtype!s} but '{dst.buffer.name}' holds {dst.dtype!s}",
            hint="give both sides a dtype with the same number of lanes, or reinterpret one with T.view",
        )


def check_scalars(name: str, *regions: Region) -> None:
    """Checks that no operand has a vector dtype.

    Raises:
        ProgramError: One has.
    """
    for region in regions:
        if region.dtype.lanes > 1:
            raise ProgramError(
                f"{name}: '{region.buffer.name}' holds {region.dtype!s}, and vector dtypes have no arithmetic",
                hint="view its lanes as elements with T.view",
            )


def check_dim(name: str, region: Region, dim: int) -> None:
    """Checks that `dim` is a dimension of a region, counted from 0.

    Raises:
        ProgramValueError: It is not.
    """
    rank = len(region.extent)
    if not 0 <= dim < rank:
        known = ", ".join(map(str, range(-rank, rank)))
        raise ProgramValueError(
            f"{name}: {operand_text(region)} and has no dimension {dim}",
            hint=f"dim is one of {known}" if rank else "pass a tile, not a scalar",
        )


def check_reduced_extents(name: str, src: Region, dst: Region, dim: int) -> None:
    """Checks that `dst` has the extents of `src` without dimension `dim`.

    Raises:
        ProgramValueError: It has others.
    """
    reduced = src.extent[:dim] + src.extent[dim + 1 :]
    if not same_extents(drop_units(reduced), drop_units(dst.extent)):
        raise ProgramValueError(
            f"{name}: {operand_text(src)} and is reduced along dimension {dim}, but {operand_text(dst)}",
            hint=f"give '{dst.buffer.name}' the shape {shape_text(reduced) if reduced else '(1,)'}",
        )
