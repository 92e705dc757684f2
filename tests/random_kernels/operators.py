"""Random kernels of the operators beyond loops, copies and products: the library, atomics with order, casts, patches.

Takes what `LayoutPrograms` draws and adds the statements of `Selections` and `Cursors`, compare-and-swap and orders of memory, copies
that repeat rows, other names of tensors, parallel loops that fetch rows by index, patches of images, and functions of
scalars that the other generators lack. Invariant: as for `LayoutPrograms`.
"""

from __future__ import annotations

from collections.abc import Callable

from random_kernels.cursors import Cursors
from random_kernels.expressions import Expressions
from random_kernels.layout_programs import SIDES
from random_kernels.model import Buffer, Choices, Scalar, Scope, is_float
from random_kernels.writer import ON_CHIP

_ORDERS = ("", ", memory_order='relaxed'", ", memory_order='acquire'", ", memory_order='release'",
           ", memory_order='acq_rel'", ", memory_order='seq_cst'")  # fmt: skip
_SCOPES = ("", "", ", scope='block'", ", scope='gpu'", ", scope='system'")


class MoreExpressions(Expressions):
    """Expressions with functions under other names, and casts that say how to round."""

    def _choice(self, scope: Scope, dtype: str, fuel: int) -> str:
        if self.pick.often(60):
            return super()._choice(scope, dtype, fuel)
        a, b, c = self.integer(scope, dtype, fuel), self.integer(scope, dtype, fuel), self.truth(scope, fuel)
        form = self.pick.one(("T.where({c}, {a}, {b})", "T.bitwise_xor({a}, {b})", "T.bitwise_and({a}, {b})", "T.bitwise_or({a}, {b})",
                              "T.bitwise_not({a})", "T.floormod({a}, {b})", "T.floordiv({a}, {b})"))  # fmt: skip
        if form.startswith(("T.bit", "T.floor")):  # of constants alone there would be nothing to stage
            a = self._packed(scope, dtype, fuel)
        return form.format(a=a, b=b, c=c)

    def _function(self, scope: Scope, dtype: str, fuel: int) -> str:
        if self.pick.often(60):
            return super()._function(scope, dtype, fuel)
        form = self.pick.one((
            "T.cast(T.__ffs({x}), '{d}')", "T.bitcast({s}, '{d}')", "T.cast(T.cdiv({x}, 7), '{d}')",
            "T.cast(T.align_up({x}, 8), '{d}')", "T.cast(T.shift_right({x}, 3), '{d}')",
            "T.cast(T.max({x}, T.min_value('{w}') // 2), '{d}')", "T.cast(T.min({x}, T.max_value('{w}') // 2), '{d}')",
        ))  # fmt: skip
        wide = self.pick.one(("int32", "uint32"))
        bits = {"int8": "uint8", "int16": "uint16", "int32": "uint32", "int64": "uint64"}
        other = bits.get(dtype) or {v: k for k, v in bits.items()}.get(dtype)
        if other is None:
            return self.integer(scope, dtype, fuel)
        return form.format(x=self._packed(scope, wide, fuel), w=wide, d=dtype, s=self._packed(scope, other, fuel))

    def _float_choice(self, scope: Scope, dtype: str, fuel: int, bound: int, grain: int, special: bool) -> str:
        if self.pick.often(60):
            return super()._float_choice(scope, dtype, fuel, bound, grain, special)
        a, b = (self.floating(scope, dtype, fuel, bound, grain, special) for _ in range(2))
        form = self.pick.one(("T.where({c}, {a}, {b})", "T.fmax({a}, {b})", "T.fmin({a}, {b})", "T.copysign({a}, {b})"))
        if dtype not in ("float32", "float64") and form.startswith(("T.fm", "T.copy")):
            form = "T.where({c}, {a}, {b})"
        return form.format(a=a, b=b, c=self.truth(scope, fuel))

    def _converted(self, scope: Scope, dtype: str, fuel: int, bound: int, grain: int, special: bool) -> str:
        if dtype not in ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2") or self.pick.often(50):
            return super()._converted(scope, dtype, fuel, bound, grain, special)
        mode = self.pick.one(("rn", "rz", "rp", "rm"))
        sat = ", sat=False" if self.pick.often(30) else ""
        # a target writes the operand once for each step of the rounding
        value = self.floating(scope, "float32", min(fuel, 1), bound, min(grain, 3), special)
        return f"T.cast({value}, '{dtype}', round='{mode}'{sat})"

    def _sum(self, scope: Scope, dtype: str, fuel: int, bound: int, grain: int, special: bool) -> str:
        if dtype not in ("float32", "float64") or bound < 2 or self.pick.often(70):
            return super()._sum(scope, dtype, fuel, bound, grain, special)
        a, b = (self.floating(scope, dtype, fuel, bound // 2, grain, special) for _ in range(2))
        return f"T.{self.pick.one(('ieee_add', 'ieee_sub'))}({a}, {b}, '{self.pick.one(('rn', 'rz', 'ru', 'rd'))}')"

    def _gemm(self, scope: Scope, dtype: str, fuel: int, bound: int, grain: int, special: bool) -> str:
        if dtype not in ("float32", "float64") or self.pick.often(70):
            return super()._gemm(scope, dtype, fuel, bound, grain, special)
        part = 2 ** ((bound.bit_length() - 1) // 2)
        a, b = (self.floating(scope, dtype, fuel, part, grain // 2, special) for _ in range(2))
        return f"T.{self.pick.one(('ieee_mul', 'fmul'))}({a}, {b})"

    def _rounded(self, scope: Scope, dtype: str, fuel: int, bound: int, grain: int, special: bool) -> str:
        if dtype not in ("float32", "float64") or self.pick.often(70):
            return super()._rounded(scope, dtype, fuel, bound, grain, special)
        form = self.pick.one(("T.nearbyint({a})", "T.fabs({a})", "T.fmod({a}, {m})", "T.ldexp({a}, -1)"))
        grain = max(grain - 1, 0) if "ldexp" in form else grain
        inner = self.floating(scope, dtype, fuel, max(1, bound // 2), grain, special)
        return form.format(a=inner, m=f"T.{dtype}({self.pick.one((1.5, -1.5, 2.0, 1.0, -0.5) if grain else (1.0, -1.0))})")

    def truth(self, scope: Scope, fuel: int) -> str:
        """A truth value."""
        if fuel <= 0 or self.pick.often(85):
            return super().truth(scope, fuel)
        dtype = self.dtype(scope, ("float32", "float64", "float16", "bfloat16"))
        return f"T.{self.pick.one(('isinf', 'isfinite', 'isnan'))}({self.floating(scope, dtype, fuel - 1, 64, 4, True)})"


class OperatorPrograms(Cursors):
    """Draws one program."""

    def __init__(self, choices: Choices, seed: int = 0) -> None:
        super().__init__(choices, seed)
        self.make = MoreExpressions(choices)

    def statement(self, scope: Scope, depth: int) -> None:
        """One statement, rather one that other generators lack."""
        if self._weight > 12 or self.pick.often(40):
            super().statement(scope, depth)
            return
        made: tuple[Callable[[Scope], bool], ...] = (
            self._sort, self._topk, self._best, self._runs, self._running, self._folded, self._added_to, self._gather,
            self._scatter, self._reducer, self._ordered, self._swapped, self._neighbors, self._repeated, self._renamed,
            self._fetched, self._patches, self._assumed, self._uniform, self._accumulated,
        )  # fmt: skip
        if not self.pick.one(made)(scope):
            self._walk(scope)

    # -- atomics ------------------------------------------------------------------------------------------------
    def _element(self, scope: Scope, dtypes: tuple[str, ...]) -> tuple[Buffer, str] | None:
        """An element of the block's own."""
        targets = [b for b in self._targets(scope) if b.dtype in dtypes and not b.special and b.scope in ("global", "shared")]
        if not targets:
            return None
        buffer = self.pick.one(targets)
        return buffer, buffer.at([self._place(scope, buffer, d) for d in range(len(buffer.shape))])

    def _ordered(self, scope: Scope) -> bool:
        """An update that says what else is in order, or a load or store that does."""
        found = self._element(scope, ("int32", "uint32", "int64", "float32", "uint64"))
        if found is None:
            return False
        buffer, where = found
        value = self.make.number(scope, buffer.dtype, 1, buffer.bound, buffer.grain)
        order, reach = self.pick.one(_ORDERS), self.pick.one(_SCOPES)
        form = self.pick.below(4)
        if form == 0:
            order = self.pick.one(("", *(o for o in _ORDERS if "relaxed" in o or "release" in o or "seq" in o)))
            self.out.line(f"T.atomic_store({where}, {value}{order}{reach})")
        elif form == 1:
            order = self.pick.one(("", *(o for o in _ORDERS if "relaxed" in o or "'acquire" in o or "seq" in o)))
            old = Scalar(self.name("a"), buffer.dtype, buffer.bound, buffer.grain)
            self.out.line(f"{old.name} = T.atomic_load({where}{order}{reach})")
            scope.scalars.append(old)
        else:
            op = self.pick.one(("max", "min") if buffer.bound else ("add", "max", "min", "and", "or", "xor"))
            self.out.line(f"T.atomic_{op}({where}, {value}{order}{reach})")
        return True

    def _swapped(self, scope: Scope) -> bool:
        """A compare-and-swap, which succeeds or does not."""
        found = self._element(scope, ("int32", "uint32", "int64", "uint64"))
        if found is None:
            return False
        buffer, where = found
        expected = self.pick.one((where, self.make.integer(scope, buffer.dtype, 1)))
        old = Scalar(self.name("a"), buffer.dtype, buffer.bound, buffer.grain)
        value = self.make.number(scope, buffer.dtype, 1, buffer.bound)
        self.out.line(f"{old.name} = T.atomic_cas({where}, {expected}, {value}{self.pick.one(_ORDERS)}{self.pick.one(_SCOPES)})")
        scope.scalars.append(old)
        return True

    def _neighbors(self, scope: Scope) -> bool:
        """Two or four neighbors updated together, by all blocks."""
        dtype, width = self.pick.one((("float32", 2), ("float32", 4), ("float16", 2), ("bfloat16", 2)))
        rows, columns = 1 + self.pick.below(5), width * (1 + self.pick.below(8))
        if self._weight > 2:
            return False
        total = Buffer(self.name("C"), dtype, (rows, columns), bound=4, grain=1)
        self.parameter(total, total.shape)
        if "Strided" in self.params[-1].annotation:
            return False
        tile = self.allocate(scope, "float32" if self.pick.often(30) else dtype, total.shape, self.pick.one(("fragment", "shared")))
        i, j = self.name("i"), self.name("j")
        self.out.line(f"for {i}, {j} in T.Parallel({rows}, {columns}):")
        self.out.line(f"    {tile.name}[{i}, {j}] = T.cast({i} % 3 - {j} % 2, '{tile.dtype}')")
        self.out.line(f"for {i}, {j} in T.Parallel({rows}, {columns // width}):")
        at = f"[{i}, {width} * {j}]"
        self.out.line(f"    T.atomic_addx{width}({total.name}{at}, {tile.name}{at})")
        return True

    # -- copies and names ---------------------------------------------------------------------------------------
    def _repeated(self, scope: Scope) -> bool:
        """A copy of one row or column to all of them."""
        dtype = self.dtype()
        rows, columns = self.pick.one([e for e in SIDES if e <= 64]), self.pick.one([e for e in SIDES if e <= 64])
        shape = self.pick.one(((1, columns), (rows, 1)))
        if self.pick.often(60):
            source = self.allocate(scope, dtype, shape, self.pick.one(("fragment", "shared")))
        else:
            source = self.input(dtype, shape)
            if "N" in self.params[-1].annotation:  # what is repeated has extents that are known
                return False
        made = self._like(source, (rows, columns))
        self.out.line(f"T.copy({source.name}, {made.name})")
        scope.buffers.append(made)
        return True

    def _renamed(self, scope: Scope) -> bool:
        """Another shape or dtype for a tensor."""
        dense = {p.buffer.name for p in self.params if p.annotation.startswith("T.Tensor") and "N" not in p.annotation}
        tensors = [b for b in scope.readable() if b.name in dense and not b.writable and b.shape and not b.prefix]
        if not tensors:
            return False
        tensor = self.pick.one(tensors)
        twins = {"int32": "uint32", "int8": "uint8", "uint8": "int8", "int16": "uint16", "int64": "uint64", "uint32": "int32"}
        if tensor.dtype in twins and tensor.bound is None and self.pick.often(40):
            made = Buffer(self.name("V"), twins[tensor.dtype], tensor.shape, writable=False)
            self.out.line(f"{made.name} = T.view({tensor.name}, {tensor.shape}, '{made.dtype}')")
        else:
            shape = self.pick.one(((tensor.size,), (1, tensor.size), tensor.shape[::-1], (tensor.size, 1)))
            made = Buffer(self.name("V"), tensor.dtype, shape, bound=tensor.bound, grain=tensor.grain, special=tensor.special,
                          writable=False)  # fmt: skip
            self.out.line(f"{made.name} = T.reshape({tensor.name}, {shape})")
        scope.buffers.append(made)
        return True

    def _fetched(self, scope: Scope) -> bool:
        """A loop whose tiles are rows that indices of another tensor name."""
        if self._weight > 3:
            return False
        rows, columns, trips = self.pick.one((8, 16, 4, 5)), self.pick.one((16, 32, 64, 8, 7)), 1 + self.pick.below(4)
        data = self.input(self.pick.one(("float16", "int32", "float32", "int8")), (self.pick.one((33, 7, 64)), columns))
        index = self.input("int32", (rows * trips,))
        tile = self._like(data, (rows, columns), where=("shared",))
        total = self.allocate(scope, data.dtype, (rows, columns), "fragment")
        total.special = total.special or data.special
        total.bound, total.grain = data.bound, max(total.grain, data.grain)
        self.out.line(f"T.clear({total.name})")
        k, i, j = self.name("k"), self.name("i"), self.name("j")
        self.out.line(f"for {k} in T.Pipelined({trips}, num_stages={self.pick.below(4)}):")
        self.out.line(f"    for {i}, {j} in T.Parallel({rows}, {columns}):")
        self.out.line(f"        {tile.name}[{i}, {j}] = {data.name}[{index.name}[{k} * {rows} + {i}] % {data.shape[0]}, {j}]")
        self.out.line(f"    for {i}, {j} in T.Parallel({rows}, {columns}):")
        self.out.line(f"        {total.name}[{i}, {j}] = T.max({total.name}[{i}, {j}], {tile.name}[{i}, {j}])")
        scope.buffers += [data, index, tile]
        return True

    def _patches(self, scope: Scope) -> bool:
        """Tiles of the matrix of an image's patches."""
        n, h, w, c = 1 + self.pick.below(2), *(3 + self.pick.below(7) for _ in range(2)), self.pick.one((8, 1, 4, 16, 3))
        kernel, stride, dilation, pad = self.pick.one((1, 2, 3)), self.pick.one((1, 2)), self.pick.one((1, 2)), self.pick.below(3)
        extents = [(e + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1 for e in (h, w)]
        if min(extents) < 1:
            return False
        image = self.input(self.pick.one(("float16", "float32", "int8", "int32")), (n, h, w, c))
        if "Strided" in self.params[-1].annotation:
            return False
        rows, columns = self.pick.one((16, 8, 32, 5)), self.pick.one((8, 16, 4, 9))
        tile = self._like(image, (rows, columns), where=("shared",))
        row, column = (self.make.index(scope, 0, most, data=False) for most in (n * extents[0] * extents[1] // rows, c * kernel**2 // columns))
        self.out.line(f"T.im2col({image.name}, {tile.name}, {row}, {column}, {kernel}, {stride}, {dilation}, {pad})")
        scope.buffers += [tile]
        return True

    # -- scalars ------------------------------------------------------------------------------------------------
    def _assumed(self, scope: Scope) -> bool:
        """Something that holds, said to the compiler."""
        if not scope.indices:
            return False
        name, low, high = self.pick.one(scope.indices)
        self.out.line(f"T.assume({self.pick.one((f'{name} >= {low}', f'{name} <= {high}', f'{name} + 1 > {low}'))})")
        return True

    def _uniform(self, scope: Scope) -> bool:
        """A random float of the block's own."""
        self.out.line(f"T.rng_init({self.pick.below(5)}, {self.make.index(scope, 0, 9, data=False)}, {self.pick.below(3)})")
        bits, dist = self.pick.one((32, 64)), self.pick.one(("uniform", "uniform", "normal"))
        drawn = self.name("r")
        self.out.line(f"{drawn} = T.rng_rand_float({bits}, '{dist}')")
        out = self.owned(f"float{bits}", (), tolerance=1e-5 if dist == "normal" or bits == 32 else 1e-12)
        self._outputs.pop()
        self.out.line(f"{out.name}[{', '.join(out.prefix)}] = {drawn}")
        return True

    def _accumulated(self, scope: Scope) -> bool:
        """A reducer in the older syntax, over a tile."""
        tiles = [b for b in scope.readable() if b.scope in ON_CHIP and len(b.shape) == 2 and b.dtype != "bool" and not b.special]
        if not tiles:
            return False
        tile = self.pick.one(tiles)
        rows, columns = tile.shape
        integers = not is_float(tile.dtype) and tile.bound is None
        op = self.pick.one(("sum", "max", "min") if integers else ("max", "min"))
        total = Buffer(self.name("R"), tile.dtype, (rows,), "fragment", bound=tile.bound, grain=tile.grain, writable=False)
        i, j = self.name("i"), self.name("j")
        self.out.line(f"{total.name} = T.alloc_reducer(({rows},), '{tile.dtype}', op='{op}')")
        self.out.line(f"T.fill({total.name}, {self.make.number(Scope(), tile.dtype, 0, tile.bound, tile.grain)})")
        self.out.line(f"for {i}, {j} in T.Parallel({rows}, {columns}):")
        value = f"{tile.name}[{i}, {j}]"
        update = f"{total.name}[{i}] + {value}" if op == "sum" else f"T.{op}({total.name}[{i}], {value})"
        self.out.line(f"    {total.name}[{i}] = {update}")
        self.out.line(f"T.finalize_reducer({total.name})")
        scope.buffers.append(total)
        return True
