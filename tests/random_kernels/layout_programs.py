"""Random kernels that are hard for layout inference on GPUs: tiles that many threads access in conflicting layouts.

Takes what `Programs` draws and adds tiles of many sizes that loops iterate in different orders, updates of few elements by
many iterations, products with every option, loops that copy ahead, atomics on the chip and layouts chosen by hand.
Invariant: as for `Programs`; in addition whole kernels run with any number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from random_kernels.model import Buffer, Choices, Scalar, Scope, is_float
from random_kernels.programs import Programs

THREADS = ("32", "64", "96", "128", "(32, 4)", "160", "256", "512", "(16, 2, 3)", "7")
SIDES = (16, 8, 32, 1, 4, 64, 24, 17, 33, 5, 100, 128, 2, 48, 31, 40, 13)
INTEGERS = ("int32", "int16", "int8", "uint32", "int64", "uint8")
FLOATS = ("float32", "float16", "bfloat16", "float64")


class LayoutPrograms(Programs):
    """Draws one program for a GPU."""

    RANKS = (1, 1, 2)
    BLOCKS = (1, 2, 3)
    _threads = 1

    def __init__(self, choices: Choices, seed: int = 0) -> None:
        super().__init__(choices, seed)
        self._by_hand: set[str] = set()  # tiles with a layout

    def threads(self) -> str:
        """The option of the kernel that says how many threads a block has."""
        text = self.pick.one(THREADS)
        self._threads = math.prod(int(n) for n in text.strip("()").split(","))
        return f", threads={text}"

    def opening(self, scope: Scope) -> None:
        """What stands at the start of a kernel."""
        if len(self._grid) > 1 and self.pick.often(30):
            order = self.pick.one(("row", "column"))
            self.out.line(f"T.use_swizzle({1 + self.pick.below(4)}, order='{order}')")
        for _ in range(1 + self.pick.below(3)):
            self._tile(scope)

    def statement(self, scope: Scope, depth: int) -> None:
        """One statement, rather one on whole tiles."""
        kind = self.pick.below(10)
        if kind < 4 or self._weight > 100:
            self.pick.one((self._walk, self._walk, self._fold, self._fold_rows, self._move, self._atomic_tile))(scope)
        elif kind < 6:
            made: tuple[Callable[[Scope], bool], ...] = (
                self._tile, self._gemm, self._reduce, self._scan, self._transpose, self._count
            )  # fmt: skip
            if not self.pick.one(made)(scope):
                self._walk(scope)
        elif kind < 8 and depth > 0:
            nested = (self._ahead, self._ahead, self._until, self._serial, self._if, self._persistent)
            if not self.pick.one(nested)(scope, depth - 1):
                self._walk(scope)
        else:
            super().statement(scope, depth)

    # -- tiles ------------------------------------------------------------------------------------------------
    def _tile(self, scope: Scope) -> bool:
        """A tile with defined contents, mostly of two dimensions."""
        rank = self.pick.one((2, 2, 1, 3))
        here = [b for b in scope.buffers if b.scope in ("shared", "fragment") and len(b.shape) == rank]
        if here and self.pick.often(50):
            shape = self.pick.one(here).shape
        else:
            most, extents = 2048, []
            for _ in range(rank):
                extents.append(self.pick.one([e for e in SIDES if e <= most]))
                most //= extents[-1]
            shape = tuple(extents)
        dtype = self.pick.one(INTEGERS + FLOATS) if self.pick.often(50) else self.dtype()
        self._laid_out(self.allocate(scope, dtype, shape, self.pick.one(("fragment", "shared"))))
        return True

    def _laid_out(self, tile: Buffer) -> None:
        """Sometimes a layout by hand."""
        if not self.pick.often(20):
            return
        self._by_hand.add(tile.name)
        if tile.scope == "fragment":
            if len(tile.shape) == 2:
                rows, columns = tile.shape
                if rows % 4 or columns % 4 or self._threads % 8:
                    return
                form = self.pick.one(
                    ("i % 4 * 2 + j % 2, i // 4 * {h} + j // 2", "j % 4 * 2 + i % 2, j // 4 * {m} + i // 2")
                )
                form = form.format(h=columns // 2, m=rows // 2)
                copies = self._threads // 8
                self.out.line(
                    f"T.annotate_layout({{{tile.name}: T.Fragment({tile.shape}, lambda i, j, r: (r * 8 + {form}), "
                    f"replicate={copies})}})"
                )
            return
        if len(tile.shape) == 2:
            rows, columns = tile.shape
            forms = [
                f"i * {columns + self.pick.below(5)} + j",
                f"j * {rows + self.pick.below(2)} + i",
                f"({columns - 1} - j, i)",
            ]
            if columns % 8 == 0 and columns & (columns - 1) == 0:
                forms += [
                    "(i, j ^ (i % 8))",
                    "(i // 2, (i % 2, j // 4 ^ (i // 2 % 2), j % 4)[0], j // 4 ^ (i % 2), j % 4)",
                ]
            self.out.line(
                f"T.annotate_layout({{{tile.name}: T.Layout({tile.shape}, lambda i, j: {self.pick.one(forms)})}})"
            )
        elif len(tile.shape) == 1:
            n = tile.shape[0]
            form = self.pick.one((f"{n - 1} - i", "i * 2", "i * 3 % 4 + i // 4 * 4"))
            self.out.line(f"T.annotate_layout({{{tile.name}: T.Layout({tile.shape}, lambda i: {form})}})")

    def _aligned(self, inner: Scope, names: list[str], extents: list[int]) -> None:
        """Elements of other buffers that belong to the iteration at hand, or to its row, or across."""
        orders = [list(names), list(reversed(names)), *([n] for n in names)]
        for buffer in inner.readable():
            if buffer.prefix or any(buffer.offsets):
                continue
            for order in orders:
                sizes = [extents[names.index(n)] for n in order]
                if len(order) == len(buffer.shape) and all(s <= e for s, e in zip(sizes, buffer.shape, strict=True)):
                    for _ in range(2):
                        inner.own.append((buffer.at(order), buffer))

    def _walk(self, scope: Scope) -> bool:
        """A loop over a whole tile, that reads others at the same place."""
        targets = [b for b in self._targets(scope) if b.shape]
        if not targets:
            return False
        target = self.pick.one(targets)
        names = [self.name("i") for _ in target.shape]
        extents = [e - (self.pick.below(e) if self.pick.often(15) else 0) for e in target.shape]
        order = list(range(len(names)))
        if self.pick.often(20):
            order.reverse()
        inner = scope.inner()
        inner.blocked.add(target.storage)
        inner.indices += [(n, 0, e - 1) for n, e in zip(names, extents, strict=True)]
        self._aligned(inner, names, extents)
        inner.own.append((target.at(names), target))
        bounds = ", ".join(self.extent_text(extents[o]) for o in order)
        width = f", coalesced_width={self.pick.one((1, 2, 4))}" if self.pick.often(5) else ""
        self.out.line(f"for {', '.join(names[o] for o in order)} in T.Parallel({bounds}{width}):")
        self.out.depth += 1
        self._body(inner, target, names, whole=False)
        self.out.depth -= 1
        return True

    def _move(self, scope: Scope) -> bool:
        """A copy between tiles, or parts of them."""
        return self._copy(scope) or self._walk(scope)

    def _view(self, scope: Scope) -> bool:
        """Another name for the bytes of a tile whose layout is not given by hand."""
        inner = scope.inner()
        inner.buffers = [b for b in scope.buffers if b.storage not in self._by_hand]
        done = super()._view(inner)
        scope.buffers += [b for b in inner.buffers if b not in scope.buffers]
        return done

    # -- updates ----------------------------------------------------------------------------------------------
    def _fold(self, scope: Scope) -> bool:
        """Many iterations update few elements of a new tile, or a scalar."""
        floating = self.pick.often(30)
        dtype = self.pick.one(("float32", "float64")) if floating else self.pick.one(INTEGERS)
        rank = self.pick.one((2, 1, 3))
        extents = [self.pick.one([e for e in SIDES if e <= (64, 64, 16)[rank - 1]]) for _ in range(rank)]
        here = [b for b in scope.readable() if b.scope in ("shared", "fragment") and len(b.shape) == rank]
        if here and self.pick.often(60):
            extents = list(self.pick.one(here).shape)
        names = [self.name("i") for _ in extents]
        ops = ("+", "max", "min") if floating else ("+", "max", "min", "^", "&", "|", "*")
        op = self.pick.one(ops)
        total = math.prod(extents)
        bound = 2 ** (4 * total + 4).bit_length() if floating else None
        inner = scope.inner()
        inner.indices += [(n, 0, e - 1) for n, e in zip(names, extents, strict=True)]
        kept = [(n, e) for n, e in zip(names, extents, strict=True) if self.pick.often(40)]
        if not kept and self.pick.often(50):
            result = Scalar(self.name("x"), dtype, bound, 1, mutable=True)
            self.out.line(f"{result.name} = T.alloc_var('{dtype}', init={self.pick.below(3)})")
            target = result.name
            scope.scalars.append(result)
        else:
            where = self.pick.one(("fragment", "shared", "local"))
            shape = tuple(e for _, e in kept) or (1 + self.pick.below(3),)
            indices = [n for n, _ in kept] or [str(self.pick.below(shape[0]))]
            form = self.pick.below(6)
            if form == 1 and kept:
                shape, indices = (*shape[:-1], (shape[-1] + 1) // 2), [*indices[:-1], f"{indices[-1]} // 2"]
            elif form == 2 and kept and shape[-1] > 3:
                shape, indices = (*shape[:-1], 3), [*indices[:-1], f"{indices[-1]} % 3"]
            elif form == 3:
                indices = [f"{e - 1} - {n}" for n, e in zip(indices, shape, strict=True)]
            elif form == 4:
                shape, indices = (2, *shape), [self.make.index(scope, 0, 1), *indices]
            tile = Buffer(self.name("S"), dtype, shape, where, bound=bound, grain=1)
            self.out.line(f"{tile.name} = T.alloc_{where}({shape}, '{dtype}')")
            self.out.line(self.pick.one((f"T.clear({tile.name})", f"T.fill({tile.name}, 2)")))
            target = tile.at(indices)
            scope.buffers.append(tile)
        self._aligned(inner, names, extents)
        order = list(range(rank))
        if self.pick.often(20):
            order.reverse()
        split = self.pick.below(rank) if self.pick.often(40) else rank
        heads = [o for o in [order[:split], order[split:]] if o]
        for head in heads:
            bounds = ", ".join(self.extent_text(extents[o]) for o in head)
            kind = (
                "Parallel" if head is heads[0] else self.pick.one(("Parallel", "serial" if len(head) == 1 else "grid"))
            )
            self.out.line(f"for {', '.join(names[o] for o in head)} in T.{kind}({bounds}):")
            self.out.depth += 1
        value = self.make.number(inner, dtype, 2, 4 if floating else None, 1)
        value = value if floating else f"T.cast({value}, '{dtype}')"  # constants may have outgrown the dtype
        if self.pick.often(25):
            self.out.line(f"if {self.make.truth(inner, 1)}:")
            self.out.depth += 1
            self._update(target, op, value)
            self.out.depth -= 1
        else:
            self._update(target, op, value)
        self.out.depth -= len(heads)
        return True

    def _fold_rows(self, scope: Scope) -> bool:
        """Rows of a tile folded into a vector, which is then used with the tile."""
        tiles = [b for b in self._targets(scope) if len(b.shape) == 2 and b.scope != "global" and b.dtype != "bool"]
        if not tiles:
            return self._walk(scope)
        tile = self.pick.one(tiles)
        axis, op = self.pick.below(2), self.pick.one(("max", "min"))
        n = tile.shape[1 - axis]
        row = Buffer(self.name("S"), tile.dtype, (n,), self.pick.one(("fragment", "shared")), bound=tile.bound,
                     grain=tile.grain, special=tile.special)  # fmt: skip
        self.out.line(f"{row.name} = T.alloc_{row.scope}(({n},), '{row.dtype}')")
        i, j = self.name("i"), self.name("j")
        if self.pick.often(50):
            self.out.line(f"T.reduce_{op}({tile.name}, {row.name}, dim={axis})")
        else:
            self.out.line(f"T.fill({row.name}, {self.pick.below(2)})")
            self.out.line(f"for {i}, {j} in T.Parallel{tile.shape}:")
            at = (i, j)[1 - axis]
            self.out.line(f"    {row.name}[{at}] = T.{op}({row.name}[{at}], {tile.name}[{i}, {j}])")
        at = (i, j)[1 - axis]
        other = self.pick.one(("max", "min"))
        self.out.line(f"for {i}, {j} in T.Parallel{tile.shape}:")
        self.out.line(f"    {tile.name}[{i}, {j}] = T.{other}({tile.name}[{i}, {j}], {row.name}[{at}])")
        scope.buffers.append(row)
        return True

    def _atomic_tile(self, scope: Scope) -> bool:
        """Atomic updates of elements on the chip."""
        dtype = self.pick.one(("int32", "uint32", "float32", "int64", "float16", "int16", "int8", "uint64", "float64"))
        op = self.pick.one(("max", "min") if is_float(dtype) else ("add", "max", "min", "and", "or", "xor"))
        n, count = self.pick.one((4, 1, 8, 33)), self.pick.one((16, 8, 33, 100, 257))
        bound = 4 if is_float(dtype) else None
        tile = Buffer(self.name("S"), dtype, (n,), "shared", bound=bound, grain=1)
        self.out.line(f"{tile.name} = T.alloc_shared(({n},), '{dtype}')")
        self.out.line(f"T.fill({tile.name}, {self.pick.below(2)})")
        i, inner = self.name("i"), scope.inner()
        inner.indices.append((i, 0, count - 1))
        self._aligned(inner, [i], [count])
        where = self.make.index(inner, 0, n - 1)
        self.out.line(f"for {i} in T.Parallel({count}):")
        self.out.line(f"    T.atomic_{op}({tile.at([where])}, {self.make.number(inner, dtype, 2, bound, 1)})")
        scope.buffers.append(tile)
        return True

    def _count(self, scope: Scope) -> bool:
        """A histogram by updates at places that data choose, and a counter that a serial loop advances."""
        n, i = self.pick.one((4, 8, 3)), self.name("i")
        tile = Buffer(self.name("S"), "int32", (n,), "shared")
        self.out.line(f"{tile.name} = T.alloc_shared(({n},), 'int32')")
        self.out.line(f"T.clear({tile.name})")
        inner = scope.inner()
        trips = 1 + self.pick.below(4)
        inner.indices.append((i, 0, trips - 1))
        self.out.line(f"for {i} in {self.pick.one(('range', 'T.serial', 'T.unroll'))}({trips}):")
        for _ in range(1 + self.pick.below(2)):
            place = self.make.index(inner, 0, n - 1)
            self.out.line(f"    {tile.at([place])} += {self.make.integer(inner, 'int32', 1)}")
        scope.buffers.append(tile)
        return True

    # -- loops ------------------------------------------------------------------------------------------------
    def _until(self, scope: Scope, depth: int) -> bool:
        """A loop that a flag in shared memory ends."""
        flag, most = self.name("F"), self.pick.below(4)
        where = self.pick.one(("shared", "local", "fragment"))
        self.out.line(f"{flag} = T.alloc_{where}((2,), 'int32')")
        self.out.line(f"T.clear({flag})")
        extra = f" and {self.make.truth(scope, 1)}" if self.pick.often(40) else ""
        inner = self._open(scope, f"while {flag}[1] < {most}{extra}:", [], most)
        self.out.line(f"{flag}[1] += 1")
        self.block(inner, 1 + self.pick.below(2), depth)
        if self.pick.often(30):
            self.out.line(f"if {self.make.truth(inner, 1)}:")
            self.out.line(f"    {self.pick.one(('break', 'continue'))}")
            self.block(inner, 1, 0)
        self._close(most)
        return True

    def _ahead(self, scope: Scope, depth: int) -> bool:
        """A loop that copies tiles of one or several tensors and works on them; the tiles are used after it, too."""
        if self._weight > 20:
            return False
        trips = self.pick.one((3, 1, 2, 4, 5, 0))
        k = self.name("k")
        lines, tiles = [], []
        for _ in range(1 + self.pick.below(3)):
            dtype = self.pick.one(("int32", "float16", "float32", "int8", "int64"))
            rows, columns = self.pick.one((8, 16, 4, 1, 5)), self.pick.one((16, 8, 32, 64, 24, 3, 7))
            ragged = self.pick.below(columns) if self.pick.often(30) else 0
            down = self.pick.often(30)
            total = max(1, trips) * (rows if down else columns) - (0 if down else min(ragged, columns - 1))
            source = self.input(dtype, (total, columns) if down else (rows, total))
            tile = Buffer(
                self.name("S"),
                dtype,
                (rows, columns),
                "shared",
                bound=source.bound,
                grain=source.grain,
                special=source.special,
            )
            at = f"{k} * {rows}, 0" if down else f"0, {k} * {columns}"
            self.out.line(f"{tile.name} = T.alloc_{tile.scope}(({rows}, {columns}), '{dtype}')")
            self._laid_out(tile)
            cleared = trips == 0 or self.pick.often(20)
            if cleared:
                self.out.line(f"T.clear({tile.name})")
            lines.append((f"T.copy({source.name}[{at}], {tile.name})", tile, cleared))
            tiles.append(tile)
        options = "" if self.pick.often(10) else f", num_stages={self.pick.below(5)}"
        inner = self._open(scope, f"for {k} in T.Pipelined({trips}{options}):", [(k, 0, max(0, trips - 1))], trips)
        late = self.pick.often(20) and trips > 0
        for number, (line, tile, cleared) in enumerate(lines):
            if number and late:
                self.block(inner, 1, 0)
            if cleared and self.pick.often(15):
                self.out.line(f"if {self.make.truth(inner, 1)}:")
                self.out.line(f"    {line}")
            else:
                self.out.line(line)
            inner.buffers.append(tile)
        self.block(inner, 1 + self.pick.below(3), min(depth, 1))
        self._close(trips)
        if trips:
            scope.buffers += tiles
        return True

    # -- products ---------------------------------------------------------------------------------------------
    def _gemm(self, scope: Scope) -> bool:
        """A product with its operands anywhere, by any policy, and work on the result."""
        if self._weight > 6 or self._threads < 32:  # few threads have no registers for a large result
            return False
        dtype, result = self.pick.one(
            (("float16", "float32"), ("int8", "int32"), ("bfloat16", "float32"), ("float32", "float32"),
             ("float8_e4m3fn", "float32"), ("uint8", "int32"), ("float64", "float64"), ("int32", "int32"),
             ("float16", "float16"))
        )  # fmt: skip
        m, n = (self.pick.one((16, 32, 64, 1, 24, 8, 17, 40, 48)) for _ in range(2))
        k, steps = self.pick.one((16, 32, 8, 64, 1, 24, 17)), self.pick.one((2, 1, 3))
        ta, tb = self.pick.often(30), self.pick.often(30)
        whole = k * steps - (self.pick.below(k) if self.pick.often(30) else 0)
        a, b = self.input(dtype, (whole, m) if ta else (m, whole)), self.input(dtype, (n, whole) if tb else (whole, n))
        for p in (a, b):
            self.arrays[p.name][...] = self.rng.integers(0 if dtype[0] == "u" else -2, 3, self.arrays[p.name].shape)
        bound = 2 ** (4 * whole + 4).bit_length() if is_float(result) else None
        if result == "float16" and bound and bound > 2048:
            return False
        c = Buffer(self.name("S"), result, (m, n), self.pick.one(("fragment", "shared")), bound=bound, grain=0)
        sa, sb, loop = self.name("S"), self.name("S"), self.name("k")
        self.out.line(
            f"{sa} = T.alloc_{self.pick.one(('shared', 'shared', 'fragment'))}({(k, m) if ta else (m, k)}, '{dtype}')"
        )
        self.out.line(
            f"{sb} = T.alloc_{self.pick.one(('shared', 'shared', 'fragment'))}({(n, k) if tb else (k, n)}, '{dtype}')"
        )
        self.out.line(f"{c.name} = T.alloc_{c.scope}({(m, n)}, '{result}')")
        self.out.line(self.pick.one((f"T.clear({c.name})", f"T.fill({c.name}, 2)")))
        header = self.pick.one((f"T.Pipelined({steps}, num_stages={self.pick.below(4)})", f"T.serial({steps})"))
        at, end = self.position(loop, k)
        self.out.line(f"for {loop} in {header}:")
        self.out.line(f"    T.copy({a.name}[{f'{at}, 0' if ta else f'0, {at}'}], {sa})")
        self.out.line(f"    T.copy({b.name}[{f'0, {at}' if tb else f'{at}, 0'}], {sb})")
        flags = (", transpose_A=True" if ta else "") + (", transpose_B=True" if tb else "")
        if self._threads % 32 == 0:
            flags += self.pick.one(("", ", policy=T.GemmWarpPolicy.FullRow", ", policy=T.GemmWarpPolicy.FullCol"))
        flags += self.pick.one(("", "", "", f", clear_accum=({loop} == 0)"))
        self.out.line(f"    T.gemm({sa}, {sb}, {c.name}{flags})")
        self.out.line(f"    {end}")
        scope.buffers.append(c)
        return self._fold_rows(scope) if self.pick.often(50) else True
