"""`Layout`: where each coordinate of a tile lies in memory.

Takes a shape and an index function, gives a map that applies to ints, NumPy arrays and expressions with the same code.
Invariant: a layout never changes. It need not be injective; whoever gives memory a layout checks that it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from tilelang.api import public
from tilelang.errors import ProgramError, ProgramTypeError, ProgramValueError, TileLangError
from tilelang.layout.collisions import first_collision
from tilelang.layout.digits import NotDigitMap
from tilelang.layout.fit import fit
from tilelang.layout.symbols import symbols

Coordinate = Any  # an int, a NumPy array or an expression of the IR: whatever has integer arithmetic
IndexFunction = Callable[..., Any]

MANY = 1 << 22
"""Coordinates beyond which a layout is not looked at one coordinate at a time."""


@public
class Layout:
    """A map from the coordinates of a tile to offsets or coordinates in memory.

    Args:
        shape: The tile's extents: ints, or expressions where a size is only known at the launch.
        forward_fn: Takes one argument per dimension and gives an int expression, or a tuple of them, built with
            `+ - * // %` and `^ & << >>`.

    Raises:
        ProgramTypeError: `forward_fn` is no function, or does not take as many arguments as there are dimensions.
        ProgramError: It gives something other than integers, or an extent is negative or no integer.

    Example:
        `T.Layout((8, 8), lambda i, j: (i, j ^ i))`
    """

    def __init__(self, shape: Sequence[Any] | int, forward_fn: IndexFunction) -> None:
        if not callable(forward_fn):
            raise ProgramTypeError(
                f"T.Layout: the index function is {forward_fn!r:.40}",
                hint="write a lambda, as in T.Layout((8, 8), lambda i, j: i * 8 + j)",
            )
        self.shape: tuple[Any, ...] = checked_extents("T.Layout", shape)
        self.forward = forward_fn
        _check_integers("T.Layout", _outputs(self._called((0,) * len(self.shape))))

    def __call__(self, *coordinates: Coordinate) -> tuple[Coordinate, ...]:
        """Where a coordinate lies, as a tuple.

        Raises:
            ProgramError: The number of coordinates differs from the rank.
        """
        if len(coordinates) != len(self.shape):
            raise ProgramError(f"T.Layout: has {len(self.shape)} dimensions, given {len(coordinates)} coordinates")
        return _outputs(self.forward(*coordinates))

    def map_forward_index(self, indices: Sequence[Coordinate]) -> tuple[Coordinate, ...]:
        """Where the coordinate lies whose indices these are, as a tuple."""
        return self(*indices)

    @property
    def is_small(self) -> bool:
        """Whether the shape is constant and all coordinates can be looked at."""
        return all(isinstance(extent, int) for extent in self.shape) and math.prod(self.shape) <= MANY

    @cached_property
    def table(self) -> np.ndarray:
        """Where every coordinate lies; the shape is constant.

        Shapes: (*shape, number of outputs).
        """
        grid = np.indices(self.shape, dtype=np.int64) if self.shape else np.zeros((0,), np.int64)
        try:
            places = self(*grid)
            table = np.stack([np.broadcast_to(np.asarray(number(p)), self.shape) for p in places], axis=-1)
        except Exception:  # the function decides with Python's `if`, or calls `T.` functions: ask it one by one
            table = self._table_one_by_one()
        if table.dtype.kind not in "iu":
            raise ProgramError("T.Layout: the index function gives no integers", hint="divide with //, not with /")
        return table.astype(np.int64)

    @cached_property
    def output_shape(self) -> tuple[Any, ...]:
        """The smallest box from 0 on that holds all places; for symbolic shapes, and very large ones, by bounds."""
        if not self.is_small:
            variables, simplifier = self._variables, symbols()
            ends = [simplifier.largest(place, variables, self.shape) + 1 for place in self(*variables)]
            return tuple(simplifier.simplified(end, (), ()) for end in ends)
        if not self.table.size:
            return (0,) * int(self.table.shape[-1])
        return tuple(int(n) + 1 for n in self.table.reshape(-1, self.table.shape[-1]).max(axis=0))

    def get_input_shape(self) -> tuple[Any, ...]:
        """The extents of the tile."""
        return self.shape

    def get_output_shape(self) -> tuple[Any, ...]:
        """The smallest box from 0 on that holds all places."""
        return self.output_shape

    def get_forward_vars(self) -> tuple[Any, ...]:
        """The variables of `get_forward_index`, one per dimension."""
        return self._variables

    @cached_property
    def _variables(self) -> tuple[Any, ...]:
        rank = len(self.shape)
        return symbols().variables([f"_{chr(ord('i') + k)}" if rank < 18 else f"_i{k}" for k in range(rank)])

    def get_forward_index(self) -> tuple[Any, ...]:
        """Where the coordinate lies that the variables of `get_forward_vars` name, as expressions."""
        simplifier, variables = symbols(), self._variables
        return tuple(simplifier.simplified(place, variables, self.shape) for place in self(*variables))

    @property
    def index(self) -> tuple[Any, ...]:
        """The same as `get_forward_index`."""
        return self.get_forward_index()

    def get_linearized_forward_index(self) -> Any:
        """The offset in elements of that coordinate, in the row-major order of the output's box."""
        offset = linearized(self.get_forward_index(), self.output_shape)
        return symbols().simplified(offset, self._variables, self.shape)

    def is_equal(self, other: Layout) -> bool:
        """Whether both have the same shape and lead every coordinate to the same place."""
        return self == other

    def expand(self, leading: int | Sequence[int]) -> Layout:
        """The layout of a tile with further leading dimensions, which are passed through.

        Shapes: (..., i, j) -> (..., *L(i, j)).

        Raises:
            ProgramValueError: An extent is below 1.
            ProgramTypeError: `leading` is neither an int nor a sequence of ints.
        """
        extents = leading_extents(leading)
        if not extents:
            return self
        count = len(extents)
        return Layout((*extents, *self.shape), lambda *at: (*at[:count], *self(*at[count:])))

    def repeat(self, dim: int, factor: int) -> Layout:
        """The layout of `factor` tiles side by side along a dimension; the first output is the tile's number.

        Shapes: along dim 0, (i, j) -> (i // e, *L(i % e, j)).

        Raises:
            ProgramValueError: The factor is below 1, or there is no such dimension.
            ProgramTypeError: An argument is no int.
        """
        rank = len(self.shape)
        for name, value in (("dim", dim), ("factor", factor)):
            if isinstance(value, bool) or not isinstance(value, int | np.integer):
                raise ProgramTypeError(f"Layout.repeat: {name} is {value!r:.40}, not an int")
        if not -rank <= dim < rank:
            raise ProgramValueError(f"Layout.repeat: there is no dimension {dim} of {rank}")
        if factor < 1:
            raise ProgramValueError(f"Layout.repeat: factor is {factor}, below 1")
        if factor == 1:
            return self
        axis = dim % rank
        extent = self.shape[axis]
        shape = (*self.shape[:axis], extent * int(factor), *self.shape[axis + 1 :])

        def place(*at: Coordinate) -> tuple[Coordinate, ...]:
            return (at[axis] // extent, *self(*at[:axis], at[axis] % extent, *at[axis + 1 :]))

        return Layout(shape, place)

    def reshape(self, shape: Sequence[Any], rescale_num: int = 1, rescale_den: int = 1) -> Layout:
        """The layout of the same bytes under another shape, both row-major before they are laid out.

        Args:
            shape: The new extents; `rescale_num / rescale_den` times as many elements as before.
            rescale_num: Bits of an element before, or the quotient of both.
            rescale_den: Bits of an element afterwards, or 1.

        Raises:
            ProgramValueError: The sizes disagree, or the layout moves units smaller than the new elements.
        """
        from_old, grow, join = reshaping("Layout.reshape", self.shape, shape, rescale_num, rescale_den)
        if join > 1:
            check_joins(self, join)

        def place(*at: Coordinate) -> tuple[Coordinate, ...]:
            old, within = from_old(at)
            *outer, last = self(*old)
            return (*outer, last * grow + within if grow > 1 else last // join if join > 1 else last)

        return Layout(shape, place)

    def inverse(self) -> Layout:
        """The layout that leads every place back to its coordinate.

        Raises:
            ProgramValueError: The layout is no bijection onto its box, or has a symbolic shape.
        """
        if not self.is_small:
            raise ProgramValueError(f"Layout.inverse: the shape {self.shape} is not constant or too large")
        return inverse_of("Layout.inverse", self.table, self.output_shape)

    def _called(self, coordinates: Sequence[Coordinate]) -> Any:
        try:
            return self.forward(*coordinates)
        except TileLangError:
            raise
        except Exception as error:
            raise ProgramTypeError(
                f"T.Layout: the index function fails: {type(error).__name__}: {error}",
                hint=f"it takes {len(self.shape)} ints and gives an int or a tuple of them",
            ) from None

    def _table_one_by_one(self) -> np.ndarray:
        rows = [_outputs(self._called([int(c) for c in at])) for at in np.ndindex(*self.shape)]
        _check_integers("T.Layout", [place for row in rows for place in row])
        return np.asarray([[int(number(place)) for place in row] for row in rows]).reshape(*self.shape, -1)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Layout) or type(self) is not type(other):
            return NotImplemented
        if self is other or self.is_small and other.is_small:
            return self is other or self.shape == other.shape and np.array_equal(self.table, other.table)
        simplifier, variables = symbols(), self._variables
        if [simplifier.key(e) for e in self.shape] != [simplifier.key(e) for e in other.shape]:
            return False
        ours, theirs = self(*variables), other(*variables)
        return len(ours) == len(theirs) and all(
            simplifier.are_same(a, b, variables, self.shape) for a, b in zip(ours, theirs, strict=True)
        )

    def __hash__(self) -> int:
        if self.is_small:
            return hash((self.shape, self.table.tobytes()))
        return hash(tuple(map(symbols().key, self.shape)))

    def __repr__(self) -> str:
        return f"Layout({self.shape} -> {self.output_shape})"


def checked_extents(what: str, shape: Sequence[Any] | int) -> tuple[Any, ...]:
    """The extents of a shape: ints where they are numbers, and expressions."""
    extents = tuple(shape) if isinstance(shape, list | tuple) or hasattr(shape, "__iter__") else (shape,)
    for extent in extents:
        number = isinstance(extent, int | np.integer) and not isinstance(extent, bool)
        if number and extent < 0 or not number and not hasattr(extent, "is_index"):
            raise ProgramTypeError(
                f"{what}: extent {extent!r:.40} is not an integer", hint="a layout has a shape of ints"
            )
    return tuple(int(e) if isinstance(e, int | np.integer) else e for e in extents)


def _outputs(given: Any) -> tuple[Any, ...]:
    return tuple(given) if isinstance(given, tuple | list) else (given,)


def _check_integers(what: str, places: Sequence[Any]) -> None:
    for place in places:
        if not isinstance(place, int | np.integer) and not hasattr(place, "is_index"):
            raise ProgramError(f"{what}: the index function gives no integers", hint="divide with //, not with /")


def number(place: Any) -> Any:
    """A place as a number where it is a literal of the IR, which functions may give; others as they are."""
    return getattr(place, "value", place) if hasattr(place, "is_index") else place


def linearized(places: Sequence[Any], box: Sequence[Any]) -> Any:
    """The row-major offset of a place in a box."""
    offset: Any = 0
    for place, extent in zip(places, box, strict=True):
        offset = place if isinstance(offset, int) and offset == 0 else offset * extent + place
    return offset


def leading_extents(leading: object) -> tuple[int, ...]:
    """The checked argument of `expand`."""
    extents = (leading,) if isinstance(leading, int | np.integer) else leading
    if isinstance(extents, str) or not isinstance(extents, Sequence):
        raise ProgramTypeError(f"Layout.expand: {leading!r:.40} is neither an int nor a sequence of ints")
    for extent in extents:
        if isinstance(extent, bool) or not isinstance(extent, int | np.integer):
            raise ProgramTypeError(f"Layout.expand: {extent!r:.40} is not an int")
        if extent < 1:
            raise ProgramValueError(f"Layout.expand: extent {extent} is below 1")
    return tuple(int(extent) for extent in extents)


def reshaping(
    what: str, old: Sequence[Any], new: Sequence[Any], rescale_num: int, rescale_den: int
) -> tuple[Callable[[Sequence[Any]], tuple[tuple[Any, ...], Any]], int, int]:
    """Return the function that leads from coordinates of a new shape to those of the old one.

    Returns:
        A function that gives the old coordinate and the part of the old element, how many new elements are in an old
        one, and how many old ones are in a new one; one of both is 1.

    Raises:
        ProgramValueError: The sizes disagree.
    """
    new = checked_extents(what, new)
    shared = math.gcd(rescale_num, rescale_den) if min(rescale_num, rescale_den) > 0 else 0
    grow, join = (rescale_num // shared, rescale_den // shared) if shared else (0, 0)
    if not shared or min(grow, join) != 1:
        raise ProgramValueError(f"{what}: elements of {rescale_num} cannot become elements of {rescale_den}")
    if all(isinstance(e, int) for e in (*old, *new)) and math.prod(old) * grow != math.prod(new) * join:
        scaled = "" if grow == join else f" times {grow}/{join}"
        raise ProgramValueError(f"{what}: a shape {tuple(old)}{scaled} has another size than {tuple(new)}")

    def from_old(at: Sequence[Any]) -> tuple[tuple[Any, ...], Any]:
        flat = linearized(at, new)
        within = flat % grow if grow > 1 else 0
        return unravelled(flat // grow if grow > 1 else flat * join if join > 1 else flat, old), within

    return from_old, grow, join


def unravelled(flat: Any, shape: Sequence[Any]) -> tuple[Any, ...]:
    """The coordinate with a row-major number."""
    at: list[Any] = []
    for extent in reversed(shape[1:]):
        at.append(flat % extent)
        flat = flat // extent
    return (flat, *reversed(at)) if shape else ()


def check_joins(layout: Layout, count: int) -> None:
    """Refuses a layout that does not keep runs of `count` elements contiguous.

    Raises:
        ProgramValueError: Successive elements, from a multiple of `count` on, are not side by side in memory.
    """
    if not layout.is_small:
        raise ProgramValueError("Layout.reshape: wider elements need a constant shape")
    groups = layout.table.reshape(-1, count, layout.table.shape[-1])
    first = groups[:, :1]
    steps = np.zeros_like(groups[:1])
    steps[0, :, -1] = np.arange(count)
    if (first[..., -1] % count).any() or (groups != first + steps).any():
        raise ProgramValueError(
            f"Layout.reshape: the layout moves units smaller than {count} elements, which a wider element is made of"
        )


def inverse_of(what: str, table: np.ndarray, box: Sequence[int]) -> Layout:
    """The layout from the places of a table back to its coordinates.

    Shapes: table (*in_shape, rank of the box).

    Raises:
        ProgramValueError: The table is no bijection onto the box.
    """
    extents = table.shape[:-1]
    places = table.reshape(-1, table.shape[-1])
    count = math.prod(extents)
    if count != math.prod(box) or count and (places.min() < 0 or first_collision(places) is not None):
        raise ProgramValueError(f"{what}: the layout {extents} -> {tuple(box)} is no bijection, and has no inverse")
    try:
        digits = fit(table, tuple(box))
        back = digits.inverse() if digits is not None else None
    except NotDigitMap:
        back = None
    if back is not None:
        return Layout(box, back)
    lookup = np.empty(count, np.int64)
    lookup[np.ravel_multi_index(tuple(places.T), tuple(box))] = np.arange(count)

    def coordinate(*at: Coordinate) -> tuple[Coordinate, ...]:
        if any(hasattr(place, "is_index") for place in at):
            raise ProgramValueError(f"{what}: the map is no sum of quotients and remainders, and applies to ints only")
        found = np.unravel_index(lookup[np.ravel_multi_index(at, tuple(box))], extents)
        return tuple(c if c.ndim else int(c) for c in found)

    return Layout(box, coordinate)


@public
def make_linear_layout(buffer: Any) -> Layout:
    """The row-major layout of a buffer: the last dimension's neighbors lie side by side.

    Shapes: (e0, ..., en) -> offset.
    """
    shape = static_shape(buffer, "make_linear_layout")
    return Layout(shape, lambda *at: linearized(at, shape))


def static_shape(buffer: Any, what: str) -> tuple[int, ...]:
    """The constant extents of anything with a `shape`.

    Raises:
        ProgramError: It has none, or they are not constant.
    """
    given = getattr(buffer, "shape", None)
    extents = [getattr(extent, "value", extent) for extent in given] if isinstance(given, tuple) else [None]
    shape = tuple(extent for extent in extents if isinstance(extent, int))
    if len(shape) != len(extents):
        raise ProgramError(f"{what}: needs a buffer of constant shape", hint="pass a buffer of T.alloc_shared")
    return shape
