"""Random programs of pipelined loops: two or three gemms with arithmetic between them, which a software pipeline reorders.

Takes a source of choices, gives a `Program` of one kernel. Invariant: all values are small integers, so that every order
of adding gives the same: an operand is clamped before it is multiplied, and a row's statistics are clamped whenever they
are updated.
"""

from __future__ import annotations

from random_kernels.warp_specialized_programs import WarpSpecializedPrograms

_MAX_MULTIPLICATIONS = 1 << 20  # products of elements that the reference interpreter takes
_MAX_POINTS = 1 << 16  # iterations of parallel loops, which it takes one by one, about
_ROW_UPDATES = (
    "row[i] = T.max(row[i], found[i])",
    "row[i] = T.min(row[i] + found[i], 9)",
    "row[i] = T.max(T.min(found[i] - row[i], 5), -5)",
    "row[i] = T.if_then_else(found[i] > row[i], found[i], row[i] - 1)",
)


class GemmLoopPrograms(WarpSpecializedPrograms):
    """Draws one program."""

    def _body(self) -> None:
        """A loop over tiles of keys: gemms into scores, arithmetic on them, gemms of what they become."""
        pick, line = self.pick, self.out.line
        self._dtype = pick.one(("float16", "bfloat16"))
        self._sums, self._result = "float32", pick.one(("float32", "float16"))
        self._bm = pick.one((64, 128))
        self._bn = pick.one((32, 16, 64, 48))
        self._dim, self._wide = pick.one((32, 16, 64)), pick.one((32, 16, 64, 24))
        rows = pick.one((self._bm, 2 * self._bm, self._bm + 8))
        keys = self._bn * pick.one((3, 1, 2, 4, 5)) - pick.one((0, 0, 3))
        if rows * keys * (self._dim + self._wide) * max(1, self._batches) > _MAX_MULTIPLICATIONS:
            self._batches = 0
        rows, keys = self._short(rows, keys)
        self._shared = self._dim == self._wide and pick.often(25)  # one tile is an operand of both gemms
        scores = pick.one((1, 1, 2))
        self._tensor("Q", self._dtype, (rows, self._dim))
        self._tensor("K", self._dtype, (keys, self._dim))
        if scores == 2:
            self._tensor("K2", self._dtype, (keys, self._dim))
        if not self._shared:
            self._tensor("V", self._dtype, (keys, self._wide))
        self._tensor("O", self._result, (rows, self._wide), filled=False)
        self._tensor("R", "float32", (rows, 8), filled=False)
        lengths = pick.often(20)
        blocks = -(-rows // self._bm)
        if lengths:
            self._signature.append(f"lengths: T.Tensor(({blocks},), 'int32')")
            self._arguments.append(self.rng.integers(0, -(-keys // self._bn) + 1, blocks).astype("int32"))
        self._begin(f"T.ceildiv({rows}, {self._bm})", "bx")
        bm, bn = self._bm, self._bn
        line(f"Q_s = T.alloc_shared(({bm}, {self._dim}), '{self._dtype}')")
        line(f"K_s = T.alloc_shared(({bn}, {self._dim}), '{self._dtype}')")
        if scores == 2:
            line(f"K2_s = T.alloc_shared(({bn}, {self._dim}), '{self._dtype}')")
            line(f"S2 = T.alloc_fragment(({bm}, {bn}), 'float32')")
        if not self._shared:
            line(f"V_s = T.alloc_shared(({bn}, {self._wide}), '{self._dtype}')")
        line(f"S = T.alloc_fragment(({bm}, {bn}), 'float32')")
        line(f"P = T.alloc_fragment(({bm}, {bn}), '{self._dtype}')")
        line(f"acc = T.alloc_fragment(({bm}, {self._wide}), 'float32')")
        line(f"row = T.alloc_fragment(({bm},), 'float32')")
        line(f"found = T.alloc_fragment(({bm},), 'float32')")
        through = pick.often(20)
        if through:
            line(f"P_s = T.alloc_shared(({bm}, {bn}), '{self._dtype}')")
        line(f"T.copy(Q[{self._at(f'bx * {bm}', '0')}], Q_s)")
        line("T.clear(acc)")
        line("T.fill(row, 1.0)")
        all_ = f"T.ceildiv({keys}, {bn})"
        trips = "lengths[bx]" if lengths else pick.one((all_, all_, f"T.min({all_}, bx + 2)", f"1, {all_}"))
        self._key, end = self.position("k", bn, int(trips.startswith("1, ")))
        line(f"for k in T.Pipelined({trips}, num_stages={pick.one((2, 3, 2, 4, 1))}):")
        self.out.depth += 1
        self._iteration(scores, through, keys)
        line(end)
        self.out.depth -= 1
        line(f"for i, j in T.Parallel({bm}, {self._wide}):")
        line("    acc[i, j] = T.max(T.min(acc[i, j] + row[i], 1024), -1024)")
        line(f"for i in T.Parallel({bm}):")
        line(f"    if bx * {bm} + i < {rows}:")
        line(f"        R[{self._at(f'bx * {bm} + i', '3')}] = row[i]")
        self._epilogue("acc", "O", (bm, self._wide), self._at(f"bx * {bm}", "0"))

    def _short(self, rows: int, keys: int) -> tuple[int, int]:
        """Extents that do not take long: first without batches, then of one block, of fewer rows, of three iterations."""
        points = 4 * self._bn + 2 * self._wide  # for a row in an iteration
        if rows * max(1, self._batches) * -(-keys // self._bn) * points > _MAX_POINTS:
            self._batches = 0
        if rows * -(-keys // self._bn) * points > _MAX_POINTS:
            rows = self._bm
        if rows * -(-keys // self._bn) * points > _MAX_POINTS:
            rows = self._bm = 64
        while keys > 3 * self._bn and rows * -(-keys // self._bn) * points > _MAX_POINTS:
            keys -= self._bn
        return rows, keys

    def _iteration(self, scores: int, through: bool, keys: int) -> None:
        """The body of the loop."""
        pick, line, bm, bn = self.pick, self.out.line, self._bm, self._bn
        late = [] if self._shared else [f"T.copy(V[{self._at(self._key, '0')}], V_s)"]
        line(f"T.copy(K[{self._at(self._key, '0')}], K_s)")
        if late and pick.often(50):
            line(late.pop())
        self._scores("K_s", "S")
        if scores == 2:
            line(f"T.copy(K2[{self._at(self._key, '0')}], K2_s)")
            self._scores("K2_s", "S2")
            line(f"for i, j in T.Parallel({bm}, {bn}):")
            line("    " + pick.one(("S[i, j] = S[i, j] + S2[i, j]", "S[i, j] = T.max(S[i, j], S2[i, j])")))
        arithmetic = [self._clamp, self._statistics, self._rescale]
        for step in (arithmetic[0], *(arithmetic[1 + pick.below(2)] for _ in range(pick.below(4)))):
            step()
        if pick.often(15):
            line(f"if k % 2 == {pick.below(2)}:")
            line(f"    for i, j in T.Parallel({bm}, {bn}):")
            line("        S[i, j] = T.if_then_else(i > j, S[i, j], 1)")
        line(f"for i, j in T.Parallel({bm}, {bn}):")
        line(f"    S[i, j] = T.if_then_else({self._key} + j < {keys}, S[i, j], 0)")
        line("T.copy(S, P)")
        if pick.often(40):
            self._rescale()
        if late:
            line(late.pop())
        if through:
            line("T.copy(P, P_s)")
        line(f"T.gemm({'P_s' if through else 'P'}, {'K_s' if self._shared else 'V_s'}, acc{self._policy()})")
        if pick.often(20):
            self._rescale()
        if pick.often(10):
            line(f"for turn in T.serial({pick.one((1, 2))}):")
            line(f"    for i in T.Parallel({bm}):")
            line("        row[i] = T.max(row[i] - turn, -3)")

    def _scores(self, tile: str, target: str) -> None:
        """A gemm into scores, which overwrites them in one of three ways."""
        form, line = self.pick.below(3), self.out.line
        if form == 0:
            line(f"T.clear({target})")
        elif form == 1:
            line(f"for i, j in T.Parallel({self._bm}, {self._bn}):")
            line(f"    {target}[i, j] = T.if_then_else({self._key} + j <= bx * {self._bm} + i, 0, -3)")
        clear = ", clear_accum=True" if form == 2 else ""
        line(f"T.gemm(Q_s, {tile}, {target}, transpose_B=True{clear}{self._policy()})")

    def _policy(self) -> str:
        return self.pick.one(("", ", policy=T.GemmWarpPolicy.FullCol", ", policy=T.GemmWarpPolicy.FullRow"))

    def _clamp(self) -> None:
        self.out.line(f"for i, j in T.Parallel({self._bm}, {self._bn}):")
        value = self.pick.one(("S[i, j]", "S[i, j] - row[i]", "S[i, j] * 2"))
        self.out.line(f"    S[i, j] = T.max(T.min({value}, 2), -2)")

    def _statistics(self) -> None:
        line = self.out.line
        line(f"T.reduce_{self.pick.one(('max', 'sum'))}(S, found, dim=1)")
        line(f"for i in T.Parallel({self._bm}):")
        line(f"    {self.pick.one(_ROW_UPDATES)}")

    def _rescale(self) -> None:
        self.out.line(f"for i, j in T.Parallel({self._bm}, {self._wide}):")
        self.out.line("    " + self.pick.one((
            "acc[i, j] = T.if_then_else(row[i] > 1, -acc[i, j], acc[i, j])",
            "acc[i, j] = T.max(T.min(acc[i, j] + row[i], 256), -256)",
        )))  # fmt: skip
