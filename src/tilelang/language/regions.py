"""Operands of tile operators in all their spellings, converted to regions; and the alignment of two of them.

Takes buffers, regions and element positions, gives `Region`s. Invariant: the regions of one aligned pair have the
same extents once unit extents are dropped, and lie within their buffers where those are on chip and all is constant.
The extents are those of the side in the innermost memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilelang.errors import ARRAY_HINT, ProgramError, ProgramValueError
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import Expr, ExprLike, Load, as_expr, int_const
from tilelang.language.extents import difference, shape_text, text
from tilelang.language.proxy import TileProxy
from tilelang.records import record

Operand = TileProxy | Expr  # a buffer, a region, or an element position such as A[i, j]


def tile_region(operand: Operand, what: str, element: bool = False) -> Region:
    """The region that an operand names by itself; a single element only where `element` allows it.

    Raises:
        ProgramError: The operand is no place in memory, or an element where a tile is needed.
    """
    place = _place(operand, what)
    if isinstance(place, TileProxy):
        return check_inside(place.region, what)
    if not element:
        raise ProgramError(
            f"{what}: '{place.buffer.name}' is given as one element, but a tile is needed",
            hint=f"pass '{place.buffer.name}' itself, or a slice such as {place.buffer.name}[i:i + 32]",
        )
    return single_element(place)


def single_element(position: Load) -> Region:
    """The region of one element."""
    return Region(position.buffer, position.indices, tuple(as_expr(1) for _ in position.indices))


def neighbor(element: Load, distance: int) -> Load:
    """The element that lies `distance` further along the last dimension."""
    *leading, last = element.indices
    return Load(element.buffer, (*leading, last + distance), element.dtype)


def tile_dim(operand: Operand, dim: object, what: str) -> int:
    """A dimension of a tile, counted as the user sees it and from the end if negative, in the buffer's own count.

    Raises:
        ProgramValueError: The tile has no such dimension.
    """
    place = _place(operand, what)
    if isinstance(dim, bool) or not isinstance(dim, int):
        raise ProgramValueError(f"{what}: dim is {dim!r:.40}, not an int")
    if isinstance(place, Load):
        return 0
    if not -place.ndim <= dim < place.ndim:
        raise ProgramValueError(
            f"{what}: '{place.name}' is {shape_text(place.shape)} and has no dimension {dim}",
            hint=f"dim is one of {', '.join(map(str, range(-place.ndim, place.ndim)))}" if place.ndim else "",
        )
    return place.dims[dim]


def align(src: Operand, dst: Operand, what: str) -> tuple[Region, Region]:
    """Source and destination with equal extents.

    An element position takes its extents from the other side, aligned from the right. The extents of two tiles that are
    not 1 are paired in order; those of the side in the innermost memory count for both, of the source if both sides are
    in one. Two positions are one element.

    Raises:
        ProgramValueError: The extents do not fit, or elements of the source would be left out.
        ProgramError: A region leaves its on-chip buffer.
    """
    a, b = _place(src, what), _place(dst, what)
    if isinstance(a, TileProxy) and isinstance(b, TileProxy):
        regions = _match(a, b, what)
    elif isinstance(a, TileProxy):
        assert isinstance(b, Load)
        regions = a.region, _extended(b, a.shape, a.name, what)
    elif isinstance(b, TileProxy):
        regions = _extended(a, b.shape, b.name, what), b.region
    else:
        regions = single_element(a), single_element(b)
    return check_inside(regions[0], what), check_inside(regions[1], what)


@record(slots=True)
class Repeated:
    """A source whose elements go to more than one place of a destination.

    Attributes:
        src: What is read.
        dst: What is written.
        axes: For each dimension of the source's buffer the one of the destination's that it runs along; None where its
            extent is 1.
    """

    src: Region
    dst: Region
    axes: tuple[int | None, ...]


def repeated(src: Operand, dst: Operand) -> Repeated | None:
    """Return how a tile is repeated along dimensions of the destination, where its own extent is 1; None if it is not.

    The extents are aligned from the right, and agree wherever that of the source is not 1.
    """
    if not (isinstance(src, TileProxy) and isinstance(dst, TileProxy)):
        return None
    a, b = src.region, dst.region
    if len(_long(a)) >= len(_long(b)):
        return None
    shift = len(b.extent) - len(a.extent)
    axes: list[int | None] = []
    for axis, extent in enumerate(a.extent):
        if int_const(extent) == 1:
            axes.append(None)
        elif axis + shift < 0 or difference(extent, b.extent[axis + shift]) != 0:
            return None
        else:
            axes.append(axis + shift)
    return Repeated(a, b, tuple(axes))


def check_inside(region: Region, what: str) -> Region:
    """The region itself, if it does not leave its on-chip buffer as far as that can be seen.

    Raises:
        ProgramError: It does.
    """
    buffer = region.buffer
    if not buffer.scope.on_chip:
        return region
    for dim, (start, extent, whole) in enumerate(zip(region.start, region.extent, buffer.shape, strict=True)):
        first, length, limit = int_const(start), int_const(extent), int_const(whole)
        if length is None or limit is None:
            continue
        if length > limit or first is not None and length > 0 and first + length > limit:
            raise ProgramError(
                f"{what}: the region {text(start)}:{text(start + extent)} leaves dimension {dim} of "
                f"'{buffer.name}', which has extent {limit}",
                hint="only regions of global tensors may hang over the edge",
            )
    return region


def as_buffer(operand: object, what: str) -> Buffer:
    """The buffer of an operand that must be a whole buffer.

    Raises:
        ProgramError: It is a region, an element or something else.
    """
    if isinstance(operand, TileProxy) and operand.is_whole:
        return operand.buffer
    name = operand.name if isinstance(operand, TileProxy) else f"{operand!r:.40}"
    if isinstance(operand, Load):
        name = operand.buffer.name
    raise ProgramError(f"{what}: needs a whole buffer, not a part of it or a value: '{name}'")


def _place(operand: object, what: str) -> TileProxy | Load:
    if isinstance(operand, TileProxy | Load):
        return operand
    if isinstance(operand, Expr):
        raise ProgramError(
            f"{what}: an operand is a value, not a place in memory",
            hint="pass a buffer, a region A[a:b, c:d] or a position A[i, j] in the call itself",
        )
    shown, instead = f"{operand!r:.60}", "pass a buffer, a region A[a:b, c:d] or a position A[i, j]"
    if operand is None:
        instead = "tile operators write into an argument and return nothing: T.gemm(A, B, C), and then C"
    elif hasattr(operand, "shape") and hasattr(operand, "dtype"):  # of NumPy or torch
        shown, instead = f"an array of shape {shape_text(operand.shape)}", ARRAY_HINT
    raise ProgramError(f"{what}: an operand is {shown}, not a place in memory", hint=instead)


def _extended(position: Load, shape: Sequence[ExprLike], name: str, what: str) -> Region:
    """The region that begins at a position and has the extents of the other side, which is called `name`."""
    extents = [as_expr(extent) for extent in shape]
    rank = len(position.indices)
    while len(extents) > rank:
        units = [i for i, extent in enumerate(extents) if int_const(extent) == 1]
        if not units:
            raise ProgramValueError(
                f"{what}: '{position.buffer.name}' has {rank} dimensions, too few for the {shape_text(shape)} of "
                f"'{name}'",
                hint="slice the larger side so that both have the same extents",
            )
        del extents[units[0]]
    units_before = [as_expr(1)] * (rank - len(extents))
    return Region(position.buffer, position.indices, (*units_before, *extents))


def _match(a: TileProxy, b: TileProxy, what: str) -> tuple[Region, Region]:
    ours, theirs = _long(a.region), _long(b.region)
    by_source = _distance(a.buffer.scope) <= _distance(b.buffer.scope)
    if len(ours) != len(theirs):
        raise _mismatch(a, b, what)
    source, target = list(a.region.extent), list(b.region.extent)
    for i, j in zip(ours, theirs, strict=True):
        gap = difference(source[i], target[j])
        if gap and (a.is_whole and b.is_whole or not by_source and gap > 0):
            raise _mismatch(a, b, what)
        if by_source:
            target[j] = source[i]
        else:
            source[i] = target[j]
    return Region(a.buffer, a.region.start, tuple(source)), Region(b.buffer, b.region.start, tuple(target))


def _long(region: Region) -> list[int]:
    """The dimensions of a region that are not the constant 1."""
    return [axis for axis, extent in enumerate(region.extent) if int_const(extent) != 1]


def _distance(scope: Scope) -> int:
    """Return how far a memory is from the threads."""
    return 2 if scope is Scope.GLOBAL else 1 if scope is Scope.SHARED else 0


def _mismatch(a: TileProxy, b: TileProxy, what: str) -> ProgramValueError:
    return ProgramValueError(
        f"{what}: '{a.name}' is {shape_text(a.shape)} but '{b.name}' is {shape_text(b.shape)}",
        hint=_mismatch_hint(a, b),
    )


def _mismatch_hint(a: TileProxy, b: TileProxy) -> str:
    for tile in (a, b):
        if tile.is_whole and not tile.buffer.scope.on_chip:
            zeros = ", ".join(["0"] * tile.ndim)
            return f"name where the tile begins, as in {tile.name}[{zeros}]: its extents then come from the other side"
    sizes = [[int_const(as_expr(extent)) for extent in tile.shape] for tile in (a, b)]
    for large, (ours, theirs) in ((a, sizes), (b, sizes[::-1])):
        both = list(zip(ours, theirs, strict=False))
        if len(ours) == len(theirs) and all(x is not None and y is not None and x >= y for x, y in both):
            part = ", ".join(f"0:{y}" for _, y in both)
            return f"slice the larger side, as in {large.name}[{part}], or pass equal extents"
    return "slice the larger side, or pass equal extents"


def scalar_operand(value: object, what: str, role: str) -> ExprLike:
    """A number or an expression that is to be used as a value.

    Raises:
        ProgramError: It is a tile or no number at all.
    """
    if isinstance(value, TileProxy) and value.ndim:
        raise ProgramError(
            f"{what}: {role} is the tile '{value.name}' {shape_text(value.shape)}, not a scalar",
            hint=f"index it, as in {value.name}[...]",
        )
    if isinstance(value, str) or value is None:
        raise ProgramError(f"{what}: {role} is {value!r:.40}, not a number")
    return as_expr(value)  # type: ignore[arg-type]
