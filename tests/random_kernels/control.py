"""Loops and branches around other statements."""

from __future__ import annotations

from random_kernels.model import Buffer, Scalar, Scope
from random_kernels.tiles import Tiles


class Control(Tiles):
    """Statements that hold others."""

    def block(self, scope: Scope, count: int, depth: int) -> None:
        """Some statements, nested at most `depth` deep."""
        raise NotImplementedError

    def _open(self, scope: Scope, header: str, indices: list[tuple[str, int, int]], trips: int) -> Scope:
        self.out.line(header)
        self.out.depth += 1
        inner = scope.inner()
        inner.indices += indices
        self._weight *= max(1, trips)
        return inner

    def _close(self, trips: int) -> None:
        self._weight //= max(1, trips)
        self.out.depth -= 1

    def _serial(self, scope: Scope, depth: int) -> bool:
        i = self.name("s")
        start, count, step = self.pick.below(5) - 1, self.pick.below(6), self.pick.one((1, 1, 2, -1, -3))
        stop = start + count * step
        values = range(start, stop, step)
        low, high = (min(values), max(values)) if count else (start, start)
        if step == 1 and start == 0 or count == 0 and self.pick.often(50):
            bounds = str(max(0, stop)) if step == 1 and start == 0 else f"{start}, {start}"
        else:
            bounds = f"{start}, {stop}" + (f", {step}" if step != 1 else "")
        if count == 0 and bounds.isdigit():
            low, high = 0, 0
        if self.pick.often(20) and step == 1 and start == 0:
            ints = [b for b in scope.readable() if b.dtype in ("int32", "int64", "uint8")]
            if ints:
                bounds = f"{self.make.element_plain(scope, self.pick.one(ints))} % 5"
                low, high, count = 0, 3, 4
        kind = self.pick.one(("range", "T.serial", "T.unroll"))
        inner = self._open(scope, f"for {i} in {kind}({bounds}):", [(i, low, high)], count)
        if self.pick.often(15):
            self.out.line(f"if {self.make.truth(inner, 2)}:")
            self.out.line(f"    {self.pick.one(('break', 'continue'))}")
        self.block(inner, 1 + self.pick.below(2), depth)
        if self.pick.often(15):
            self.out.line(f"if {self.make.truth(inner, 2)}:")
            self.out.line("    break")
            self.block(inner, 1, 0)
        self._close(count)
        return True

    def _if(self, scope: Scope, depth: int) -> bool:
        inner = self._open(scope, f"if {self.make.truth(scope, 2)}:", [], 1)
        self.block(inner, 1 + self.pick.below(2), depth)
        self._close(1)
        if self.pick.often(30):
            inner = self._open(scope, f"elif {self.make.truth(scope, 2)}:", [], 1)
            self.block(inner, 1, depth)
            self._close(1)
        if self.pick.often(50):
            inner = self._open(scope, "else:", [], 1)
            self.block(inner, 1, depth)
            self._close(1)
        return True

    def _while(self, scope: Scope, depth: int) -> bool:
        w, most = self.name("w"), self.pick.below(5)
        start = self.pick.one(("T.int32(0)", "T.alloc_var('int32', init=0)", "T.int64(0)"))
        self.out.line(f"{w} = {start}")
        extra = f" and {self.make.truth(scope, 1)}" if self.pick.often(40) else ""
        inner = self._open(scope, f"while {w} < {most}{extra}:", [], most)
        if self.pick.often(30):
            self.out.line(f"{w} += 1")
            self.out.line(f"if {self.make.truth(inner, 1)}:")
            self.out.line(f"    {self.pick.one(('continue', 'break'))}")
            self.block(inner, 1, depth)
        else:
            self.block(inner, 1, depth)
            self.out.line(f"{w} += {self.pick.one((1, 2))}")
        self._close(most)
        return True

    def _pipelined(self, scope: Scope, depth: int) -> bool:
        """Tiles of a tensor are copied in, one after another, and worked on."""
        sources = [b for b in scope.readable() if b.scope == "global" and not b.writable and b.shape and not b.special]
        if not sources:
            return False
        source, tile = self.pick.one(sources), self.pick.one((4, 1, 3, 8))
        trips = min(6, (source.shape[-1] + tile - 1) // tile)
        k = self.name("k")
        scratch = Buffer(self.name("S"), source.dtype, (tile,), "shared", bound=source.bound, grain=source.grain)
        inside = self.pick.often(30)
        alloc = f"{scratch.name} = T.alloc_shared(({tile},), '{scratch.dtype}')"
        if not inside:
            self.out.line(alloc)
        form = self.pick.below(3)
        if form == 2:
            self.out.line(f"with T.pipeline(num_stages={self.pick.below(4)}):")
            self.out.depth += 1
            header = f"for {k} in range({trips}):"
        else:
            header = f"for {k} in T.Pipelined({trips}, num_stages={self.pick.below(4)}):"
        inner = self._open(scope, header, [(k, 0, trips - 1)], trips)
        if inside:
            self.out.line(alloc)
        lead = [self.make.index(inner, 0, e - 1, 0) for e in source.shape[:-1]]
        self.out.line(f"T.copy({source.at([*lead, f'{k} * {tile}'])}, {scratch.name})")
        inner.buffers.append(scratch)
        self.block(inner, 1 + self.pick.below(2), min(depth, 1))
        self._close(trips)
        if form == 2:
            self.out.depth -= 1
        return True

    def _plain_loop(self, scope: Scope, depth: int) -> bool:
        """A loop over plain Python values, and a branch on one: both run while the kernel is staged."""
        c, values = self.name("c"), tuple(self.pick.below(4) for _ in range(1 + self.pick.below(2)))
        inner = self._open(scope, f"for {c} in {(*values,)}:", [], len(values))
        inner.scalars.append(Scalar(f"T.int32({c})", "int32"))
        if self.pick.often(30):
            self.out.line(f"if {c} == 2:")
            self.out.line("    continue")
        self.block(inner, 1, depth)
        self._close(len(values))
        return True

    def _persistent(self, scope: Scope, depth: int) -> bool:
        i, j = self.name("i"), self.name("j")
        rows, columns = 1 + self.pick.below(3), 1 + self.pick.below(3)
        waves = 1 + self.pick.below(4)
        place = f"{waves}, {self.pick.below(waves)}, group_size={self.pick.one((2, 1, 8))}"
        header = f"for {i}, {j} in T.Persistent([{rows}, {columns}], {place}):"
        inner = self._open(scope, header, [(i, 0, rows - 1), (j, 0, columns - 1)], rows * columns)
        self.block(inner, 1, depth)
        self._close(rows * columns)
        return True
