"""Draws random computations of Level 1: functions of four arrays, of shapes that no tile divides."""

import random
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from array_functions import numbers

Shape = tuple[int, ...]
EXTENTS = (1, 2, 3, 5, 7, 17, 33, 65)


@dataclass
class Computation:
    """A function `f` as text, and arguments for it."""

    text: str
    arguments: list[np.ndarray]
    tolerance: float


class Computations:
    """Statements over arrays that are known so far, by name."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        m, k, n = (self._rng.choice(EXTENTS) for _ in "mkn")
        self.shapes: dict[str, Shape] = {"a": (m, k), "b": (k, n), "c": (m, n), "v": (k,)}

    def draw(self) -> Computation:
        """A computation of up to six statements; the last one is a result."""
        arguments = list(self.shapes.items())
        dtype = self._rng.choice(("float32", "float32", "float16"))
        lines: list[str] = []
        while len(lines) < self._rng.randint(1, 6):
            drawn = self._rng.choice(_STATEMENTS)(self, *self._rng.choice(list(self.shapes.items())))
            if drawn is not None:
                name = f"t{len(lines)}"
                text, self.shapes[name] = drawn
                lines.append(f"    {name} = {text}\n")
        results = {f"t{len(lines) - 1}", self._rng.choice([f"t{n}" for n in range(len(lines))])}
        text = f"def f(a, b, c, v):\n{''.join(lines)}    return [{', '.join(sorted(results))}]\n"
        values = [numbers(*shape, dtype=dtype, seed=n) for n, (_, shape) in enumerate(arguments)]
        return Computation(text, values, 2e-2 if dtype == "float16" else 2e-4)

    # -- statements: the text and the shape of what it gives, or None if there is none ---------------------------
    def apply(self, x: str, shape: Shape) -> tuple[str, Shape]:
        function = self._rng.choice(("exp", "tanh", "relu", "sigmoid", "silu", "abs", "square"))
        return f"tnp.{function}({x} * 0.3)", shape

    def combine(self, x: str, shape: Shape) -> tuple[str, Shape]:
        other = self._rng.choice([name for name, found in self.shapes.items() if found == shape])
        return f"{x} {self._rng.choice('+-*')} {other}", shape

    def choose(self, x: str, shape: Shape) -> tuple[str, Shape]:
        return f"tnp.where({x} > 0, {x}, 0.1 * {x})", shape

    def reduce(self, x: str, shape: Shape) -> tuple[str, Shape] | None:
        if not shape:
            return None
        axis, function = self._rng.randrange(len(shape)), self._rng.choice(("sum", "max", "min", "mean"))
        return f"tnp.{function}({x}, axis={axis})", shape[:axis] + shape[axis + 1 :]

    def center(self, x: str, shape: Shape) -> tuple[str, Shape] | None:
        if not shape:
            return None
        axis, function = self._rng.randrange(len(shape)), self._rng.choice(("sum", "max", "mean"))
        return f"{x} - tnp.{function}({x}, axis={axis}, keepdims=True) * 0.5", shape

    def normalize(self, x: str, shape: Shape) -> tuple[str, Shape] | None:
        if not shape:
            return None
        moments = f"tnp.mean({x}, axis=-1, keepdims=True)", f"tnp.var({x}, axis=-1, keepdims=True)"
        return f"({x} - {moments[0]}) * tnp.rsqrt({moments[1]} + 1e-2)", shape

    def softmax(self, x: str, shape: Shape) -> tuple[str, Shape] | None:
        return (f"tnp.softmax({x}, axis={self._rng.randrange(len(shape))})", shape) if shape else None

    def logsumexp(self, x: str, shape: Shape) -> tuple[str, Shape] | None:
        return (f"tnp.logsumexp({x}, axis=-1)", shape[:-1]) if shape else None

    def accumulate(self, x: str, shape: Shape) -> tuple[str, Shape] | None:
        return (f"tnp.cumulative_sum({x}, axis={self._rng.randrange(len(shape))}) * 0.1", shape) if shape else None

    def multiply(self, x: str, shape: Shape) -> tuple[str, Shape] | None:
        fitting = [(y, other) for y, other in self.shapes.items() if len(other) == 2 and other[:1] == shape[-1:]]
        if len(shape) != 2 or not fitting:
            return None
        y, other = self._rng.choice(fitting)
        return f"({x} @ {y}) * 0.2", (shape[0], other[1])

    def transpose(self, x: str, shape: Shape) -> tuple[str, Shape] | None:
        return (f"{x}.T", shape[::-1]) if len(shape) == 2 else None

    def reverse(self, x: str, shape: Shape) -> tuple[str, Shape] | None:
        return (f"tnp.flip({x}, axis=0)", shape) if shape else None

    def cut(self, x: str, shape: Shape) -> tuple[str, Shape] | None:
        return (f"{x}[{self._rng.choice(('1:', ':-1'))}]", (shape[0] - 1, *shape[1:])) if shape and shape[0] > 1 else None

    def join(self, x: str, shape: Shape) -> tuple[str, Shape] | None:
        return (f"tnp.concat([{x}, {x} + 1], axis=0)", (2 * shape[0], *shape[1:])) if shape else None

    def flatten(self, x: str, shape: Shape) -> tuple[str, Shape] | None:
        return (f"tnp.reshape({x}, -1)", (shape[0] * shape[1],)) if len(shape) == 2 else None


_STATEMENTS: tuple[Callable[[Computations, str, Shape], tuple[str, Shape] | None], ...] = (
    Computations.apply, Computations.combine, Computations.choose, Computations.reduce, Computations.center,
    Computations.normalize, Computations.softmax, Computations.logsumexp, Computations.accumulate,
    Computations.multiply, Computations.transpose, Computations.reverse, Computations.cut, Computations.join,
    Computations.flatten,
)  # fmt: skip
