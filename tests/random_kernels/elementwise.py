"""Memory with defined contents, elementwise loops, stores, fills, copies and scalars."""

from __future__ import annotations

from random_kernels.model import Buffer, Scalar, Scope, is_float, within
from random_kernels.writer import ON_CHIP, Writer


class Elementwise(Writer):
    """Statements that write elements apart from each other."""

    def allocate(
        self, scope: Scope, dtype: str | None = None, shape: tuple[int, ...] | None = None, where: str | None = None
    ) -> Buffer:
        """A buffer on the chip with defined contents."""
        dtype = dtype or self.dtype()
        if shape is None:
            shape = self.shape(self.pick.one((1, 2, 2, 3)), 400, empty=True)
        kind = where or self.pick.one(ON_CHIP)
        bound, grain = self.contract(dtype, small=False)
        buffer = Buffer(self.name("S"), dtype, shape, kind, bound=bound if is_float(dtype) else None, grain=grain)
        self.out.line(f"{buffer.name} = T.alloc_{kind}({shape}, '{dtype}')")
        self._fill_all(scope, buffer)
        scope.buffers.append(buffer)
        return buffer

    def _fill_all(self, scope: Scope, buffer: Buffer) -> None:
        """Every element is written."""
        kind = self.pick.below(4)
        if kind == 0:
            self.out.line(f"T.clear({buffer.name})")
        elif kind == 1:
            self.out.line(f"T.fill({buffer.name}, {self.make.for_buffer(scope, buffer, 1)})")
        elif kind == 2 and self._copy_into(scope, buffer):
            pass
        else:
            self._elementwise(scope, buffer, whole=True)

    def _copy_into(self, scope: Scope, buffer: Buffer) -> bool:
        """A copy of a part of a global tensor as large as the buffer."""
        sources = [
            b
            for b in scope.readable()
            if b.scope == "global"
            and not b.writable
            and self._converts(b, buffer)
            and len(b.shape) >= len([e for e in buffer.shape if e != 1])
        ]
        if not sources:
            return False
        source = self.pick.one(sources)
        rank = len(source.shape)
        starts = [within(self.make.index(scope, -2, e), e) if self.pick.often(60) else "0" for e in source.shape]
        if rank >= len(buffer.shape) and rank > 0:
            self.out.line(f"T.copy({source.name}[{', '.join(starts)}], {buffer.name})")
            return True
        return False

    def _converts(self, src: Buffer, dst: Buffer) -> bool:
        """Whether every element of one buffer may be stored into the other."""
        if src.storage == dst.storage or "bool" in (src.dtype, dst.dtype) and src.dtype != dst.dtype and src.special:
            return False
        if dst.dtype == "bool":
            return True
        if is_float(dst.dtype):
            if src.dtype == "bool":
                return True
            if is_float(src.dtype):
                return src.bound <= dst.bound and src.grain <= dst.grain and (dst.special or not src.special)
            return src.bound is not None and src.bound <= dst.bound
        if dst.bound is not None:
            return src.dtype == dst.dtype and src.bound is not None and src.bound <= dst.bound
        if is_float(src.dtype):
            return (
                not src.special and dst.dtype[0] != "u" and (src.bound or 99) < 2 ** (3 if dst.dtype == "int4" else 7)
            )
        return True

    def _targets(self, scope: Scope) -> list[Buffer]:
        return [b for b in scope.buffers if b.writable and b.size and b.storage not in scope.blocked]

    def _some_elementwise(self, scope: Scope) -> bool:
        targets = self._targets(scope)
        if not targets:
            return False
        self._elementwise(scope, self.pick.one(targets))
        return True

    def _elementwise(self, scope: Scope, buffer: Buffer, whole: bool = False) -> None:
        """A `T.Parallel` nest that writes each element of a box once."""
        inner = scope.inner()
        inner.blocked.add(buffer.storage)
        rank = len(buffer.shape)
        if rank == 0:
            self.out.line(f"{buffer.at([])} = {self.make.for_buffer(scope, buffer, 2)}")
            return
        names, extents, subscripts = [], [], []
        before: set[str] = set()  # loops whose index begins in front of the buffer
        for extent in buffer.shape:
            loop = self.name("i")
            form = 0 if whole else self.pick.below(7)
            if form == 1:
                subscripts.append(f"{extent - 1} - {loop}")
            elif form == 2 and extent > 1:
                first = self.pick.below(extent)
                subscripts.append(f"{loop} + {first}")
                extent -= first
            elif form == 3 and extent > 1:
                subscripts.append(f"{loop} * 2" if extent % 2 else f"{loop} * 2 + 1")
                extent = (extent + 1) // 2 if extent % 2 else extent // 2
            elif form == 4 and buffer.hangs and not buffer.offsets[len(subscripts)]:
                if self.pick.often(50):
                    before.add(loop)
                    subscripts.append(f"{loop} - 2")
                else:
                    subscripts.append(loop)
                extent += 5
            elif form == 5 and rank > 1 and len(subscripts) < rank - 1:
                subscripts.append(self.make.index(inner, 0, extent - 1))  # the loop must not store what it names
                continue
            else:
                subscripts.append(loop)
            names.append(loop)
            extents.append(extent)
        if not names:
            self.out.line(f"{buffer.at(subscripts)} = {self.make.for_buffer(scope, buffer, 2)}")
            return
        if len(names) > 1 and self.pick.often(15):
            names.reverse()
            extents.reverse()
        # a condition by which such an index is surely negative would make it count from the end
        inner.indices += [(n, 0, max(0, e - 1)) for n, e in zip(names, extents, strict=True) if n not in before]
        if not whole:
            inner.own.append((buffer.at(subscripts), buffer))
        bounds = [self.extent_text(e) for e in extents]
        kind = self.pick.one(("Parallel", "Parallel", "Parallel", "grid"))
        self.out.line(f"for {', '.join(names)} in T.{kind}({', '.join(bounds)}):")
        self.out.depth += 1
        self._body(inner, buffer, subscripts, whole)
        self.out.depth -= 1

    def _body(self, inner: Scope, buffer: Buffer, subscripts: list[str], whole: bool) -> None:
        """One iteration's work on one element."""
        if self.pick.often(25):
            dtype = self.pick.one(("int32", "float32", "int8", "int64", "float16"))
            local = Scalar(self.name("t"), dtype, 4 if is_float(dtype) else None, 2)
            self.out.line(f"{local.name} = {self.make.number(inner, dtype, 2, local.bound, local.grain)}")
            if self.pick.often(30):
                self.out.line(f"if {self.make.truth(inner, 1)}:")
                self.out.line(f"    {local.name} = {self.make.number(inner, dtype, 1, local.bound, local.grain)}")
            inner.scalars.append(local)
        if self.pick.often(12) and not is_float(buffer.dtype) and buffer.dtype != "bool" and buffer.bound is None:
            total, k, trips = Scalar(self.name("t"), "int32"), self.name("k"), 1 + self.pick.below(5)
            self.out.line(f"{total.name} = T.int32(0)")
            self.out.line(f"for {k} in T.serial({trips}):")
            deeper = inner.inner()
            deeper.indices.append((k, 0, trips - 1))
            self.out.line(f"    {total.name} += {self.make.integer(deeper, 'int32', 1)}")
            inner.scalars.append(total)
        if self.pick.often(8):
            self._iteration_memory(inner)
        target = buffer.at(subscripts)
        form = 0 if whole and not inner.own else self.pick.below(8)
        if form == 5:
            self.out.line(f"if {self.make.truth(inner, 2)}:")
            self.out.line(f"    {target} = {self.make.for_buffer(inner, buffer, 2)}")
            if self.pick.often(50):
                self.out.line(f"elif {self.make.truth(inner, 1)}:")
                self.out.line(f"    {target} = {self.make.for_buffer(inner, buffer, 1)}")
            if self.pick.often(50):
                self.out.line("else:")
                self.out.line(f"    {target} = {self.make.for_buffer(inner, buffer, 2)}")
        elif form == 6 and not is_float(buffer.dtype) and buffer.dtype != "bool" and buffer.bound is None:
            self.out.line(f"{target} {self.pick.one('+-*^&|')}= {self.make.number(inner, buffer.dtype, 2, None)}")
        elif form == 7:
            self.out.line(f"{target} = {self.make.for_buffer(inner, buffer, 2)}")
            inner.own.append((target, buffer))
            self.out.line(f"{target} = {self.make.for_buffer(inner, buffer, 2)}")
        else:
            self.out.line(f"{target} = {self.make.for_buffer(inner, buffer, 3)}")

    def _iteration_memory(self, inner: Scope) -> None:
        """A few elements of an iteration's own, filled by a loop that may end early."""
        dtype, size, k = (
            self.pick.one(("int32", "float32", "int8", "float16")),
            self.pick.one((3, 1, 4)),
            self.name("k"),
        )
        own = Buffer(self.name("L"), dtype, (size,), "local", bound=4 if is_float(dtype) else None, grain=2)
        self.out.line(f"{own.name} = T.alloc_local(({size},), '{dtype}')")
        first = self.make.number(inner, dtype, 1, own.bound, own.grain)
        self.out.line(f"for {k} in {self.pick.one(('T.serial', 'T.unroll', 'T.vectorized'))}({size}):")
        self.out.line(f"    {own.at([k])} = {first}")
        deeper = inner.inner()
        deeper.indices.append((k, 0, size - 1))
        self.out.line(f"for {k} in T.serial({size}):")
        if self.pick.often(40):
            self.out.line(f"    if {self.make.truth(deeper, 1)}:")
            self.out.line(f"        {self.pick.one(('break', 'continue'))}")
        self.out.line(f"    {own.at([k])} = {self.make.number(deeper, dtype, 1, own.bound, own.grain)}")
        inner.buffers.append(own)

    def _vectorized(self, scope: Scope) -> bool:
        targets = [b for b in self._targets(scope) if len(b.shape) >= 1]
        if not targets:
            return False
        buffer = self.pick.one(targets)
        *lead, extent = buffer.shape
        inner = scope.inner()
        inner.blocked.add(buffer.storage)
        subscripts = [self.make.index(inner, 0, e - 1) for e in lead]
        v = self.name("v")
        inner.indices.append((v, 0, extent - 1))
        inner.own.append((buffer.at([*subscripts, v]), buffer))
        ints = [b for b in scope.readable() if b.dtype in ("int32", "uint8", "int64", "int8")]
        bound = str(extent)
        if ints and self.pick.often(15):
            bound = f"{self.make.element_plain(scope, self.pick.one(ints))} % {extent + 1}"
        self.out.line(f"for {v} in T.{self.pick.one(('vectorized', 'unroll', 'Parallel'))}({bound}):")
        self.out.depth += 1
        self._body(inner, buffer, [*subscripts, v], whole=False)
        self.out.depth -= 1
        return True

    def _store(self, scope: Scope) -> bool:
        targets = self._targets(scope)
        if not targets:
            return False
        buffer = self.pick.one(targets)
        where = buffer.at([self._place(scope, buffer, d) for d in range(len(buffer.shape))])
        self.out.line(f"{where} = {self.make.for_buffer(scope, buffer, 3)}")
        return True

    def _place(self, scope: Scope, buffer: Buffer, dim: int) -> str:
        if buffer.hangs and self.pick.often(20):
            return within(self.make.index(scope, -2, buffer.shape[dim] + 1), buffer.shape[dim])
        return self.make.index(scope, 0, buffer.shape[dim] - 1)

    def _fill(self, scope: Scope) -> bool:
        targets = [b for b in self._targets(scope) if b.shape and (b.scope != "global" or b.hangs)]
        if not targets:
            return False
        buffer = self.pick.one(targets)
        region, _ = self._box(scope, buffer, [self.pick.below(e) + 1 for e in buffer.shape])
        value = self.make.for_buffer(scope, buffer, 1)
        form = self.pick.one(("T.fill({r}, {v})", "T.clear({r})", "{r} = {v}"))
        if form == "{r} = {v}" and "]" not in region:
            form = "T.fill({r}, {v})"
        self.out.line(form.format(r=region, v=value))
        return True

    def _box(self, scope: Scope, buffer: Buffer, extents: list[int]) -> tuple[str, list[int]]:
        """A region of these extents."""
        texts = []
        for e, whole, offset in zip(extents, buffer.shape, buffer.offsets, strict=True):
            if e == whole and not offset and self.pick.often(60):
                texts.append(":")
                continue
            hangs = buffer.scope == "global" and buffer.hangs and bool(scope.indices) and self.pick.often(30)
            start = (
                f"({self.pick.one(scope.indices)[0]} - 1)" if hangs else self.make.index(scope, 0, max(0, whole - e), 0)
            )
            begin = f"{offset} + {start}" if offset else start
            texts.append(f"{begin}:{begin} + {e}")
        bare = ", ".join([*buffer.prefix, *texts])
        return f"{buffer.name}[{bare}]", extents

    def _copy(self, scope: Scope) -> bool:
        pairs = [
            (s, d)
            for d in self._targets(scope)
            for s in scope.readable()
            if self._converts(s, d) and s.shape and d.shape and d.size
        ]
        if not pairs:
            return False
        src, dst = self.pick.one(pairs)
        rank = min(len(src.shape), len(dst.shape))
        common = []
        for a, b in zip(src.shape[len(src.shape) - rank :], dst.shape[len(dst.shape) - rank :], strict=True):
            most = min(a, b) if src.scope != "global" or dst.scope != "global" or True else max(a, b)
            common.append(most if self.pick.often(50) else 1 + self.pick.below(most))
        texts = []
        for buffer in (src, dst):
            lead = len(buffer.shape) - rank
            extents = [1] * lead + common
            texts.append(self._box(scope, buffer, extents)[0])
        self.out.line(f"T.copy({texts[0]}, {texts[1]})")
        return True

    def _new_scalar(self, scope: Scope) -> bool:
        dtype = self.pick.one(("int32", "float32", "int64", "int8", "uint32", "float16", "float64", "bfloat16", "bool"))
        bound, grain = self.contract(dtype, small=False)
        scalar = Scalar(self.name("x"), dtype, bound if is_float(dtype) else None, grain, mutable=True)
        value = self.make.number(scope, dtype, 2, scalar.bound, grain)
        if dtype in ("int32", "float32") and self.pick.often(30):
            self.out.line(f"{scalar.name} = {3 if dtype == 'int32' else 1.5}")
            self.out.line(f"for {self.name('k')} in range({1 + self.pick.below(3)}):")
            self.out.line(f"    {scalar.name} = {value}")
        else:
            self.out.line(f"{scalar.name} = T.alloc_var('{dtype}', init={value})")
        scope.scalars.append(scalar)
        return True

    def _assign_scalar(self, scope: Scope) -> bool:
        options = [s for s in scope.scalars if s.mutable and s.high is None]
        if not options:
            return False
        scalar = self.pick.one(options)
        self.out.line(f"{scalar.name} = {self.make.number(scope, scalar.dtype, 3, scalar.bound, scalar.grain)}")
        return True

    def _swap(self, scope: Scope) -> bool:
        options = [s for s in scope.scalars if s.mutable and s.high is None]
        pairs = [(a, b) for a in options for b in options if a.name < b.name and a.dtype == b.dtype]
        if not pairs:
            return False
        a, b = self.pick.one(pairs)
        self.out.line(f"{a.name}, {b.name} = {b.name}, {a.name}")
        return True
