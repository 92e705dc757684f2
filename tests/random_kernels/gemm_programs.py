"""Random tiled gemms, as people write them for GPUs with TMA and wgmma.

Takes a source of choices, gives a `Program` of one kernel: its dtypes, transpositions, tiles, sizes, strides, loops and
epilogue are drawn. Invariant: elements are small integers and sums short, so that every order of additions gives the
same result.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from random_kernels.model import Choices
from random_kernels.programs import Program
from random_kernels.writer import Writer

from tilelang.dtypes import as_dtype

# of A and B, of the accumulator, of the result
_KINDS = (
    ("float16", "float32", "float16"),
    ("bfloat16", "float32", "float32"),
    ("float16", "float16", "float16"),
    ("float8_e4m3fn", "float32", "float16"),
    ("int8", "int32", "int32"),
    ("tfloat32", "float32", "float32"),
    ("float8_e5m2", "float32", "float32"),
    ("uint8", "int32", "int32"),
)
_ROWS = (64, 128, 64, 128, 192, 256, 32)
_COLUMNS = (64, 32, 8, 96, 128, 24, 40, 112)
_DEPTHS = (32, 64, 16, 128, 48)
_MOST_PER_TILE = 16384  # elements of the result, so that simulating takes seconds


class GemmPrograms(Writer):
    """Draws one program."""

    def __init__(self, choices: Choices, seed: int = 0) -> None:
        super().__init__(choices, seed)
        self._arguments: list[Any] = []
        self._signature: list[str] = []
        self._symbols: dict[int, str] = {}

    def program(self, kernels: int, statements: int) -> Program:
        """A function of one product."""
        pick = self.pick
        dtype, sums, result = pick.one(_KINDS)
        bits = as_dtype(dtype).bits
        rows = pick.one(_ROWS)
        columns = pick.one([n for n in _COLUMNS if rows * n <= _MOST_PER_TILE])
        depth = pick.one(_DEPTHS) * 16 // bits if bits < 32 else 32
        transposed_a, transposed_b = (bits == 16 and pick.often(40) for _ in range(2))
        transposed_b = transposed_b or bits != 16 and not pick.often(10)
        step = 128 // min(bits, as_dtype(result).bits)  # elements whose rows the engine brings
        m, n, k = self._size(rows, 2 * rows, 8), self._size(columns, 2 * columns, step), self._size(depth, 192, step)
        self._about(dtype, sums, result, (rows, columns, depth), (m, n, k), transposed_a, transposed_b)
        names = [f"{name} = T.dynamic('{name}')" for name in self._symbols.values()]
        text = "\n".join(
            ["import tilelang.language as T", "", *names, "", "@T.prim_func"]
            + [f"def main({', '.join(self._signature)}):", *self.out.lines, ""]
        )
        return Program(text, self._arguments, [0.0] * len(self._arguments))

    def _size(self, tile: int, most: int, step: int) -> int:
        """An extent of a tensor: tiles divide it, or only what the engine asks for does, or rarely nothing."""
        if self.pick.often(8):
            return 1 + self.pick.below(most)
        return self.pick.one((most, tile, tile + step, max(step, most - step), step))

    def _tensor(self, name: str, dtype: str, shape: tuple[int, ...], *, filled: bool = True) -> None:
        """A parameter with its argument, which may have rows that lie apart, or begin where no map can."""
        numpy = as_dtype(dtype).numpy
        apart = shape[-1] + (-shape[-1] % 16 if self.pick.often(80) else 3) if self.pick.often(25) else shape[-1]
        contents = self.rng.integers(0 if dtype == "uint8" else -3, 4, shape).astype(numpy)
        array = np.zeros((*shape[:-1], apart), numpy)[..., : shape[-1]]
        if filled:
            array[...] = contents
        extents = [self._extent(extent) for extent in shape]
        pitch = f", ({apart}, 1)" if apart != shape[-1] and len(shape) > 1 else ""
        kind = "T.StridedTensor" if pitch else "T.Tensor"
        self._signature.append(f"{name}: {kind}(({', '.join(extents)},){pitch}, '{dtype}')")
        self._arguments.append(array if pitch else np.ascontiguousarray(array))

    def _extent(self, extent: int) -> str:
        """An extent as a number, or as a name for one that is known only when the kernel is called."""
        if extent not in self._symbols and extent > 1 and self.pick.often(15):
            self._symbols[extent] = f"S{len(self._symbols)}"
        return self._symbols.get(extent, str(extent))

    def _about(
        self,
        dtype: str,
        sums: str,
        result: str,
        tile: tuple[int, int, int],
        sizes: tuple[int, int, int],
        transposed_a: bool,
        transposed_b: bool,
    ) -> None:
        """The kernel."""
        pick, line = self.pick, self.out.line
        (bm, bn, bk), (m, n, k) = tile, sizes
        self._tensor("A", dtype, (k, m) if transposed_a else (m, k))
        self._tensor("B", dtype, (n, k) if transposed_b else (k, n))
        after = pick.one(("", "bias", "residual", "pair", "staged", "levels", "scaled"))
        if sums == "float16" or dtype == "tfloat32" and after == "levels":
            after = ""
        if after == "bias":
            self._tensor("bias", sums, (n,))
        elif after == "residual":
            self._tensor("R", sums, (m, n))
        elif after == "pair":
            self._tensor("G", dtype, (n, k) if transposed_b else (k, n))
            result = "int32" if sums == "int32" else "float32"
        self._tensor("C", result, (m, n), filled=False)
        threads = pick.one((128, 256, 384))
        line(f"with T.Kernel(T.ceildiv({n}, {bn}), T.ceildiv({m}, {bm}), threads={threads}) as (bx, by):")
        self.out.depth += 1
        if pick.often(15):
            line(f"T.use_swizzle({1 + pick.below(3)})")
        shape_a, shape_b = ((bk, bm) if transposed_a else (bm, bk)), ((bn, bk) if transposed_b else (bk, bn))
        line(f"A_s = T.alloc_shared({shape_a}, '{dtype}')")
        line(f"B_s = T.alloc_shared({shape_b}, '{dtype}')")
        if after == "pair":
            line(f"G_s = T.alloc_shared({shape_b}, '{dtype}')")
        for name in ("C_l", *(("D_l",) if after in ("pair", "levels") else ())):
            line(f"{name} = T.alloc_fragment({(bm, bn)}, '{sums}')")
            line(f"T.clear({name})")
        if after == "residual":
            line(f"R_s = T.alloc_shared({(bm, bn)}, '{sums}')")
            line(f"T.copy(R[by * {bm}, bx * {bn}], R_s)")
        held = not transposed_a and pick.often(15)
        if held:
            line(f"A_l = T.alloc_fragment({shape_a}, '{dtype}')")
        self._loop(after, held, tile, k, transposed_a, transposed_b)
        self._epilogue(after, sums, result, bm, bn)

    def _loop(
        self, after: str, held: bool, tile: tuple[int, int, int], k: int, transposed_a: bool, transposed_b: bool
    ) -> None:
        """The loop along K."""
        pick, line = self.pick, self.out.line
        bm, bn, bk = tile
        trips = f"T.ceildiv({k}, {bk})"
        stages = pick.one((3, 2, 4, 5, 3, 2, 1, 0))
        at, end = self.position("k", bk)
        line(f"for k in T.Pipelined({trips}, num_stages={stages}):")
        self.out.depth += 1
        at_a = f"{at}, by * {bm}" if transposed_a else f"by * {bm}, {at}"
        at_b = f"bx * {bn}, {at}" if transposed_b else f"{at}, bx * {bn}"
        line(f"T.copy(A[{at_a}], A_s)")
        line(f"T.copy(B[{at_b}], B_s)")
        if held:
            line("T.copy(A_s, A_l)")
        flags = (", transpose_A=True" if transposed_a else "") + (", transpose_B=True" if transposed_b else "")
        flags += pick.one(("", "", ", policy=T.GemmWarpPolicy.FullRow", ", policy=T.GemmWarpPolicy.FullCol"))
        left = "A_l" if held else "A_s"
        if after == "levels":
            every = 1 + pick.below(3)
            line(f"T.gemm({left}, B_s, D_l{flags}, clear_accum=(k % {every} == 0))")
            line(f"if k % {every} == {every - 1} or k == {trips} - 1:")
            line(f"    for i, j in T.Parallel({bm}, {bn}):")
            line("        C_l[i, j] += D_l[i, j]")
        elif after != "pair" and pick.often(20) and not transposed_a:
            line(f"T.gemm({left}, B_s, C_l{flags}, clear_accum=(k == 0))")
        else:
            line(f"T.gemm({left}, B_s, C_l{flags})")
        if after == "pair":
            line(f"T.copy(G[{at_b}], G_s)")
            line(f"T.gemm({left}, G_s, D_l{flags})")
        line(end)
        self.out.depth -= 1

    def _epilogue(self, after: str, sums: str, result: str, bm: int, bn: int) -> None:
        """What is done with the sums, and how they leave."""
        line = self.out.line
        if after == "bias":
            line(f"bias_l = T.alloc_fragment(({bn},), '{sums}')")
            line(f"T.copy(bias[bx * {bn}], bias_l)")
        value = {
            "bias": "C_l[i, j] + bias_l[j]",
            "residual": "C_l[i, j] + R_s[i, j]",
            "pair": "C_l[i, j] * T.max(D_l[i, j], 0)",
            "scaled": "T.max(C_l[i, j], 0) * 2",
        }.get(after)
        if value is not None:
            line(f"for i, j in T.Parallel({bm}, {bn}):")
            line(f"    C_l[i, j] = {value}")
        source = "C_l"
        if after == "staged":
            line(f"C_s = T.alloc_shared({(bm, bn)}, '{result}')")
            line("T.copy(C_l, C_s)")
            source = "C_s"
        line(f"T.copy({source}, C[by * {bm}, bx * {bn}])")
