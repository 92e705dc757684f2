"""The base of all generators: lines, names, parameters and their contents."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from random_kernels.expressions import Expressions
from random_kernels.model import Buffer, Choices, cap, is_float, random_array

EXTENTS = (4, 1, 2, 3, 5, 7, 8, 13, 16, 17, 31, 32, 33, 64, 100, 257)
DTYPES = (
    "int32",
    "float32",
    "int8",
    "float16",
    "uint8",
    "int64",
    "bfloat16",
    "float64",
    "uint32",
    "bool",
    "int16",
    "uint16",
    "uint64",
    "float8_e4m3fn",
    "float8_e5m2",
    "tfloat32",
    "int4",
    "uint4",
    "float8_e4m3fnuz",
    "float8_e5m2fnuz",
    "float4_e2m1fn",
)
ON_CHIP = ("shared", "fragment", "local")
_NO_SPECIAL = ("float4_e2m1fn", "tfloat32")


@dataclass
class Param:
    """A tensor parameter with the annotation that the text gives it."""

    buffer: Buffer
    annotation: str
    tolerance: float = 0.0


@dataclass
class Lines:
    """Text at a depth of indentation."""

    lines: list[str] = field(default_factory=list)
    depth: int = 1

    def line(self, text: str) -> None:
        """Adds one line."""
        self.lines.append("    " * self.depth + text)


class Writer:
    """The state of a program that is being drawn."""

    def __init__(self, choices: Choices, seed: int = 0) -> None:
        self.pick = choices
        self.make = Expressions(choices)
        self.rng = np.random.default_rng(seed)
        self.out = Lines()
        self.head: list[str] = []
        self.params: list[Param] = []
        self.scalars: list[tuple[str, str, Any]] = []
        self.symbols: dict[str, int] = {}
        self.arrays: dict[str, np.ndarray] = {}
        self._names = 0
        self._grid: list[tuple[str, int]] = []
        self._outputs: list[Buffer] = []  # of earlier kernels
        self._weight = 1  # how often the statement at hand is executed
        self._palette: list[str] = []

    def name(self, stem: str) -> str:
        """A new name."""
        self._names += 1
        return f"{stem}{self._names}"

    def position(self, loop: str, step: int, first: int = 0) -> tuple[str, str]:
        """Where the tile of an iteration begins, and what an iteration ends with.

        Mostly a multiple of the loop's variable, which `first` is the first value of; else a scalar that iterations move.
        """
        if not self.pick.often(20):
            return f"{loop} * {step}", "pass"
        name = self.name("at")
        self.out.line(f"{name} = T.alloc_var('int32', init={first * step})")
        return name, f"{name} += {step}"

    def dtype(self) -> str:
        """A dtype, mostly one of the few that the kernel at hand is about."""
        return self.pick.one(self._palette) if self.pick.often(75) else self.pick.one(DTYPES)

    def shape(self, rank: int, most: int = 600, empty: bool = False) -> tuple[int, ...]:
        """Extents of at most `most` elements; rarely an extent of 0 if `empty`."""
        shape: list[int] = []
        for _ in range(rank):
            shape.append(0 if empty and self.pick.often(3) else self.pick.one([e for e in EXTENTS if e <= most]))
            most //= max(1, shape[-1])
        return tuple(shape)

    def contract(self, dtype: str, small: bool) -> tuple[int | None, int]:
        """Bound and grain for a buffer."""
        if dtype == "bool":
            return None, 0
        if is_float(dtype):
            return (cap(dtype, 4), 1 if dtype == "float4_e2m1fn" else 2) if small else (cap(dtype, 64), 4)
        return (8 if small and self.pick.often(30) else None), 0

    def extent_text(self, extent: int) -> str:
        """An extent as a number or as a symbolic dimension that is as large."""
        known = [n for n, e in self.symbols.items() if e == extent]
        return known[0] if known and self.pick.often(30) else str(extent)

    def parameter(self, buffer: Buffer, shape: tuple[int, ...], tolerance: float = 0.0, contents: Any = None) -> Buffer:
        """Makes a buffer a parameter, of this shape as a whole; sometimes with symbolic extents or strides."""
        extents = [str(e) for e in shape]
        for dim, extent in enumerate(shape):
            if extent > 1 and self.pick.often(20):
                known = [n for n, e in self.symbols.items() if e == extent]
                symbol = known[0] if known else self.name("N")
                self.symbols[symbol] = extent
                extents[dim] = symbol
        strided = ""
        array = random_array(self.rng, buffer, shape) if contents is None else contents
        if self.pick.often(8) and len(shape) == 2 and contents is None:
            wide = np.zeros((shape[0], shape[1] + 3), array.dtype)
            wide[:, : shape[1]] = array
            array = wide[:, : shape[1]]
            strided = f", ({shape[1] + 3}, 1)"
        comma = "," if len(shape) == 1 else ""
        kind = "T.StridedTensor" if strided else "T.Tensor"
        self.arrays[buffer.name] = array
        self.params.append(
            Param(buffer, f"{kind}(({', '.join(extents)}{comma}){strided}, '{buffer.dtype}')", tolerance)
        )
        return buffer

    def input(self, dtype: str | None = None, shape: tuple[int, ...] | None = None, small: bool = True) -> Buffer:
        """A tensor that is only read."""
        dtype = dtype or self.dtype()
        if shape is None:
            shape = self.shape(self.pick.one((1, 2, 2, 3, 0)), empty=True)
        bound, grain = self.contract(dtype, small)
        special = is_float(dtype) and dtype not in _NO_SPECIAL and self.pick.often(15)
        buffer = Buffer(self.name("A"), dtype, shape, bound=bound, grain=grain, special=special, writable=False)
        return self.parameter(buffer, shape)

    def owned(self, dtype: str, shape: tuple[int, ...], like: Buffer | None = None, tolerance: float = 0.0) -> Buffer:
        """An output of which each block has a part of its own."""
        bound, grain = (like.bound, like.grain) if like else self.contract(dtype, small=False)
        special = like.special if like else False
        buffer = Buffer(
            self.name("O"),
            dtype,
            shape,
            prefix=tuple(n for n, _ in self._grid),
            bound=bound,
            grain=grain,
            special=special,
            hangs=bool(shape),
        )
        whole = (*(e for _, e in self._grid), *shape)
        start = random_array(self.rng, buffer, whole)
        self._outputs.append(
            Buffer(buffer.name, dtype, whole, bound=bound, grain=grain, special=special, writable=False)
        )
        return self.parameter(buffer, whole, tolerance, contents=start)

    def tiled(self, dtype: str) -> Buffer:
        """An output cut into tiles, one per block; the last tiles hang over the edge."""
        rank = len(self._grid)
        tile = self.shape(rank, 300)
        total = tuple(max(0, e * t - self.pick.below(t)) for (_, e), t in zip(self._grid, tile, strict=True))
        bound, grain = self.contract(dtype, small=False)
        offsets = tuple(f"{n} * {t}" for (n, _), t in zip(self._grid, tile, strict=True))
        buffer = Buffer(self.name("O"), dtype, tile, offsets=offsets, bound=bound, grain=grain)
        return self.parameter(buffer, total)
