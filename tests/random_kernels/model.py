"""The state of a random program: choices, buffers, scalars and the names in scope."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from tilelang.dtypes import as_dtype

T_ = TypeVar("T_")

_CAP = {"float4_e2m1fn": 4, "float8_e4m3fn": 256, "float8_e4m3fnuz": 128}


class Choices:
    """Draws that a random generator or a recorded list can make; 0 is always the plainest."""

    def below(self, n: int) -> int:
        """A number from 0 to n - 1."""
        raise NotImplementedError

    def one(self, options: Sequence[T_]) -> T_:
        """One of the options; the first is the plainest."""
        return options[self.below(len(options))]

    def often(self, percent: int) -> bool:
        """True in so many of a hundred cases."""
        return self.below(100) >= 100 - percent


@dataclass(eq=False)
class Buffer:
    """A tensor or buffer as a kernel names it.

    Attributes:
        prefix: Indices in front, which the text does not choose.
        offsets: Per dimension, what is added to an index (the place of a tile in a tensor); "" for nothing.
        bound: Largest magnitude, or None for integers of any size.
        grain: Floats are multiples of 2**-grain.
        special: Whether NaN and infinities occur.
        storage: Names the memory; views share it.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    scope: str = "global"
    prefix: tuple[str, ...] = ()
    offsets: tuple[str, ...] = ()
    bound: int | None = None
    grain: int = 0
    special: bool = False
    writable: bool = True
    hangs: bool = False
    storage: str = ""

    def __post_init__(self) -> None:
        self.storage = self.storage or self.name
        self.offsets = self.offsets or ("",) * len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    def at(self, indices: Sequence[str]) -> str:
        """An element or region."""
        own = [f"{o} + {i}" if o else i for o, i in zip(self.offsets, indices, strict=True)]
        inner = ", ".join([*self.prefix, *own])
        return f"{self.name}[{inner or '()'}]"


@dataclass
class Scalar:
    """A name that stands for a number: a mutable scalar, a binding or a parameter.

    Attributes:
        high: The greatest value of a mutable scalar that stands in indices, of which 0 is the least.
        left: How much may still be added to one that is only added to.
    """

    name: str
    dtype: str
    bound: int | None = None
    grain: int = 0
    mutable: bool = False
    high: int | None = None
    left: int | None = None


@dataclass
class Scope:
    """The names that may be used at a place.

    Attributes:
        indices: Index variables with their least and greatest value.
        blocked: Storage that must not be read here, since iterations running in any order write it.
        own: Elements that may be read although their storage is blocked: text, buffer.
    """

    indices: list[tuple[str, int, int]] = field(default_factory=list)
    scalars: list[Scalar] = field(default_factory=list)
    buffers: list[Buffer] = field(default_factory=list)
    blocked: set[str] = field(default_factory=set)
    own: list[tuple[str, Buffer]] = field(default_factory=list)

    def inner(self) -> Scope:
        """A copy, for a block whose names end with it."""
        return Scope([*self.indices], [*self.scalars], [*self.buffers], {*self.blocked}, [*self.own])

    def readable(self) -> list[Buffer]:
        """Buffers with at least one element that may be read anywhere."""
        return [b for b in self.buffers if b.storage not in self.blocked and b.size]


def within(index: str, extent: int) -> str:
    """The index, unless it is a constant that the front end would reject."""
    try:
        value = int(eval(index, {"__builtins__": {}}))
    except (NameError, SyntaxError):
        return index
    return index if -extent <= value < extent else str(max(0, extent - 1))


def cap(dtype: str, bound: int) -> int:
    """A bound that values of the dtype can have without overflowing."""
    return min(bound, _CAP.get(dtype, bound))


def limits(dtype: str) -> tuple[int, int]:
    """Least and greatest integer of a dtype."""
    low, high = as_dtype(dtype).limits
    return int(low), int(high)


def is_float(dtype: str) -> bool:
    """Whether a dtype holds floats."""
    return as_dtype(dtype).is_float


def random_array(rng: np.random.Generator, buffer: Buffer, shape: tuple[int, ...]) -> Any:
    """Contents for a tensor that keep its contract."""
    return np.asarray(_random_values(rng, buffer, shape)).reshape(shape)


def _random_values(rng: np.random.Generator, buffer: Buffer, shape: tuple[int, ...]) -> Any:
    row = as_dtype(buffer.dtype)
    if row.is_bool:
        return np.asarray(rng.integers(0, 2, shape)).astype(np.bool_)
    if row.is_float:
        values = rng.integers(-4 << 2, (4 << 2) + 1, shape) / 4.0
        if buffer.bound is not None and buffer.bound < 4:
            values = np.clip(values, -buffer.bound, buffer.bound)
        values = np.floor(values * 2.0**buffer.grain) / 2.0**buffer.grain
        if buffer.special:
            odd = rng.choice(np.array([np.nan, np.inf, -np.inf, -0.0]), shape)
            values = np.where(rng.random(shape) < 0.15, odd, values)
        return np.asarray(values).astype(np.float32).astype(row.numpy)
    low, high = limits(buffer.dtype)
    if buffer.bound is not None:
        low, high = max(low, -buffer.bound), min(high, buffer.bound)
    wide = np.asarray(rng.integers(low, high, shape, dtype=np.int64 if low < 0 else np.uint64, endpoint=True))
    near = np.asarray(rng.integers(max(low, -9), min(high, 9), shape, endpoint=True))
    mixed = np.where(rng.random(shape) < 0.5, wide, near.astype(wide.dtype))
    return mixed.astype(np.int8 if row.bits < 8 else row.numpy).astype(row.numpy)
