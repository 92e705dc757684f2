"""Random whole kernels of the language, as text, with arguments: what the executors are compared on.

Takes a source of choices, gives a `Program`. Invariant: a program is legal and has one meaning: every element is
written before it is read, accesses to on-chip memory stay inside, blocks write apart from each other, iterations of
`T.Parallel` are independent, and floats keep the contract of `random_kernels.expressions`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from random_kernels.control import Control
from random_kernels.model import Buffer, Scalar, Scope, is_float
from random_kernels.writer import DTYPES, ON_CHIP


@dataclass
class Program:
    """A module's text that defines `main`, and what to call it with.

    Attributes:
        tolerances: Per tensor: 0 for exact agreement, else the relative difference that rounding may make.
        expected: The arguments afterwards, where the reference interpreter cannot say.
    """

    text: str
    arguments: list[Any] = field(repr=False)
    tolerances: list[float] = field(repr=False)
    expected: list[Any] | None = field(default=None, repr=False)

    def copies(self) -> list[Any]:
        """The arguments once more, with the same strides."""
        return [_copied(a) if isinstance(a, np.ndarray) else a for a in self.arguments]


def _copied(array: np.ndarray) -> np.ndarray:
    if array.ndim < 2 or array.flags.c_contiguous:
        return np.array(array)
    wide = np.zeros((*array.shape[:-1], array.strides[-2] // array.itemsize), array.dtype)
    wide[..., : array.shape[-1]] = array
    return wide[..., : array.shape[-1]]


class Programs(Control):
    """Draws one program."""

    RANKS: tuple[int, ...] = (1, 1, 2, 3)  # of grids
    BLOCKS: tuple[int, ...] = (1, 2, 3, 4)  # along each dimension

    def program(self, kernels: int, statements: int) -> Program:
        """A function of some kernels."""
        for _ in range(1 + self.pick.below(kernels)):
            self.kernel(statements)
        signature = [f"{p.buffer.name}: {p.annotation}" for p in self.params]
        signature += [f"{name}: T.{dtype}" for name, dtype, _ in self.scalars]
        dims = [f"{name} = T.dynamic('{name}')" for name in self.symbols]
        text = "\n".join(
            [
                "import tilelang.language as T",
                "",
                *dims,
                "",
                *self.head,
                "@T.prim_func",
                "def main(" + ", ".join(signature) + "):",
                *self.out.lines,
                "",
            ]
        )
        arguments = [self.arrays[p.buffer.name] for p in self.params] + [v for _, _, v in self.scalars]
        return Program(text, arguments, [p.tolerance for p in self.params])

    def kernel(self, statements: int) -> None:
        """One `T.Kernel` block, whose memory is made visible at its end."""
        self._palette = [self.pick.one(DTYPES) for _ in range(3)]
        rank = self.pick.one(self.RANKS)
        self._grid = [(self.name("b"), self.pick.one(self.BLOCKS)) for _ in range(rank)]
        scope = Scope([*((n, e, e) for n, e in self.symbols.items()), *((n, 0, e - 1) for n, e in self._grid)])
        earlier = [b for b in self._outputs if b.size]
        scope.buffers += [self.input() for _ in range(self.pick.below(4))]
        if earlier and self.pick.often(50):
            scope.buffers.append(self.pick.one(earlier))
        if self.pick.often(15):
            dtype, value = self.pick.one(
                (("int32", -7), ("float32", 1.5), ("int64", 300), ("uint8", 200), ("bool", True))
            )
            self.scalars.append((self.name("p"), dtype, value))
            if dtype != "bool":
                scope.scalars.append(Scalar(self.scalars[-1][0], dtype, 2 if is_float(dtype) else None, 1))
        if self.pick.often(15):
            self._workspace(scope)
        for dtype, kind in [(self.dtype(), self.pick.below(3)) for _ in range(1 + self.pick.below(2))]:
            scope.buffers.append(
                self.tiled(dtype) if kind == 2 else self.owned(dtype, self.shape(self.pick.one((1, 2, 3)), empty=True))
            )
        names = ", ".join(n for n, _ in self._grid)
        target = names if rank == 1 else f"({names})"
        grid = ", ".join(self.extent_text(e) for _, e in self._grid)
        self.out.line(f"with T.Kernel({grid}{self.threads()}) as {target}:")
        self.out.depth += 1
        for buffer in scope.buffers:
            if (
                buffer.scope == "global"
                and not buffer.writable
                and self.pick.often(10)
                and buffer.dtype in ("int32", "float32", "float16")
            ):
                if buffer in self._outputs:
                    continue
                self.out.line(f"T.annotate_safe_value({{{buffer.name}: {self.pick.one((-1, 1, 2))}}})")
        self._weight = 1
        self.opening(scope)
        self.block(scope, self.pick.below(statements + 1), 3)
        self._flush(scope)
        self.out.depth -= 1

    def threads(self) -> str:
        """The option of the kernel that says how many threads a block has."""
        return self.pick.one(("", ", threads=64", ", threads=(32, 2)"))

    def opening(self, scope: Scope) -> None:
        """What stands at the start of a kernel."""
        for _ in range(self.pick.below(3)):
            self.allocate(scope)

    def _workspace(self, scope: Scope) -> None:
        """Memory of the function, written by a kernel in front of the one at hand."""
        dtype, shape = self.dtype(), self.shape(2)
        bound, grain = self.contract(dtype, small=True)
        buffer = Buffer(self.name("W"), dtype, shape, bound=bound, grain=grain)
        self.out.line(f"{buffer.name} = T.alloc_global({shape}, '{dtype}')")
        grid, self._grid = self._grid, [(self.name("b"), 1)]
        self.out.line(f"with T.Kernel(1) as {self._grid[0][0]}:")
        self.out.depth += 1
        inner = scope.inner()
        inner.indices = [(n, e, e) for n, e in self.symbols.items()]
        inner.buffers = [b for b in inner.buffers if not b.writable]
        self._fill_all(inner, buffer)
        self.out.depth -= 1
        self._grid = grid
        scope.buffers.append(Buffer(buffer.name, dtype, shape, bound=bound, grain=grain, writable=False))

    def _flush(self, scope: Scope) -> None:
        """Everything on the chip is made visible."""
        for buffer in scope.buffers:
            if buffer.scope in ON_CHIP and buffer.storage == buffer.name:
                out = self.owned(buffer.dtype, buffer.shape, like=buffer)
                zeros = [*out.prefix, *("0" for _ in buffer.shape)]
                where = self.pick.one((out.at([":"] * len(buffer.shape)), f"{out.name}[{', '.join(zeros)}]"))
                self.out.line(f"T.copy({buffer.name}, {where})")
        for scalar in scope.scalars:
            if scalar.mutable:
                like = Buffer("", scalar.dtype, (), bound=scalar.bound, grain=scalar.grain)
                out = self.owned(scalar.dtype, (), like=like)
                self.out.line(f"{out.name}[{', '.join(out.prefix)}] = {scalar.name}")

    def block(self, scope: Scope, count: int, depth: int) -> None:
        """Some statements, with loops and branches at most `depth` deep."""
        mark = len(self.out.lines)
        for _ in range(count):
            self.statement(scope, depth)
        if len(self.out.lines) == mark:
            self.out.line("pass")

    def statement(self, scope: Scope, depth: int) -> None:
        """One statement of any kind that the scope allows."""
        simple: list[Callable[[Scope], bool]] = [
            self._some_elementwise,
            self._some_elementwise,
            self._copy,
            self._fill,
            self._assign_scalar,
            self._reduce_loop,
            self._store,
            self._vectorized,
            self._atomic,
            self._nested_reduction,
        ]
        fresh: list[Callable[[Scope], bool]] = [
            self._new_buffer,
            self._reduce,
            self._scan,
            self._gemm,
            self._new_scalar,
            self._transpose,
            self._view,
            self._math,
            self._macro,
            self._swap,
            self._tile_macro,
            self._versions,
            self._tests,
            self._previous,
            self._random,
        ]
        nested: list[Callable[[Scope, int], bool]] = [
            self._serial,
            self._if,
            self._while,
            self._pipelined,
            self._plain_loop,
            self._persistent,
        ]
        kind = self.pick.below(10)
        if kind < 4 or depth <= 0 and kind < 7:
            done = self.pick.one(simple)(scope)
        elif kind < 7 or self._weight > 400:
            done = self.pick.one(fresh)(scope)
        else:
            done = self.pick.one(nested)(scope, depth - 1)
        if not done:
            self._some_elementwise(scope)
