"""Operands of tile operators in all their spellings, brought to regions; and the alignment of two of them.

Takes buffers, regions and element positions, gives `Region`s. Invariant: the regions of one aligned pair have the
same extents once unit extents are dropped, and lie within their buffers where those are on chip and all is constant.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilelang.errors import ProgramError, ProgramValueError
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import Expr, ExprLike, Load, as_expr, int_const
from tilelang.language.extents import match_regions, shape_text, text
from tilelang.language.proxy import TileProxy

_TILES = (Scope.SHARED, Scope.FRAGMENT)

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

    An element position takes its extents from the other side, aligned from the right. Two positions mean the tile that
    begins at one of them, if that is the beginning of a shared or fragment buffer or of one of several in it, and one
    element otherwise. Where the extents of two tiles are only known when the kernel runs, the smaller one counts for
    both.

    Raises:
        ProgramError: The extents differ or nothing tells them, or a region leaves its on-chip buffer.
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
        regions = _between_positions(a, b, what)
    return check_inside(regions[0], what), check_inside(regions[1], what)


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
    raise ProgramError(
        f"{what}: an operand is {operand!r:.60}, not a place in memory",
        hint="pass a buffer, a region A[a:b, c:d] or a position A[i, j]",
    )


def _between_positions(src: Load, dst: Load, what: str) -> tuple[Region, Region]:
    """The tile that begins at one of two positions, or one element."""
    rank = min(len(src.indices), len(dst.indices))
    a, b = _tile_at(src, rank), _tile_at(dst, rank)
    if a is not None and b is not None:
        matched = match_regions(a, b)
        if matched is None:
            tiles = f"a tile {shape_text(a.extent)} and a tile {shape_text(b.extent)}"
            raise _undetermined(src, dst, f"{tiles} begin", what)
        return matched
    if a is not None:
        return a, _extended(dst, a.extent, src.buffer.name, what)
    if b is not None:
        return _extended(src, b.extent, dst.buffer.name, what), b
    if any(_looks_like_a_tile(position) for position in (src, dst)):
        raise _undetermined(src, dst, "nothing tells the extents of a tile that begins", what)
    return single_element(src), single_element(dst)


def _tile_at(position: Load, rank: int) -> Region | None:
    """The tile of the last dimensions of an on-chip buffer, if a position is its beginning."""
    buffer, count = position.buffer, len(position.indices) - rank
    if buffer.scope not in _TILES or any(int_const(index) != 0 for index in position.indices[count:]):
        return None
    return Region(buffer, position.indices, (*(as_expr(1) for _ in range(count)), *buffer.shape[count:]))


def _looks_like_a_tile(position: Load) -> bool:
    """Whether a position in an on-chip buffer stands at the beginning of a row, as those of elements rarely do."""
    buffer = position.buffer
    if buffer.scope not in _TILES or len(position.indices) < 2:
        return False
    return int_const(position.indices[-1]) == 0 and int_const(buffer.shape[-1]) != 1


def _undetermined(src: Load, dst: Load, found: str, what: str) -> ProgramError:
    a, b = (f"{p.buffer.name}[{', '.join(map(text, p.indices))}]" for p in (src, dst))
    tile = src if src.buffer.scope in _TILES else dst
    *leading, rows, _ = map(text, tile.indices)
    region = f"{tile.buffer.name}[{', '.join([*leading, f'{rows}:{rows} + 32', ':'])}]"
    return ProgramError(
        f"{what}: {a} and {b} are positions, and {found} there",
        hint=f"give one side its extents, as in {region}; one element is copied by {b} = {a}",
    )


def _extended(position: Load, shape: Sequence[ExprLike], name: str, what: str) -> Region:
    """The region that begins at a position and has the extents of the other side, which is called `name`."""
    extents = [as_expr(extent) for extent in shape]
    rank = len(position.indices)
    while len(extents) > rank:
        units = [i for i, extent in enumerate(extents) if int_const(extent) == 1]
        if not units:
            raise ProgramError(
                f"{what}: '{position.buffer.name}' has {rank} dimensions, too few for the {shape_text(shape)} of "
                f"'{name}'",
                hint="slice the larger side so that both have the same extents",
            )
        del extents[units[0]]
    units_before = [as_expr(1)] * (rank - len(extents))
    return Region(position.buffer, position.indices, (*units_before, *extents))


def _match(a: TileProxy, b: TileProxy, what: str) -> tuple[Region, Region]:
    matched = match_regions(a.region, b.region)
    if matched is None:
        raise ProgramError(
            f"{what}: '{a.name}' is {shape_text(a.shape)} but '{b.name}' is {shape_text(b.shape)}",
            hint=_mismatch_hint(a, b),
        )
    return matched


def _mismatch_hint(a: TileProxy, b: TileProxy) -> str:
    for tile in (a, b):
        if tile.is_whole and not tile.buffer.scope.on_chip:
            zeros = ", ".join(["0"] * tile.ndim)
            return f"name where the tile begins, as in {tile.name}[{zeros}]: its extents then come from the other side"
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
