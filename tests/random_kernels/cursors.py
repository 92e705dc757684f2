"""Mutable scalars that stand in indices, offsets of copies, bounds of loops and conditions, and change between uses."""

from __future__ import annotations

import math
from collections.abc import Callable

from random_kernels.model import Buffer, Scalar, Scope
from random_kernels.selections import Selections
from random_kernels.writer import ON_CHIP


class Cursors(Selections):
    """Statements on scalars from 0 to a greatest value, which a scope lists among its indices, too."""

    def opening(self, scope: Scope) -> None:
        """What stands at the start of a kernel."""
        super().opening(scope)
        if self.pick.often(60):
            self._cursor(scope)

    def statement(self, scope: Scope, depth: int) -> None:
        """One statement; where scalars stand in indices, often one that changes such a scalar."""
        if any(s.high is not None for s in scope.scalars) and self.pick.often(30):
            nested: tuple[Callable[[Scope, int], bool], ...] = (self._loop_to_cursor, self._loop_by_cursor)
            if depth > 0 and self._weight <= 12 and self.pick.often(25):
                self.pick.one(nested)(scope, depth - 1)
            else:
                self.pick.one((self._advance, self._advance, self._ring, self._ring, self._walk_to_cursor))(scope)
            return
        super().statement(scope, depth)

    def _cursor(self, scope: Scope) -> Scalar:
        """A new scalar; one that `counts` is only added to, as often as its greatest value allows."""
        dtype = self.pick.one(("int32", "int32", "int64", "uint8", "int16", "uint32"))
        counts = self.pick.often(40)
        high = self.pick.one((12, 31, 4, 40)) if counts else self.pick.one((7, 1, 2, 15, 4, 31))
        cursor = Scalar(self.name("v"), dtype, mutable=True, high=high, left=high if counts else None)
        start = 0 if counts else self.pick.below(high + 1)
        self.out.line(f"{cursor.name} = T.alloc_var('{dtype}', init={start})")
        self._in_indices(scope, cursor)
        scope.scalars.append(cursor)
        return cursor

    def _in_indices(self, scope: Scope, cursor: Scalar) -> None:
        assert cursor.high is not None
        wide = cursor.dtype in ("int32", "int64")  # others wrap
        scope.indices.append((cursor.name if wide else f"T.cast({cursor.name}, 'int32')", 0, cursor.high))

    def _advance(self, scope: Scope) -> bool:
        """Another value for one of the scalars."""
        cursor = self.pick.one([s for s in scope.scalars if s.high is not None])
        v, high = cursor.name, cursor.high
        assert high is not None
        if cursor.left is not None:
            by = 1 + self.pick.below(3)
            if by * self._weight <= cursor.left:
                cursor.left -= by * self._weight
                self.out.line(self.pick.one((f"{v} += {by}", f"{v} = {v} + {by}")))
            return True
        by = 1 + self.pick.below(min(high, 9))
        forms = [f"{v} = ({v} + {by}) % {high + 1}", f"if {v} < {high}:\n    {v} += 1", f"{v} = T.min({v} + {by}, {high})",
                 f"{v} = {high} - {v}", f"{v} = T.if_then_else({self.make.truth(scope, 1)}, {v}, {high} - {v})",
                 f"{v} = {self.make.index(scope, 0, high)}", f"if {self.make.truth(scope, 1)}:\n    {v} = {self.pick.below(high + 1)}",
                 f"if {v} > 0:\n    {v} -= 1"]  # fmt: skip
        if high & (high + 1) == 0:
            forms.append(f"{v} ^= {by % (high + 1)}")
        for line in self.pick.one(forms).split("\n"):
            self.out.line(line)
        return True

    def _ring(self, scope: Scope) -> bool:
        """A tile that a loop writes and reads at a moving place: an element at a time, each written before it is read."""
        if self._weight > 6:
            return False
        dtype, n = self.dtype(), self.pick.one((3, 1, 2, 4, 5, 8))
        bound, grain = self.contract(dtype, small=True)
        tile = Buffer(self.name("S"), dtype, (n,), self.pick.one(ON_CHIP), bound=bound, grain=grain)
        v, s, trips = self.name("v"), self.name("s"), n + self.pick.below(6)
        step = self.pick.one([c for c in (1, 2, 3, n - 1) if 0 < c <= n and math.gcd(c, n) == 1])
        out = self.owned(dtype, (trips,), like=tile)
        self._outputs.pop()  # the first elements are not written
        self.out.line(f"{tile.name} = T.alloc_{tile.scope}(({n},), '{dtype}')")
        self.out.line(f"{v} = T.alloc_var('{self.pick.one(('int32', 'int64', 'uint8'))}', init={self.pick.below(n)})")
        inner = scope.inner()
        inner.indices.append((s, 0, trips - 1))
        value = self.make.for_buffer(inner, tile, 2)
        move = self.pick.one((f"{v} = ({v} + {step}) % {n}", f"{v} += {step}\n    if {v} >= {n}:\n        {v} -= {n}"))
        moves = 1 + self.pick.below(2)
        read = [f"    if {s} >= {n - 1}:", f"        {out.at([s])} = {tile.at([v])}"]
        self.out.line(f"for {s} in {self.pick.one(('range', 'T.serial', 'T.unroll'))}({trips}):")
        self.out.line(f"    {tile.at([v])} = {value}")
        for number in range(moves):
            if moves == 1 or number:
                self._lines([f"    {move}", *read])
            elif self.pick.often(50):
                self._lines([f"    {out.at([s])} = {tile.at([v])}"])
        return True

    def _lines(self, texts: list[str]) -> None:
        for text in texts:
            for line in text.split("\n"):
                self.out.line(line)

    def _walk_to_cursor(self, scope: Scope) -> bool:
        """A loop over as many elements as a scalar says."""
        targets = [b for b in self._targets(scope) if len(b.shape) == 1]
        if not targets:
            return False
        target, inner, i = self.pick.one(targets), scope.inner(), self.name("i")
        inner.blocked.add(target.storage)
        inner.indices.append((i, 0, target.shape[0] - 1))
        inner.own.append((target.at([i]), target))
        kind = self.pick.one(("Parallel", "Parallel", "vectorized", "serial"))
        self.out.line(f"for {i} in T.{kind}({self.make.index(scope, 0, target.shape[0])}):")
        self.out.depth += 1
        self._body(inner, target, [i], whole=False)
        self.out.depth -= 1
        return True

    def _loop_to_cursor(self, scope: Scope, depth: int) -> bool:
        """A loop of which a scalar is a bound, which may change inside."""
        cursor = self.pick.one([s for s in scope.scalars if s.high is not None and s.high <= 7] or [self._cursor(scope)])
        v, s, high = cursor.name, self.name("s"), cursor.high
        assert high is not None
        bounds, low, most = self.pick.one(
            ((f"T.min({v}, 4)", 0, 3), (f"{v}, {v} + 2", 0, high + 1), (f"{v} % 3, 4", 0, 3), (f"{v} % 5", 0, 3))
        )
        header = f"for {s} in {self.pick.one(('range', 'T.serial', 'T.unroll'))}({bounds}):"
        inner = self._open(scope, header, [(s, low, most)], 4)
        self.block(inner, 1 + self.pick.below(3), depth)
        self._close(4)
        return True

    def _loop_by_cursor(self, scope: Scope, depth: int) -> bool:
        """A loop that ends when a scalar is large enough."""
        cursor = Scalar(self.name("v"), self.pick.one(("int32", "int64")), high=self.pick.one((3, 4, 1)))
        assert cursor.high is not None
        self.out.line(f"{cursor.name} = T.alloc_var('{cursor.dtype}', init=0)")
        inner = self._open(scope, f"while {cursor.name} < {cursor.high}:", [], cursor.high)
        self._in_indices(inner, cursor)
        early = self.pick.often(40)
        self.block(inner, 1, depth)
        self.out.line(f"{cursor.name} += 1")
        if early:
            self.block(inner, 1, depth)
        self._close(cursor.high)
        return True
