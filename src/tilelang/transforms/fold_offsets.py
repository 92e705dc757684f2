"""Folds offsets of swizzled tiles: terms of unrolled loops become one XOR and one addition of constants.

    (row + g * 16) * 64 + ((k + s * 16) // 8 ^ (row + g * 16) % 8) * 8
 => (row * 64 + (k // 8 ^ row % 8) * 8 ^ s * 16) + g * 1024

Where a variable numbers places along several dimensions, or chunks of more than a swizzle permutes, each of its bits
has a constant for XOR and one to add, as much as possible of the latter, which instructions add to an address:

    (row + v // 4 * 16) * 64 + (v % 4 ^ row % 8) * 8  =>  (row * 64 + row % 8 * 8 ^ v % 4 * 8) + v // 4 * 1024

Takes the layout of a tile and the indices of an access, gives the offset as a thread-dependent part that is computed
once, and constants that fit into instructions. Invariant: the folded form is checked by evaluation for every thread and
every iteration of the unrolled loops; if it differs, the offset is unchanged.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np

from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Expr, Load, Var, const, int_const
from tilelang.ir.stmt import Bind, For, ForKind, Launch
from tilelang.ir.visit import substitute, variables_of, walk_expr
from tilelang.layout.layout import Layout
from tilelang.layout.shared_memory import offsets
from tilelang.records import record

_MAX_POINTS = 1 << 18  # threads times iterations that are evaluated


@record
class FoldedOffset:
    """An offset as `(base ^ flips) + steps`, for version 0 of the tile.

    Attributes:
        base: The indices with the variable of every unrolled loop at 0, even if it starts later.
        flips: XOR terms: loop variable, or some of its bits, to factor.
        steps: Additive terms, likewise.
        flipped: What is below this power of two has all bits that the XOR may change.
        flips_once: Whether the outermost of the unrolled loops alone flips bits, so that each result is needed once.
    """

    base: tuple[Expr, ...]
    flips: Mapping[Expr, int]
    steps: Mapping[Expr, int]
    flipped: int
    flips_once: bool

    @property
    def flip(self) -> Expr | None:
        """What is combined with the offset of the base by XOR."""
        return _combined(self.flips, operator.xor)

    @property
    def step(self) -> Expr | None:
        """What is added then."""
        return _combined(self.steps, operator.add)

    def apply(self, offset: Expr) -> Expr:
        """The offset of the access, given the offset of its base."""
        flip, step = self.flip, self.step
        offset = offset if flip is None else offset ^ flip
        return offset if step is None else offset + step


def _combined(terms: Mapping[Expr, int], op: Callable[[Expr, Expr], Expr]) -> Expr | None:
    return functools.reduce(op, [var * factor for var, factor in terms.items()]) if terms else None


class OffsetFolder:
    """Folds offsets at a point of a launch, with the values of variables that depend on the thread only.

    Args:
        launch: The launch, at whose top it starts.
    """

    def __init__(self, launch: Launch) -> None:
        self._values: dict[Var, np.ndarray] = {}
        self._loops: dict[Var, int] = {}
        if launch.thread is not None:
            self._values[launch.thread] = np.arange(launch.num_threads, dtype=np.int64)

    def bind(self, node: Bind) -> None:
        """Records the value of a binding."""
        if node.var.index and self._is_known(node.value):
            value = evaluate(node.value, self._values, exact=True)
            self._values[node.var] = np.asarray(value, np.int64)

    @contextmanager
    def loop(self, node: For) -> Iterator[None]:
        """Context manager for the body of a loop."""
        extent, start = int_const(node.stop), int_const(node.start)
        if node.kind is ForKind.UNROLLED and start is not None and start >= 0 and node.step == 1 and extent:
            self._loops[node.var] = extent
        try:
            yield
        finally:
            self._loops.pop(node.var, None)

    def _is_known(self, value: Expr) -> bool:
        names = [e for e in walk_expr(value) if isinstance(e, Var | Load)]
        return value.is_index and all(name in self._values for name in names)

    def fold(self, layout: Layout, indices: Sequence[Expr]) -> FoldedOffset | None:
        """The folded offset; None if there is none, or nothing to fold.

        Args:
            layout: The layout of the tile.
            indices: The indices of the access; those before the layout's dimensions select versions of the tile.
        """
        leading = len(indices) - len(layout.shape)
        inner = indices[leading:]
        named = {e for index in inner for e in walk_expr(index) if isinstance(e, Var | Load)}
        loops = {var: extent for var, extent in self._loops.items() if var in named}
        outside = {e for index in indices[:leading] for e in walk_expr(index) if isinstance(e, Var)}
        if not loops or any(var in outside for var in loops) or not all(index.is_index for index in inner):
            return None
        if not all(var in loops or var in self._values for var in named):
            return None
        threads = max((value.size for value in self._values.values()), default=1)
        if threads * math.prod(loops.values()) > _MAX_POINTS:
            return None
        return self._checked(layout, inner, loops)

    def _checked(
        self, layout: Layout, indices: Sequence[Expr], loops: Mapping[Var, int]
    ) -> FoldedOffset | None:
        values = self._offsets(layout, indices, loops)  # (*iterations, threads)
        if values is None:
            return None
        flips: dict[Expr, int] = {}
        steps: dict[Expr, int] = {}
        for axis, var in enumerate(loops):
            line = values[tuple(slice(None) if a == axis else 0 for a in range(len(loops)))]
            factors = _terms(var, line)
            if factors is None:
                return None
            flips.update(factors[0])
            steps.update(factors[1])
        base = tuple(substitute(index, {var: const(0, var.dtype) for var in loops}) for index in indices)
        env = _iterations(loops)
        flipped, stepped = (
            np.asarray(0 if each is None else evaluate(each, env, exact=True))
            for each in (_combined(flips, operator.xor), _combined(steps, operator.add))
        )
        outermost = next(iter(self._loops))
        once = bool(flips) and all(variables_of(term) <= {outermost} for term in flips)
        folded = FoldedOffset(base, flips, steps, 1 << int(flipped.max()).bit_length(), once)
        made = (values[(0,) * len(loops)] ^ flipped) + stepped
        return folded if np.array_equal(values, np.broadcast_to(made, values.shape)) else None

    def _offsets(self, layout: Layout, inner: Sequence[Expr], loops: Mapping[Var, int]) -> np.ndarray | None:
        """The offset of every thread's access in every iteration; None if one is out of bounds.

        Shape: (*iterations, threads).
        """
        env = {**self._values, **_iterations(loops)}
        coordinates = np.broadcast_arrays(*(np.asarray(evaluate(index, env, exact=True)) for index in inner))
        for coordinate, extent in zip(coordinates, layout.shape, strict=True):
            if (coordinate < 0).any() or (coordinate >= extent).any():
                return None
        threads = max((value.size for value in self._values.values()), default=1)
        values = offsets(layout)[tuple(coordinates)]
        return np.broadcast_to(values, (*loops.values(), threads))


_Terms = dict[Expr, int]  # and their factors


def _iterations(loops: Mapping[Var, int]) -> dict[Var, np.ndarray]:
    """The values of the variables of loops, each along its own axis, before that of threads."""
    axes = range(len(loops) + 1)
    return {
        var: np.arange(extent).reshape([extent if axis == own else 1 for axis in axes])
        for own, (var, extent) in enumerate(loops.items())
    }


def _terms(var: Var, line: np.ndarray) -> tuple[_Terms, _Terms] | None:
    """The terms of the bits of a variable, for XOR and to be added; None if one has no constant factors."""
    changes = [_change(line[0], line[1 << bit]) for bit in range((len(line) - 1).bit_length())]
    known = [change for change in changes if change is not None]
    if len(known) < len(changes):
        return None
    return _digits(var, [flip for flip, _ in known]), _digits(var, [step for _, step in known])


def _change(first: np.ndarray, changed: np.ndarray) -> tuple[int, int] | None:
    """Constants with `(first ^ flip) + step == changed`, the XOR in as few lower bits as possible; None without."""
    flips, wide = first ^ changed, int(max(first.max(), changed.max())).bit_length()
    for low in range(wide + 1):
        flip = int(flips[0]) & ((1 << low) - 1)
        step = changed - (first ^ flip)
        if (step == step[0]).all():
            return flip, int(step[0])
    return None


def _digits(var: Var, factors: Sequence[int]) -> _Terms:
    """A variable's terms, given the factors of its bits: those of which each is twice the one before are one term."""
    terms: _Terms = {}
    start = 0
    while start < len(factors):
        end = start + 1
        while end < len(factors) and factors[end] == factors[start] << (end - start):
            end += 1
        if factors[start]:
            digits = var // 2**start if start else var
            terms[digits if end == len(factors) else digits % 2 ** (end - start)] = factors[start]
        start = end
    return terms
