"""Matrix products, transposes, views, versions of tiles, transcendental functions and macros."""

from __future__ import annotations

from random_kernels.folds import Folds
from random_kernels.model import Buffer, Scalar, Scope, is_float, random_array
from random_kernels.writer import ON_CHIP

# where each function is tame
LOOSE = {
    "exp": (-4, 4),
    "exp2": (-6, 6),
    "exp10": (-3, 3),
    "log": (0.25, 4),
    "log2": (0.25, 4),
    "log10": (0.25, 4),
    "log1p": (0, 4),
    "sqrt": (0, 4),
    "rsqrt": (0.25, 4),
    "tanh": (-4, 4),
    "sigmoid": (-4, 4),
    "erf": (-4, 4),
    "sin": (-4, 4),
    "cos": (-4, 4),
    "tan": (-1, 1),
    "asin": (-1, 1),
    "acos": (-1, 1),
    "atan": (-4, 4),
    "sinh": (-3, 3),
    "cosh": (-3, 3),
    "__exp": (-4, 4),
    # fast ones have an absolute error: values that are not small. Source: CUDA C++ Programming Guide, "Intrinsic Functions"
    "__log2": (2, 4),
    "__sin": (0.5, 2.5),
}


class Tiles(Folds):
    """Statements on whole tiles."""

    def _new_buffer(self, scope: Scope) -> bool:
        self.allocate(scope)
        return True

    def _transpose(self, scope: Scope) -> bool:
        sources = [b for b in scope.readable() if len(b.shape) == 2 and b.scope != "global"]
        if not sources:
            return False
        src = self.pick.one(sources)
        dst = Buffer(
            self.name("S"),
            src.dtype,
            src.shape[::-1],
            self.pick.one(ON_CHIP),
            bound=src.bound,
            grain=src.grain,
            special=src.special,
        )
        self.out.line(f"{dst.name} = T.alloc_{dst.scope}({dst.shape}, '{dst.dtype}')")
        self.out.line(f"T.transpose({src.name}, {dst.name})")
        scope.buffers.append(dst)
        return True

    def _view(self, scope: Scope) -> bool:
        sources = [b for b in scope.readable() if b.scope in ON_CHIP and b.storage == b.name and b.shape]
        if not sources:
            return False
        src = self.pick.one(sources)
        twins = {
            "float32": "int32",
            "float16": "uint16",
            "bfloat16": "int16",
            "float64": "int64",
            "int32": "uint32",
            "int8": "uint8",
            "uint8": "int8",
            "int64": "uint64",
            "int16": "uint16",
        }
        if src.dtype in twins and self.pick.often(40):
            dtype = twins[src.dtype]
            floating = is_float(src.dtype)
            if floating and src.special:
                return False
            new = Buffer(self.name("V"), dtype, src.shape, src.scope, writable=not floating, storage=src.storage)
            if floating:  # zeros have two signs, which the executors need not agree on
                return False
            self.out.line(f"{new.name} = T.view({src.name}, {src.shape}, '{dtype}')")
        elif src.dtype == "int32" and self.pick.often(50):
            new = Buffer(self.name("V"), "uint8", (*src.shape[:-1], src.shape[-1] * 4), src.scope, storage=src.storage)
            self.out.line(f"{new.name} = T.view({src.name}, dtype='uint8')")
        else:
            shape = self.pick.one(((src.size,), (1, src.size), src.shape[::-1], (src.size, 1)))
            new = Buffer(
                self.name("V"),
                src.dtype,
                shape,
                src.scope,
                bound=src.bound,
                grain=src.grain,
                special=src.special,
                storage=src.storage,
            )
            self.out.line(f"{new.name} = T.reshape({src.name}, {shape})")
        scope.buffers.append(new)
        return True

    def _gemm(self, scope: Scope) -> bool:
        """Tiles of two new inputs multiplied, over a loop along K."""
        dtype, result = self.pick.one(
            (
                ("float32", "float32"),
                ("float16", "float32"),
                ("int8", "int32"),
                ("bfloat16", "float32"),
                ("float64", "float64"),
                ("float16", "float16"),
                ("uint8", "int32"),
                ("float8_e4m3fn", "float32"),
                ("float8_e5m2", "float32"),
                ("int32", "int32"),
                ("int4", "int32"),
                ("bfloat16", "bfloat16"),
                ("float32", "float64"),
                ("tfloat32", "float32"),
            )
        )
        if self._weight > 8:
            return False
        sizes = (1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 17, 24, 31, 32, 33, 40)
        m, n, k = (self.pick.one(sizes) for _ in range(3))
        steps = 1 + self.pick.below(3)
        ta, tb = self.pick.often(30), self.pick.often(30)
        tail = self.pick.below(k)
        whole = k * steps - tail
        a = self.input(dtype, (whole, m) if ta else (m, whole))
        b = self.input(dtype, (n, whole) if tb else (whole, n))
        a.special = b.special = False
        if result == "float16":  # mma rounds to it after every instruction: sums below 128 of sixteenths are exact
            a.bound = b.bound = 1
        for p in (a, b):
            self.arrays[p.name][...] = random_array(self.rng, p, self.arrays[p.name].shape)
        floating = is_float(result)
        bound = (16 * whole + 64) if floating else None
        c = Buffer(
            self.name("S"),
            result,
            (m, n),
            self.pick.one(("fragment", "shared")),
            bound=bound and 2 ** bound.bit_length(),
            grain=4,
        )
        if result in ("bfloat16", "float16"):
            c.bound, c.grain = 2**14, 8
        sa, sb = self.name("S"), self.name("S")
        wide = self.pick.often(10) and dtype in ("float16", "bfloat16") and result == "float32"
        where = self.pick.one(("shared", "fragment"))
        self.out.line(f"{sa} = T.alloc_{where}({(k, m) if ta else (m, k)}, '{'float32' if wide else dtype}')")
        self.out.line(f"{sb} = T.alloc_{self.pick.one(('shared', 'fragment'))}({(n, k) if tb else (k, n)}, '{dtype}')")
        self.out.line(f"{c.name} = T.alloc_{c.scope}({(m, n)}, '{result}')")
        self.out.line(self.pick.one((f"T.clear({c.name})", f"T.fill({c.name}, 2)")))
        k_loop = self.name("k")
        self.out.line(f"for {k_loop} in T.{self.pick.one(('Pipelined', 'serial'))}({steps}):")
        at_a = f"0, {k_loop} * {k}" if not ta else f"{k_loop} * {k}, 0"
        at_b = f"{k_loop} * {k}, 0" if not tb else f"0, {k_loop} * {k}"
        self.out.line(f"    T.copy({a.name}[{at_a}], {sa})")
        self.out.line(f"    T.copy({b.name}[{at_b}], {sb})")
        clear = self.pick.one(
            ("", "", ", clear_accum=True", f", clear_accum=({k_loop} == 0)", f", clear_accum={k_loop} % 2 == 0")
        )
        flags = (", transpose_A=True" if ta else "") + (", transpose_B=True" if tb else "")
        self.out.line(f"    T.gemm({sa}, {sb}, {c.name}{flags}{clear})")
        if result in ("float16", "bfloat16"):  # only copied out: sums beyond the contract
            out = self.owned(result, (m, n), like=c)
            self._outputs.pop()
            self.out.line(f"T.copy({c.name}, {out.at([':', ':'])})")
        else:
            scope.buffers.append(c)
        return True

    def _math(self, scope: Scope) -> bool:
        """A transcendental function over a tensor, compared within rounding."""
        function = self.pick.one(list(LOOSE))
        dtype = self.pick.one(("float32", "float16", "bfloat16", "float64"))
        low, high = LOOSE[function]
        n = self.pick.one((16, 7, 33, 1, 40))
        a = self.input(dtype, (n,))
        a.special = False
        drawn = self.rng.uniform(low, high, n)
        self.arrays[a.name] = drawn.astype(self.arrays[a.name].dtype)
        for param in self.params:
            if param.buffer is a and "Strided" in param.annotation:
                return False
        tolerance = {
            "float32": 3e-6,
            "float64": 1e-6 if function in ("erf",) else 2e-11,
            "float16": 2**-9,
            "bfloat16": 2**-6,
        }[dtype]
        out = self.owned(dtype, (n,), tolerance=tolerance)
        self._outputs.pop()
        i = self.name("i")
        self.out.line(f"for {i} in T.Parallel({n}):")
        self.out.line(f"    {out.at([i])} = T.{function}({a.name}[{i}])")
        return True

    def _macro(self, scope: Scope) -> bool:
        """A macro of scalars that returns a value, used in a store."""
        targets = self._targets(scope)
        if not targets:
            return False
        buffer = self.pick.one(targets)
        dtype = buffer.dtype
        arguments = [Scalar(self.name("m"), d, 4 if is_float(d) else None, 2) for d in ("int32", "float32")]
        inside = Scope(scalars=[*arguments])
        name = self.name("macro")
        self.head += ["@T.macro", f"def {name}({', '.join(a.name for a in arguments)}):"]
        local = Scalar(self.name("t"), "int32")
        self.head.append(f"    {local.name} = {self.make.integer(inside, 'int32', 2)}")
        inside.scalars.append(local)
        if self.pick.often(40):
            self.head.append(f"    if {self.make.truth(inside, 1)}:")
            self.head.append(f"        {local.name} = {self.make.integer(inside, 'int32', 1)}")
        self.head.append(f"    return {self.make.number(inside, dtype, 2, buffer.bound, buffer.grain)}")
        self.head.append("")
        values = [self.make.number(scope, a.dtype, 1, a.bound, a.grain) for a in arguments]
        where = buffer.at([self._place(scope, buffer, d) for d in range(len(buffer.shape))])
        self.out.line(f"{where} = {name}({', '.join(values)})")
        return True

    def _tile_macro(self, scope: Scope) -> bool:
        """A macro that takes buffers and works on them."""
        pairs = [
            (s, d)
            for d in self._targets(scope)
            for s in scope.readable()
            if s.shape == d.shape
            and s.storage != d.storage
            and not s.prefix
            and not d.prefix
            and not any(d.offsets)
            and not any(s.offsets)
            and self._converts(s, d)
        ]
        if not pairs:
            return False
        src, dst = self.pick.one(pairs)
        name, loops = self.name("macro"), [self.name("i") for _ in src.shape]
        at = ", ".join(loops) or "()"
        self.head += ["@T.macro", f"def {name}(src, dst, chosen):"]
        extents = ", ".join(f"src.shape[{d}]" for d in range(len(loops)))
        if loops:
            self.head += [
                f"    for {', '.join(loops)} in T.Parallel({extents}):",
                f"        if chosen or {loops[0]} % 2 == 0:",
                f"            dst[{at}] = src[{at}]",
                "",
            ]
        else:
            self.head += ["    dst[()] = src[()]", ""]
        chosen = scope.inner()
        chosen.blocked.add(dst.storage)  # the test is made in every iteration
        self.out.line(f"{name}({src.name}, {dst.name}, {self.make.truth(chosen, 1)})")
        return True

    def _versions(self, scope: Scope) -> bool:
        """Two versions of a tile, written and read in turns."""
        sources = [b for b in scope.readable() if b.scope == "global" and not b.writable and b.shape and not b.special]
        if not sources:
            return False
        source, tile = self.pick.one(sources), self.pick.one((4, 1, 3, 8))
        trips, k = 1 + self.pick.below(4), self.name("k")
        both = Buffer(
            self.name("S"), source.dtype, (2, tile), self.pick.one(ON_CHIP), bound=source.bound, grain=source.grain
        )
        total = Buffer(
            self.name("S"), source.dtype, (tile,), self.pick.one(ON_CHIP), bound=source.bound, grain=source.grain
        )
        self.out.line(f"{both.name} = T.alloc_{both.scope}((2, {tile}), '{both.dtype}')")
        self.out.line(f"{total.name} = T.alloc_{total.scope}(({tile},), '{both.dtype}')")
        self.out.line(f"T.clear({total.name})")
        lead = [self.make.index(scope, 0, e - 1, 0) for e in source.shape[:-1]]
        self.out.line(f"T.copy({source.at([*lead, '0'])}, {both.name}[0, :])")
        i = self.name("i")
        self.out.line(f"for {k} in {self.pick.one(('T.serial', 'range', 'T.Pipelined'))}({trips}):")
        self.out.line(f"    if {k} + 1 < {trips}:")
        self.out.line(f"        T.copy({source.at([*lead, f'({k} + 1) * {tile}'])}, {both.name}[({k} + 1) % 2, :])")
        self.out.line(f"    for {i} in T.Parallel({tile}):")
        value = f"T.max({total.name}[{i}], {both.name}[{k} % 2, {i}])"
        if both.dtype == "bool":
            value = f"{total.name}[{i}] ^ {both.name}[{k} % 2, {i}]"
        self.out.line(f"        {total.name}[{i}] = {value}")
        scope.buffers.append(total)
        return True

    def _tests(self, scope: Scope) -> bool:
        """An assertion that holds, and a fold over the truth of a tile."""
        tiles = [
            b
            for b in scope.readable()
            if b.shape and b.scope in ON_CHIP and b.storage == b.name and not is_float(b.dtype)
        ]
        if tiles and self.pick.often(60):
            result = Scalar(self.name("x"), "bool", mutable=True)
            self.out.line(f"{result.name} = T.alloc_var('bool', init=False)")
            self.out.line(f"{result.name} = T.{self.pick.one(('any_of', 'all_of'))}({self.pick.one(tiles).name})")
            scope.scalars.append(result)
            return True
        test = self.make.truth(scope, 1)
        self.out.line(f"T.device_assert({test} or not {test})")
        return True

    def _random(self, scope: Scope) -> bool:
        """Numbers of a generator of the block's own."""
        self.out.line(f"T.rng_init({self.pick.below(5)}, {self.make.index(scope, 0, 9)}, {self.pick.below(3)})")
        drawn = Scalar(self.name("r"), "uint32")
        self.out.line(f"{drawn.name} = T.rng_rand()")
        scope.scalars.append(drawn)
        return True
