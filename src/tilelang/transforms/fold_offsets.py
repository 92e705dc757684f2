"""Folds offsets of swizzled tiles: terms of unrolled loops become one XOR and one addition of constants.

    (row + g * 16) * 64 + ((k + s * 16) // 8 ^ (row + g * 16) % 8) * 8
 => (row * 64 + (k // 8 ^ row % 8) * 8 ^ s * 16) + g * 1024

Takes the layout of a tile and the indices of an access, gives the offset as a thread-dependent part that is computed
once, and constants that fit into instructions. Invariant: the folded form is checked by evaluation for every thread and
every iteration of the unrolled loops; if it differs, the offset is unchanged.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np

from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Expr, Load, Var, binary, const, int_const
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.stmt import Bind, For, ForKind, Launch
from tilelang.ir.visit import substitute, walk_expr
from tilelang.layout.layout import Layout
from tilelang.layout.shared_memory import offsets
from tilelang.records import record

_MAX_POINTS = 1 << 18  # threads times iterations that are evaluated


@record
class FoldedOffset:
    """An offset as `(base ^ flips) + steps`, for version 0 of the tile.

    Attributes:
        base: The indices with the variable of every unrolled loop at 0, even if it starts later.
        flips: XOR terms: loop variable to factor.
        steps: Additive terms: loop variable to factor.
    """

    base: tuple[Expr, ...]
    flips: Mapping[Var, int]
    steps: Mapping[Var, int]

    def apply(self, offset: Expr) -> Expr:
        """The offset of the access, given the offset of its base."""
        for op, factors in ((BinaryOp.BITXOR, self.flips), (BinaryOp.ADD, self.steps)):
            if factors:
                offset = binary(op, offset, _sum(factors))
        return offset


class OffsetFolder:
    """Folds offsets at a point of a launch, with the values of variables that depend on the thread only."""

    def __init__(self, launch: Launch) -> None:
        """Starts at the top of a launch."""
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
        first = values[(0,) * len(loops)]
        flips: dict[Var, int] = {}
        steps: dict[Var, int] = {}
        for axis, (var, extent) in enumerate(loops.items()):
            line = values[tuple(slice(None) if a == axis else 0 for a in range(len(loops)))]
            count = np.arange(extent)[:, None]
            for factors, changes in ((steps, line - first), (flips, line ^ first)):
                factor = int(changes[1, 0]) if extent > 1 else 0
                if (changes == factor * count).all():
                    factors[var] = factor
                    break
            else:
                return None
        grid = np.indices(tuple(loops.values()), sparse=True)
        flipped, stepped = (
            np.asarray(sum(factors.get(var, 0) * at for var, at in zip(loops, grid, strict=True)))[..., None]
            for factors in (flips, steps)
        )
        if not np.array_equal(values, (first ^ flipped) + stepped):
            return None
        base = tuple(substitute(index, {var: const(0, var.dtype) for var in loops}) for index in indices)
        return FoldedOffset(base, *({v: f for v, f in factors.items() if f} for factors in (flips, steps)))

    def _offsets(self, layout: Layout, inner: Sequence[Expr], loops: Mapping[Var, int]) -> np.ndarray | None:
        """The offset of every thread's access in every iteration; None if one is out of bounds.

        Shape: (*iterations, threads).
        """
        env: dict[Var, np.ndarray] = dict(self._values)
        for axis, (var, extent) in enumerate(loops.items()):
            env[var] = np.arange(extent).reshape([extent if a == axis else 1 for a in range(len(loops) + 1)])
        coordinates = np.broadcast_arrays(*(np.asarray(evaluate(index, env, exact=True)) for index in inner))
        for coordinate, extent in zip(coordinates, layout.shape, strict=True):
            if (coordinate < 0).any() or (coordinate >= extent).any():
                return None
        threads = max((value.size for value in self._values.values()), default=1)
        values = offsets(layout)[tuple(coordinates)]
        return np.broadcast_to(values, (*loops.values(), threads))


def _sum(factors: Mapping[Var, int]) -> Expr:
    terms = [var * factor for var, factor in factors.items()]
    return functools.reduce(operator.add, terms)
