"""Reductions as loops and as operators, scans and atomics."""

from __future__ import annotations

import numpy as np
from random_kernels.elementwise import Elementwise
from random_kernels.model import Buffer, Scalar, Scope, cap, is_float, within
from random_kernels.writer import ON_CHIP


class Folds(Elementwise):
    """Statements that combine many elements into few."""

    def _reduce_loop(self, scope: Scope) -> bool:
        """A reduction written as a loop, into a scalar."""
        dtype = self.pick.one(
            ("int32", "float32", "int64", "float16", "uint32", "int8", "float64", "bfloat16", "uint8")
        )
        extents = self.shape(self.pick.one((1, 2)), 60)
        total = int(np.prod(extents))
        floating = is_float(dtype)
        ops = ["+", "max", "min"] + ([] if floating else ["*", "^", "&", "|"])
        op = self.pick.one(ops)
        if op == "+" and dtype == "bfloat16":
            op = "max"
        bound, grain = (4, 1) if floating else (None, 0)
        result = Scalar(self.name("x"), dtype, 512 if floating else None, grain, mutable=True)
        self.out.line(f"{result.name} = T.alloc_var('{dtype}', init={self.make.number(scope, dtype, 1, bound, grain)})")
        names = [self.name("j") for _ in extents]
        inner = scope.inner()
        inner.indices += [(n, 0, e - 1) for n, e in zip(names, extents, strict=True)]
        kind = self.pick.one(("Parallel", "Parallel", "grid"))
        self.out.line(f"for {', '.join(names)} in T.{kind}({', '.join(map(str, extents))}):")
        self.out.depth += 1
        special = floating and self.pick.often(20)
        value = self.make.number(inner, dtype, 2, bound, grain, special)
        if self.pick.often(20):
            self.out.line(f"if {self.make.truth(inner, 1)}:")
            self.out.depth += 1
            self._update(result.name, op, value)
            self.out.depth -= 1
        else:
            self._update(result.name, op, value)
        self.out.depth -= 1
        assert not floating or 4 * total + 4 <= 512
        if special:
            out = self.owned(dtype, (), like=Buffer("", dtype, (), bound=4, grain=grain, special=True))
            if self._weight == 1:
                self.out.line(f"{out.name}[{', '.join(out.prefix)}] = {result.name}")
            else:
                self.out.line(f"{out.name}[{', '.join(out.prefix)}] = {result.name}")
        else:
            scope.scalars.append(result)
        return True

    def _update(self, target: str, op: str, value: str) -> None:
        if op in ("max", "min"):
            a, b = self.pick.one(((target, value), (value, target)))
            self.out.line(f"{target} = T.{op}({a}, {b})")
        elif self.pick.often(50):
            self.out.line(f"{target} {op}= {value}")
        else:
            self.out.line(f"{target} = {target} {op} {value}")

    def _nested_reduction(self, scope: Scope) -> bool:
        """Rows of a buffer folded into elements of another, by nested or joint parallel loops."""
        targets = [
            b
            for b in self._targets(scope)
            if b.shape and b.dtype != "bool" and b.bound is None and not is_float(b.dtype)
        ]
        targets += [b for b in self._targets(scope) if b.shape and is_float(b.dtype)]
        if not targets:
            return False
        buffer = self.pick.one(targets)
        op = self.pick.one(("max", "min") if is_float(buffer.dtype) else ("+", "max", "^", "*", "min", "|"))
        *lead, rows = buffer.shape
        i, j, columns = self.name("i"), self.name("j"), self.pick.one((3, 1, 8, 13, 32))
        subscripts = [*(self.make.index(scope, 0, e - 1, 0) for e in lead), i]
        target = buffer.at(subscripts)
        inner = scope.inner()
        inner.blocked.add(buffer.storage)
        inner.indices += [(i, 0, rows - 1), (j, 0, columns - 1)]
        value = self.make.number(inner, buffer.dtype, 2, buffer.bound, buffer.grain, buffer.special)
        form = self.pick.below(3)
        if form == 0:
            self.out.line(f"for {i}, {j} in T.Parallel({rows}, {columns}):")
            self.out.depth += 1
            self._update(target, op, value)
            self.out.depth -= 1
        else:
            self.out.line(f"for {i} in T.{self.pick.one(('Parallel', 'serial'))}({rows}):")
            self.out.line(f"    for {j} in T.{self.pick.one(('Parallel', 'serial'))}({columns}):")
            self.out.depth += 2
            self._update(target, op, value)
            self.out.depth -= 2
        return True

    def _reduce(self, scope: Scope) -> bool:
        sources = [b for b in scope.readable() if b.shape and b.scope != "global" and b.storage == b.name]
        if not sources:
            return False
        src = self.pick.one(sources)
        dim = self.pick.below(len(src.shape))
        floating = is_float(src.dtype)
        ops = ["sum", "max", "min", "abssum", "absmax"] + ([] if floating else ["bitand", "bitor", "bitxor"])
        op = self.pick.one(ops)
        dtype = src.dtype if self.pick.often(70) or src.dtype == "bool" else {True: "float32", False: "int32"}[floating]
        if dtype == "bool" and op == "abssum" or dtype in ("float4_e2m1fn",):
            op = "max"
        bound = None
        grain = src.grain
        if floating:
            bound = (
                src.bound if op in ("max", "min", "absmax") else 2 ** (src.bound * src.shape[dim] + 4 - 1).bit_length()
            )
            if bound * 2**grain > 2**23 or cap(dtype, bound) < bound:
                return False
            if dtype not in ("float32", "float64") and bound * 2**grain > 2**11 and op in ("sum", "abssum"):
                dtype = "float32"
        name, extents = src.name, src.shape
        if self.pick.often(30):
            extents = tuple(e if d == dim else 1 + self.pick.below(e) for d, e in enumerate(src.shape))
            name = self._box(scope, src, list(extents))[0]
        left = tuple(e for d, e in enumerate(extents) if d != dim)
        shape = self.pick.one((left or (1,), tuple(1 if d == dim else e for d, e in enumerate(extents))))
        dst = Buffer(
            self.name("S"), dtype, shape, self.pick.one(ON_CHIP), bound=bound, grain=grain, special=src.special
        )
        self.out.line(f"{dst.name} = T.alloc_{dst.scope}({shape}, '{dtype}')")
        options = ""
        if self.pick.often(40):
            first = self.make.number(scope, dtype, 1, 4 if floating else None, grain) if dtype != "bool" else "True"
            if floating and not cap(dtype, 4) <= bound:
                first = "0"
            self.out.line(f"T.fill({dst.name}, {first})")
            options = ", clear=False"
        which = self.pick.one((dim, dim - len(src.shape)))
        self.out.line(f"T.reduce_{op}({name}, {dst.name}, dim={which}{options})")
        scope.buffers.append(dst)
        return True

    def _scan(self, scope: Scope) -> bool:
        sources = [
            b for b in scope.readable() if b.shape and b.scope != "global" and b.storage == b.name and b.dtype != "bool"
        ]
        if not sources:
            return False
        src = self.pick.one(sources)
        dim = self.pick.below(len(src.shape))
        op = self.pick.one(("sum", "max"))
        bound: int | None = None
        if is_float(src.dtype):
            bound = src.bound if op == "max" else 2 ** (src.bound * src.shape[dim] - 1).bit_length()
            if bound * 2**src.grain > 2**23 or cap(src.dtype, bound) < bound:
                return False
        dst = Buffer(
            self.name("S"),
            src.dtype,
            src.shape,
            self.pick.one(ON_CHIP),
            bound=bound,
            grain=src.grain,
            special=src.special,
        )
        self.out.line(f"{dst.name} = T.alloc_{dst.scope}({dst.shape}, '{dst.dtype}')")
        reverse = self.pick.one(("", ", reverse=True"))
        if self.pick.often(30):
            self.out.line(f"T.copy({src.name}, {dst.name})")
            self.out.line(f"T.cum{op}({dst.name}, dim={dim}{reverse})")
        else:
            self.out.line(f"T.cum{op}({src.name}, {dst.name}, dim={dim}{reverse})")
        scope.buffers.append(dst)
        return True

    def _atomic(self, scope: Scope) -> bool:
        """Elements that several blocks update, by one commutative operator."""
        dtype = self.pick.one(
            ("int32", "float32", "uint32", "int64", "float16", "uint64", "float64", "bfloat16", "int8")
        )
        floating = is_float(dtype)
        op = self.pick.one(("add", "max", "min") if floating else ("add", "max", "min", "and", "or", "xor"))
        if floating and op == "add" and (self._weight > 4 or dtype in ("bfloat16", "float16")):
            op = "max"
        shape = self.shape(self.pick.one((1, 2)), 64)
        shared = Buffer(self.name("C"), dtype, shape, bound=4 if floating else None, grain=1)
        self.parameter(shared, shape)
        inner = scope.inner()
        value = self.make.number(scope, dtype, 2, 4 if floating else None, 1)
        form = self.pick.below(3)
        if form == 0:
            where = [within(self.make.index(scope, -1, e), e) for e in shape]
            self.out.line(f"T.atomic_{op}({shared.at(where)}, {value})")
        elif form == 1 or op in ("and", "or", "xor"):
            names = [self.name("i") for _ in shape]
            inner.indices += [(v, 0, e - 1) for v, e in zip(names, shape, strict=True)]
            value = self.make.number(inner, dtype, 2, 4 if floating else None, 1)
            self.out.line(f"for {', '.join(names)} in T.Parallel({', '.join(map(str, shape))}):")
            self.out.line(f"    T.atomic_{op}({shared.at(names)}, {value})")
        else:
            tiles = [
                b
                for b in scope.readable()
                if b.dtype == dtype
                and b.shape == shape
                and not b.special
                and b.scope != "global"
                and (not floating or b.bound <= 4)
            ]
            source = self.pick.one(tiles).name if tiles else value
            self.out.line(f"T.atomic_{op}({shared.name}, {source})")
        return True

    def _previous(self, scope: Scope) -> bool:
        """An atomic on an element of the block's own, which gives what was there before."""
        targets = [
            b for b in self._targets(scope) if b.dtype in ("int32", "uint32", "int64", "float32", "int16", "float16")
        ]
        if not targets:
            return False
        buffer = self.pick.one(targets)
        where = buffer.at([self._place(scope, buffer, d) for d in range(len(buffer.shape))])
        value = self.make.number(scope, buffer.dtype, 1, buffer.bound, buffer.grain)
        op = self.pick.one(
            ("max", "min", "exchange") if buffer.bound else ("add", "max", "exchange", "xor", "and", "load")
        )
        if op == "load":
            text = f"T.atomic_load({where})"
        else:
            text = f"T.atomic_{op}({where}, {value}, return_prev=True)"
        old = Scalar(self.name("a"), buffer.dtype, buffer.bound, buffer.grain)
        if buffer.special:
            return False
        self.out.line(f"{old.name} = {text}")
        scope.scalars.append(old)
        return True
