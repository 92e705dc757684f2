"""Random programs that become warp-specialized: several gemms, pipelines and loops, with prologues and epilogues.

Takes a source of choices, gives a `Program` of one kernel whose tensors TMA can load and whose gemms wgmma can do, in
nearly all cases. Invariant: elements are small integers and sums short, so that every order of additions gives the same
result; values that wgmma would round are clamped before.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from random_kernels.model import Choices
from random_kernels.programs import Program
from random_kernels.writer import Writer

from tilelang.dtypes import as_dtype

# of operands, accumulator, result
_KINDS = (
    ("float16", "float32", "float16"),
    ("bfloat16", "float32", "float32"),
    ("float16", "float16", "float16"),
    ("float8_e4m3fn", "float32", "float16"),
    ("int8", "int32", "int32"),
    ("tfloat32", "float32", "float32"),
    ("float8_e5m2", "float32", "float32"),
    ("float16", "float32", "float32"),
)
_OVERRIDES: dict[str, tuple[object, ...]] = {
    "persistent": (1, 0, 1),
    "consumers": (1, 2, 3),
    "stages": (2, 3, 1, 4, 7),
    "staged": (True, False, 2, 3, 4),
    "in_flight": (1, 0),
    "ping_pong": (1, 0),
    "l2_hints": (0, 1),
    "cluster": (2, (1, 2), (2, 2), (4, 1), (1, 1, 2)),
    "split": (2, 3, 4),
}
_MAX_ACCUMULATOR = 24576  # elements of one block's accumulators, so that simulation takes seconds
_MAX_MULTIPLICATIONS = 1 << 21  # scalar multiplications, likewise
_MAX_ITERATIONS = 1 << 16  # iterations of parallel loops in all blocks, which the reference interpreter takes one by one


def schedule_overrides(pick: Choices) -> dict[str, object]:
    """Random overrides of the schedule as pass_configs, mostly none."""
    made: dict[str, object] = {}
    for name, values in _OVERRIDES.items():
        if pick.often(35):
            made[name] = pick.one(values)
    if pick.often(12):
        made[pick.one(("disable_wgmma", "disable_tma_lower", "disable_warp_specialized"))] = 1
    return made


class WarpSpecializedPrograms(Writer):
    """Draws one program."""

    def __init__(self, choices: Choices, seed: int = 0) -> None:
        super().__init__(choices, seed)
        self._arguments: list[Any] = []
        self._signature: list[str] = []
        self._dims: dict[int, str] = {}
        self._dtype, self._sums, self._result = _KINDS[0]
        self._batches = 0
        self._grid_at: list[str] = []

    def program(self, kernels: int, statements: int) -> Program:
        """A function of one kernel."""
        pick = self.pick
        self._dtype, self._sums, self._result = pick.one(_KINDS)
        self._batches = pick.one((0, 0, 0, 2, 3))
        self._body()
        names = [f"{name} = T.dynamic('{name}')" for name in self._dims.values()]
        text = "\n".join(
            ["import tilelang.language as T", "import tilelang", "", *names, "", "@T.prim_func"]
            + [f"def main({', '.join(self._signature)}):", *self.out.lines, ""]
        )
        return Program(text, self._arguments, [0.0] * len(self._arguments))

    def _body(self) -> None:
        self.pick.one((self._gemms, self._gemms, self._attention))()

    # -- tensors ------------------------------------------------------------------------------------------------
    def _tensor(self, name: str, dtype: str, shape: tuple[int, ...], *, filled: bool = True, most: int = 2) -> None:
        """A parameter with its argument; its rows may lie apart, its extents may be known at the call only."""
        if self._batches and len(shape) > 1:
            shape = (self._batches, *shape)
        numpy, step = as_dtype(dtype).numpy, 128 // as_dtype(dtype).bits
        apart = -(-shape[-1] // step) * step + (step * self.pick.below(3) if self.pick.often(10) else 0)
        array = np.zeros((*shape[:-1], apart), numpy)[..., : shape[-1]]
        if filled:
            array[...] = self.rng.integers(-most, most + 1, shape).astype(numpy)
        else:
            array[...] = np.full(shape, 7).astype(numpy)
        steps: list[int] = [1]
        for extent in (apart, *reversed(shape[1:-1])):
            steps.insert(0, steps[0] * extent)
        strided = apart != shape[-1] and len(shape) > 1
        kind, pitch = ("T.StridedTensor", f", {tuple(steps[-len(shape) :])}") if strided else ("T.Tensor", "")
        extents = [self._extent(extent) if dim < len(shape) - 1 else str(extent) for dim, extent in enumerate(shape)]
        self._signature.append(f"{name}: {kind}(({', '.join(extents)},){pitch}, '{dtype}')")
        self._arguments.append(array if strided else np.ascontiguousarray(array))

    def _extent(self, extent: int) -> str:
        if extent not in self._dims and extent > 1 and self.pick.often(15):
            self._dims[extent] = f"S{len(self._dims)}"
        return self._dims.get(extent, str(extent))

    def _at(self, *places: str) -> str:
        """A position in a tensor of the batch at hand."""
        return ", ".join((*(("bz",) if self._batches else ()), *places))

    def _size(self, tile: int, most: int) -> int:
        """An extent that tiles divide, or do not."""
        return self.pick.one((2 * tile, tile, min(tile + 8, most), max(8, 2 * tile - 24), tile + 1, 3 * tile - 16, 8))

    def _fitting(self, options: tuple[int, ...], most: int) -> int:
        return self.pick.one([option for option in options if option <= most] or [min(options)])

    def _within_reach(self, rows: int, tall: int, columns: int, wide: int, more: int = 0) -> tuple[int, int]:
        """Extents with fewer tiles of `tall` x `wide` if loops over all of them, and `more` columns, would take long."""
        while True:
            tiles = -(-rows // tall), -(-columns // wide)
            points = tiles[0] * tall * tiles[1] * (wide + more) * max(1, self._batches)
            if tiles == (1, 1) or points <= _MAX_ITERATIONS:
                return rows, columns
            if tiles[0] >= tiles[1]:
                rows -= min(tall, rows - tall)
            else:
                columns -= min(wide, columns - wide)

    def _begin(self, grid: str, names: str) -> None:
        if self._batches:
            grid, names = f"{grid}, {self._batches}", f"{names}, bz"
        names = f"({names})" if "," in names else names
        self.out.line(f"with T.Kernel({grid}, threads={self.pick.one((128, 256, 384))}) as {names}:")
        self.out.depth += 1
        if self.pick.often(15):
            order = self.pick.one(("", ", order='column'"))
            self.out.line(f"T.use_swizzle({1 + self.pick.below(4)}{order})")

    # -- products -------------------------------------------------------------------------------------------------
    def _gemms(self) -> None:
        """One or more sums of products, over one or more loops."""
        pick, line = self.pick, self.out.line
        bits = as_dtype(self._dtype).bits
        bm = pick.one((64, 128, 192, 256, 64))
        bn = self._fitting((64, 128, 32, 8, 16, 96, 40, 192, 256, 104), _MAX_ACCUMULATOR // bm)
        bk = pick.one((64, 32, 16, 128, 48)) * 16 // bits
        ta, tb = ((pick.often(40), pick.often(50)) if bits == 16 else (False, True))
        m, n, k = self._size(bm, 512), self._size(bn, 512), self._size(bk, 512)
        while m * n * k * max(1, self._batches) > _MAX_MULTIPLICATIONS and max(m // bm, n // bn, k // bk) > 1:
            m, n, k = (size - tile if size > tile else size for size, tile in ((m, bm), (n, bn), (k, bk)))
        m, n = self._within_reach(m, bm, n, bn)
        count = pick.one((1, 1, 2, 2, 3)) if bm * bn * 2 <= _MAX_ACCUMULATOR else 1
        shared_a = pick.often(60)
        shape_a, shape_b = ((k, m) if ta else (m, k)), ((n, k) if tb else (k, n))
        for i in range(count):
            if i == 0 or not shared_a:
                self._tensor(f"A{i}", self._dtype, shape_a)
            self._tensor(f"B{i}", self._dtype, shape_b)
        extras = [e for e in ("row", "column", "residual", "scale", "cut") if pick.often(25)]
        if self._sums == "float16" and "scale" in extras:
            extras.remove("scale")
        if "row" in extras:
            self._tensor("bias", self._sums, (n,))
        if "column" in extras:
            self._tensor("weight", self._sums, (m,))
        if "residual" in extras:
            self._tensor("R", self._sums, (m, n))
        lengths = pick.often(15)
        if lengths:
            rows = -(-m // bm)
            self._signature.append(f"lengths: T.Tensor(({rows},), 'int32')")
            self._arguments.append(self.rng.integers(0, -(-k // bk) + 1, rows).astype(np.int32))
        outputs = pick.one((1, 1, 2)) if count > 1 else 1
        for i in range(outputs):
            self._tensor(f"C{i}", self._result, (m, n), filled=False)
        self._begin(f"T.ceildiv({n}, {bn}), T.ceildiv({m}, {bm})", "bx, by")
        tile_a, tile_b = ((bk, bm) if ta else (bm, bk)), ((bn, bk) if tb else (bk, bn))
        tiles: list[str] = []
        for i in range(count):
            if i == 0 or not shared_a:
                tiles.append(f"A{i}_s")
                line(f"A{i}_s = T.alloc_shared({tile_a}, '{self._dtype}')")
            tiles.append(f"B{i}_s")
            line(f"B{i}_s = T.alloc_shared({tile_b}, '{self._dtype}')")
            line(f"C{i}_l = T.alloc_fragment(({bm}, {bn}), '{self._sums}')")
        if pick.often(10):
            line(f"T.annotate_layout({{{tiles[0]}: tilelang.layout.make_swizzled_layout({tiles[0]})}})")
        if "residual" in extras:
            line(f"R_s = T.alloc_shared(({bm}, {bn}), '{self._sums}')")
            line(f"T.copy(R[{self._at(f'by * {bm}', f'bx * {bn}')}], R_s)")
        flags = (", transpose_A=True" if ta else "") + (", transpose_B=True" if tb else "")
        trips = f"T.ceildiv({k}, {bk})"
        bound = pick.one((trips, trips, trips, f"T.min(by + 1, {trips})", f"1, {trips}"))
        bound = "lengths[by]" if lengths else bound
        together = pick.often(60)
        guarded = pick.often(12)
        around = pick.often(12)
        repeats = 2 if pick.often(10) else 1
        for i in range(count):
            line(f"T.clear(C{i}_l)")
        for first in (0,) if together else range(count):
            mine = range(count) if together else (first,)
            depth = self.out.depth
            if repeats > 1:
                line(f"for turn in T.serial({repeats}):")
                self.out.depth += 1
            if around and first == 0:
                line("if by > 0:" if pick.often(50) else "if bx + by < 3:")
                self.out.depth += 1
            at, end = self.position("k", bk, int(bound.startswith("1, ")))
            at_a = self._at(at, f"by * {bm}") if ta else self._at(f"by * {bm}", at)
            at_b = self._at(f"bx * {bn}", at) if tb else self._at(at, f"bx * {bn}")
            how = "" if guarded or end != "pass" else pick.one(("", "", "", "", "", "", "", "rotated", "rotated", "placed"))
            copies = [(f"A{i}[{at_a}]", f"A{i}_s") for i in mine if not shared_a]
            copies += [(f"B{i}[{at_b}]", f"B{i}_s") for i in mine]
            if shared_a:
                copies.insert(0, (f"A0[{at_a}]", "A0_s"))
            begin = bk * bound.startswith("1, ")
            if how == "rotated" and begin >= k:
                how = ""  # what is past the end of a tensor for certain is refused
            if how == "rotated":
                self._loads(copies, f"k * {bk}", str(begin))
            loop = len(self.out.lines)
            line(f"for k in T.Pipelined({bound}, num_stages={pick.one((2, 3, 4, 2, 5))}):")
            self.out.depth += 1
            body = self.out.depth
            if guarded:
                line(pick.one(("if k % 2 == 0:", "if (k + by) % 3 != 1:", "if k >= bx:")))
                self.out.depth += 1
            self._step(list(mine), shared_a, [] if how == "rotated" else copies, flags)
            if how == "rotated":
                self._next_loads(copies, f"k * {bk}", bk, bound)
            if how == "placed":
                self._place(loop)
            self.out.depth = body
            line(end)
            self.out.depth = depth
        for i in range(count):
            value = f"C{i}_l[i, j]"
            if "cut" in extras:
                value = f"T.max({value}, 0)"
            if "scale" in extras:
                value = f"{value} * 2"
            if "row" in extras:
                value += f" + bias[bx * {bn} + j]" if pick.often(50) else f" + T.if_then_else(bx * {bn} + j < {n}, bias[bx * {bn} + j], 1)"
            if "column" in extras:
                value += f" + weight[by * {bm} + i]"
            if "residual" in extras:
                value += " + R_s[i, j]"
            if value != f"C{i}_l[i, j]":
                line(f"for i, j in T.Parallel({bm}, {bn}):")
                line(f"    C{i}_l[i, j] = {value}")
        if outputs < count:
            line(f"for i, j in T.Parallel({bm}, {bn}):")
            line("    C0_l[i, j] = " + " + ".join(f"C{i}_l[i, j]" for i in (0, *range(outputs, count))))
        for i in range(outputs):
            self._epilogue(f"C{i}_l", f"C{i}", (bm, bn), self._at(f"by * {bm}", f"bx * {bn}"))

    def _loads(self, copies: list[tuple[str, str]], here: str, there: str) -> None:
        """Loads of an iteration, at another place than its own."""
        for source, tile in copies:
            self.out.line(f"T.copy({source.replace(here, there)}, {tile})")

    def _next_loads(self, copies: list[tuple[str, str]], here: str, step: int, bound: str) -> None:
        """The loads of the next iteration, if there is one; past the last one they may be left out or not."""
        depth = self.out.depth
        stop = bound.removeprefix("1, ")
        if guard := self.pick.one(("", f"if k + 1 < {stop}:", f"if k < {stop} - 1:", f"if k != {stop} - 1:")):
            self.out.line(guard)
            self.out.depth += 1
        self._loads(copies, here, f"(k + 1) * {step}")
        self.out.depth = depth

    def _place(self, loop: int, gemm_behind: bool = False) -> None:
        """Places the statements of a loop, of which line `loop` is the head: loads run ahead, perhaps all others on.

        With `gemm_behind`, its last gemm runs an iteration later, after the first one of that iteration.
        """
        begin = "    " * self.out.depth
        inside = [line.removeprefix(begin) for line in self.out.lines[loop + 1 :]]
        statements = [line for line in inside if not line.startswith(" ")]
        ahead = self.pick.one((1, 2, 0))
        stage = [0 if line.startswith("T.copy(") and "[" in line else ahead for line in statements]
        sequence = list(range(len(statements)))
        if gemm_behind:
            first = next(n for n, line in enumerate(statements) if line.startswith("T.gemm("))
            stage[-1] += 1
            sequence.insert(first + 1, sequence.pop())
        order = [sequence.index(number) for number in range(len(sequence))]
        self.out.lines[loop] = self.out.lines[loop].replace("):", f", order={order}, stage={stage}):")

    def _divide(self, loop: int, trips: str, first: str) -> None:
        """Makes two of a loop, whose head is line `loop`: its first iterations and the others."""
        head, *body = self.out.lines[loop:]
        first = f"T.min({first}, {trips})"
        heads = [head.replace(f"T.Pipelined({trips}", f"T.Pipelined({part}") for part in (first, f"{first}, {trips}")]
        self.out.lines[loop:] = [heads[0], *body, heads[1], *body]

    def _step(self, mine: list[int], shared_a: bool, copies: list[tuple[str, str]], flags: str) -> None:
        """The body of a loop, which begins with these loads."""
        copies = list(copies)
        late = self.pick.often(30)
        for i in mine:
            now = [c for c in copies if not late or c[1] in (f"A{i}_s", f"B{i}_s") or i == mine[0] and c[1] == "A0_s"]
            for source, tile in now:
                self.out.line(f"T.copy({source}, {tile})")
                copies.remove((source, tile))
            if late:
                self._gemm(i, shared_a, flags)
        if not late:
            for i in mine:
                self._gemm(i, shared_a, flags)

    def _gemm(self, i: int, shared_a: bool, flags: str) -> None:
        left, policy = (0 if shared_a else i), ""
        if self.pick.often(20):
            policy = ", policy=T.GemmWarpPolicy." + self.pick.one(("FullRow", "FullCol"))
        self.out.line(f"T.gemm(A{left}_s, B{i}_s, C{i}_l{flags}{policy})")

    def _epilogue(self, source: str, target: str, tile: tuple[int, int], at: str) -> None:
        form = self.pick.below(6)
        if form in (1, 5):
            self.out.line(f"{target}_s = T.alloc_shared({tile}, '{self._result}')")
            self.out.line(f"T.copy({source}, {target}_s)")
            source = f"{target}_s"
        elif form == 2:
            self.out.line(f"{target}_r = T.alloc_fragment({tile}, '{self._result}')")
            self.out.line(f"T.copy({source}, {target}_r)")
            source = f"{target}_r"
        if form >= 4:  # blocks have tiles of their own, so that sums are of two values in any order
            self.out.line(f"T.atomic_add({target}[{at}], {source})")
        else:
            self.out.line(f"T.copy({source}, {target}[{at}])")

    # -- attention ------------------------------------------------------------------------------------------------
    def _attention(self) -> None:
        """Two products in a row, of which the first one's result is an operand of the second."""
        pick, line = self.pick, self.out.line
        if self._sums != "float32" or as_dtype(self._dtype).bits != 16:
            self._dtype, self._sums, self._result = "float16", "float32", "float32"
        bm = pick.one((64, 128, 192))
        bn = pick.one((64, 32, 128, 16, 48))
        d, dv = pick.one((64, 32, 128, 16)), pick.one((64, 32, 96, 16))
        rows, keys = self._size(bm, 400), self._size(bn, 400)
        self._batches = 0 if rows * keys * (d + dv) > _MAX_MULTIPLICATIONS else self._batches
        rows, keys = self._within_reach(rows, bm, keys, bn, dv)
        tv = pick.often(25)
        self._tensor("Q", self._dtype, (rows, d))
        self._tensor("K", self._dtype, (keys, d))
        self._tensor("V", self._dtype, (dv, keys) if tv else (keys, dv))
        self._tensor("O", self._result, (rows, dv), filled=False)
        with_rows = pick.often(60)
        if with_rows:
            self._tensor("total", "float32", (rows, 8), filled=False)
        self._begin(f"T.ceildiv({rows}, {bm})", "bx")
        line(f"Q_s = T.alloc_shared(({bm}, {d}), '{self._dtype}')")
        line(f"K_s = T.alloc_shared(({bn}, {d}), '{self._dtype}')")
        line(f"V_s = T.alloc_shared({(dv, bn) if tv else (bn, dv)}, '{self._dtype}')")
        line(f"S_l = T.alloc_fragment(({bm}, {bn}), 'float32')")
        line(f"W_l = T.alloc_fragment(({bm}, {bn}), '{self._dtype}')")
        line(f"O_l = T.alloc_fragment(({bm}, {dv}), 'float32')")
        line(f"sum_l = T.alloc_fragment(({bm},), 'float32')")
        line(f"most_l = T.alloc_fragment(({bm},), 'float32')")
        through = pick.often(25)
        if through:
            line(f"W_s = T.alloc_shared(({bm}, {bn}), '{self._dtype}')")
        line(f"T.copy(Q[{self._at(f'bx * {bm}', '0')}], Q_s)")
        line("T.clear(O_l)")
        line("T.clear(sum_l)")
        line("T.fill(most_l, -100.0)")
        causal = pick.often(50)
        all_ = f"T.ceildiv({keys}, {bn})"
        trips = pick.one((f"T.min({all_}, (bx + 1) * {bm} // {bn} + 1)", f"T.min({all_}, bx + 1)")) if causal else all_
        how = pick.one(("", "", "", "", "", "rotated", "rotated", "placed", "placed", "in two"))
        keys_at = [(f"K[{self._at(f'k * {bn}', '0')}]", "K_s")]
        if how == "rotated":
            self._loads(keys_at, f"k * {bn}", "0")
        loop = len(self.out.lines)
        line(f"for k in T.Pipelined({trips}, num_stages={pick.one((2, 3, 2, 4))}):")
        self.out.depth += 1
        at_v = self._at("0", f"k * {bn}") if tv else self._at(f"k * {bn}", "0")
        if how != "rotated":
            self._loads(keys_at, "", "")
        early = pick.often(50)
        if early:
            line(f"T.copy(V[{at_v}], V_s)")
        policy = pick.one((", policy=T.GemmWarpPolicy.FullRow", ""))
        if pick.often(50):
            line("T.clear(S_l)")
            line(f"T.gemm(Q_s, K_s, S_l, transpose_B=True{policy})")
        else:
            line(f"T.gemm(Q_s, K_s, S_l, transpose_B=True, clear_accum=True{policy})")
        if how == "rotated":
            self._next_loads(keys_at, f"k * {bn}", bn, trips)
        line(f"for i, j in T.Parallel({bm}, {bn}):")
        seen = f"k * {bn} + j < {keys}"
        if causal and pick.often(60):
            seen = f"T.all_of({seen}, k * {bn} + j <= bx * {bm} + i)"
        line(f"    S_l[i, j] = T.if_then_else({seen}, T.max(T.min(S_l[i, j], 2), -1), 0)")
        line("T.reduce_sum(S_l, sum_l, dim=1, clear=False)")
        if pick.often(40):
            line("T.reduce_max(S_l, most_l, dim=1, clear=False)")
            line(f"for i, j in T.Parallel({bm}, {dv}):")
            line("    O_l[i, j] = T.if_then_else(most_l[i] < 1, 0, O_l[i, j])")
        if not early:
            line(f"T.copy(V[{at_v}], V_s)")
        line("T.copy(S_l, W_l)")
        left = "W_l"
        if through:
            line("T.copy(W_l, W_s)")
            left = "W_s"
        line(f"T.gemm({left}, V_s, O_l{', transpose_B=True' if tv else ''}{policy})")
        if how == "placed":
            self._place(loop, gemm_behind=pick.often(60))
        if how == "in two":
            self._divide(loop, trips, pick.one(("1", "2", "bx")))
        self.out.depth -= 1
        line(f"for i, j in T.Parallel({bm}, {dv}):")
        line(f"    O_l[i, j] = {pick.one(('O_l[i, j] + sum_l[i]', 'O_l[i, j] * 2', 'T.max(O_l[i, j], most_l[i])'))}")
        if with_rows:
            line(f"for i in T.Parallel({bm}):")
            line(f"    if bx * {bm} + i < {rows}:")
            line(f"        total[{self._at(f'bx * {bm} + i', '3')}] = sum_l[i]")
        self._epilogue("O_l", "O", (bm, dv), self._at(f"bx * {bm}", "0"))
