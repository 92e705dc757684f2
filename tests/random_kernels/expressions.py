"""Random expressions of the language, as text, whose values two correct executors must agree on exactly.

Takes a source of choices and the names in scope, gives text. Invariant: integers may do anything that the language
defines. Floats stay within a *contract* (a bound and a grain: multiples of 2**-grain no larger than the bound) under
which float32 arithmetic is exact, so that neither fused operations nor the order of a sum can show.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from random_kernels.model import Buffer, Choices, Scope, cap, is_float, limits, within

from tilelang.dtypes import as_dtype

INTEGERS = ("int32", "int8", "uint8", "int64", "uint32", "int16", "uint16", "uint64", "int4", "uint4")
FLOATS = (
    "float32",
    "float16",
    "bfloat16",
    "float64",
    "float8_e4m3fn",
    "float8_e5m2",
    "tfloat32",
    "float8_e4m3fnuz",
    "float8_e5m2fnuz",
    "float4_e2m1fn",
)


class Expressions:
    """Random expressions over a scope."""

    def __init__(self, choices: Choices) -> None:
        self.pick = choices

    # -- any dtype --------------------------------------------------------------------------------------------
    def number(
        self, scope: Scope, dtype: str, fuel: int, bound: int | None = 64, grain: int = 4, special: bool = False
    ) -> str:
        """An expression of exactly this dtype; floats within the contract."""
        if dtype == "bool":
            return self.truth(scope, fuel)
        if is_float(dtype):
            return self.floating(scope, dtype, fuel, bound or 64, grain, special)
        return self.integer(scope, dtype, fuel) if bound is None else self.small(scope, dtype, fuel, bound)

    def small(self, scope: Scope, dtype: str, fuel: int, bound: int) -> str:
        """An integer of at most this magnitude (a power of two)."""
        low, high = limits(dtype)
        top = min(high, bound)
        return f"({self.integer(scope, dtype, fuel)} % {top if self.pick.often(50) else max(1, top // 2)})"

    def for_buffer(self, scope: Scope, buffer: Buffer, fuel: int) -> str:
        """A value that may be stored into a buffer; sometimes of another dtype, which the store converts."""
        if self.pick.often(20) and buffer.dtype != "bool":
            other = self.dtype(scope, ("int32", "int8", "uint8", "int64", "float32", "float16", "bool"))
            if is_float(buffer.dtype) and not is_float(other):
                if other == "bool":
                    return self.truth(scope, fuel)
                return self.small(scope, other, fuel, min(buffer.bound or 64, 64))
            if is_float(buffer.dtype):
                return self.floating(scope, other, fuel, cap(other, buffer.bound or 64), buffer.grain, False)
            if not is_float(other) and buffer.bound is None:
                return self.number(scope, other, fuel, None)
        return self.number(scope, buffer.dtype, fuel, buffer.bound, buffer.grain, buffer.special)

    def dtype(self, scope: Scope, options: Sequence[str]) -> str:
        """One of some dtypes, rather one that buffers in scope have."""
        here = sorted({b.dtype for b in scope.readable()} & set(options))
        return self.pick.one(here) if here and self.pick.often(75) else self.pick.one(options)

    def load(self, scope: Scope, dtype: str, bound: int | None, grain: int, special: bool) -> str | None:
        """An element of a buffer of this dtype within the contract."""

        def fits(b: Buffer) -> bool:
            if b.dtype != dtype:
                return False
            if is_float(dtype):
                return (
                    b.bound is not None and b.bound <= (bound or 0) and b.grain <= grain and (special or not b.special)
                )
            return bound is None or b.bound is not None and b.bound <= bound

        options = [(None, b) for b in scope.readable() if fits(b)] + [(t, b) for t, b in scope.own if fits(b)]
        if not options:
            return None
        text, buffer = self.pick.one(options)
        return text or self.element(scope, buffer)

    def element(self, scope: Scope, buffer: Buffer) -> str:
        """Some element; of a global tensor sometimes one out of bounds."""
        return buffer.at([self.subscript(scope, buffer, dim) for dim in range(len(buffer.shape))])

    def subscript(self, scope: Scope, buffer: Buffer, dim: int) -> str:
        """An index of one dimension."""
        extent = buffer.shape[dim]
        if (
            buffer.scope == "global"
            and not buffer.offsets[dim]
            and (not buffer.writable or buffer.hangs)
            and self.pick.often(25)
        ):
            return within(self.index(scope, -3, extent + 2), extent)
        if self.pick.often(5) and not buffer.offsets[dim]:
            return str(-1 - self.pick.below(extent))
        return self.index(scope, 0, extent - 1)

    # -- indices ----------------------------------------------------------------------------------------------
    def index(self, scope: Scope, low: int, high: int, fuel: int = 1, data: bool = True) -> str:
        """Index arithmetic with a value from low to high; where it stands as a value, data in it would wrap."""
        n = max(1, high - low + 1)
        kind = self.pick.below(10)
        inside = [v for v in scope.indices if low <= v[1] and v[2] <= high]
        if inside and kind < 5:
            return self.pick.one(inside)[0]
        if scope.indices and kind < 9:
            name, first, last = self.pick.one(scope.indices)
            if last - first < n and self.pick.often(60):
                shift = low - first + self.pick.below(n - (last - first))
                if self.pick.often(30):
                    return f"({first + last + shift} - {name})"
                return f"({name} + {shift})" if shift >= 0 else f"({name} - {-shift})"
            base = f"({name} % {n})"
            if fuel and self.pick.often(40):
                other = self.index(scope, 0, 5, 0)
                form = self.pick.one(
                    (
                        "({a} * {c} + {b}) % {n}",
                        "({a} - {b} * {c}) % {n}",
                        "({a} // {c} + {b}) % {n}",
                        "T.min(T.max({a} - {b}, 0), {m})",
                        "(-{a}) % {n}",
                        "T.truncmod({a} + {b} + 40, {n})",
                        "({a} ^ {b}) % {n}",
                        "({a} * {b}) % {n}",
                    )
                )
                if form.startswith("T.trunc") and first < 0:
                    form = "({a} + {b}) % {n}"
                base = "(" + form.format(a=name, b=other, c=self.pick.one((2, 3, 7)), n=n, m=n - 1) + ")"
            return f"({base} + {low})" if low > 0 else f"({base} - {-low})" if low else base
        ints = [b for b in scope.readable() if b.dtype in ("int32", "uint8", "int64", "int8")]
        if kind == 9 and ints and fuel and data:
            base = f"({self.element_plain(scope, self.pick.one(ints))} % {n})"  # data as an index
            return f"({base} + {low})" if low > 0 else f"({base} - {-low})" if low else base
        return str(low + self.pick.below(n)) if low >= 0 else f"({low + self.pick.below(n)} + 0 * 1)"

    def element_plain(self, scope: Scope, buffer: Buffer) -> str:
        """An element in bounds, whose index reads no memory."""
        return buffer.at([self.index(scope, 0, extent - 1, 0) for extent in buffer.shape])

    # -- integers ---------------------------------------------------------------------------------------------
    def constant(self, dtype: str) -> int:
        """A number of an integer dtype, often a remarkable one."""
        low, high = limits(dtype)
        options = (1, 2, 3, 7, 0, high, low, high - 1, low + 1, 5, 10, -1, -2, -3)
        return min(max(self.pick.one(options), low), high)

    def integer(self, scope: Scope, dtype: str, fuel: int) -> str:
        """Data of an integer dtype."""
        if fuel <= 0 or not self.pick.often(85):
            return self._integer_leaf(scope, dtype)
        made = (
            self._arithmetic,
            self._arithmetic,
            self._choice,
            self._shifted,
            self._unary_integer,
            self._mixed,
            self._function,
            self._from_float,
        )
        return self.pick.one(made)(scope, dtype, fuel - 1)

    def _integer_leaf(self, scope: Scope, dtype: str) -> str:
        scalars = [s.name for s in scope.scalars if s.dtype == dtype]
        if scalars and self.pick.often(30):
            return self.pick.one(scalars)
        text = self.load(scope, dtype, None, 0, False) if self.pick.often(75) else None
        if text is not None:
            return text
        others = [b for b in scope.readable() if not is_float(b.dtype)]
        if others and self.pick.often(60):
            return f"T.cast({self.element(scope, self.pick.one(others))}, '{dtype}')"
        if self.pick.often(60) and scope.indices:
            return f"T.cast({self.index(scope, -20, 100)}, '{dtype}')"
        return f"T.{dtype}({self.constant(dtype)})"

    def _arithmetic(self, scope: Scope, dtype: str, fuel: int) -> str:
        op = self.pick.one(("+", "-", "*", "//", "%", "&", "|", "^", "T.truncdiv", "T.truncmod", "T.floordiv"))
        a = self.integer(scope, dtype, fuel)
        if op == "*":
            a = _as_data(a, dtype)
        b = self.integer(scope, dtype, fuel) if self.pick.often(70) else str(self.constant(dtype))
        if not a or (b in ("0", "-0") and op in ("//", "%", "T.truncdiv", "T.truncmod", "T.floordiv")):
            b = "3"
        if self.pick.often(10) and op[0] != "T" and not b[0].isalpha():
            a, b = b, a
        return f"{op}({a}, {b})" if op[0] == "T" else f"({a} {op} {b})"

    def _choice(self, scope: Scope, dtype: str, fuel: int) -> str:
        a, b = self.integer(scope, dtype, fuel), self.integer(scope, dtype, fuel)
        form = self.pick.one(
            (
                "T.max({a}, {b})",
                "T.min({a}, {b})",
                "({a} if {c} else {b})",
                "T.if_then_else({c}, {a}, {b})",
                "T.clamp({a}, {low}, {high})",
                "T.Select({c}, {a}, {b})",
            )
        )
        low, high = sorted((self.constant(dtype), self.constant(dtype)))
        return form.format(a=a, b=b, c=self.truth(scope, fuel) if "{c}" in form else "", low=low, high=high)

    def _shifted(self, scope: Scope, dtype: str, fuel: int) -> str:
        bits = as_dtype(dtype).bits
        op = self.pick.one(("<<", ">>"))
        amount = self.pick.one(
            (
                str(self.pick.below(bits)),
                f"({self.integer(scope, dtype, fuel)} & {bits - 1})",
                str(bits),
                self.integer(scope, dtype, 0),
            )
        )
        value = self.integer(scope, dtype, fuel)
        return f"({_as_data(value, dtype) if op == '<<' else value} {op} {amount})"

    def _unary_integer(self, scope: Scope, dtype: str, fuel: int) -> str:
        form = self.pick.one(("(-{})", "(~{})", "T.abs({})", "T.floor({})", "({} ** 2)"))
        value = self.integer(scope, dtype, fuel)
        return form.format(_as_data(value, dtype) if "**" in form else value)

    def _mixed(self, scope: Scope, dtype: str, fuel: int) -> str:
        """Operands of different dtypes, bare literals and indices among them."""
        one, other = self.dtype(scope, INTEGERS), self.dtype(scope, ("bool", "index", "literal", *INTEGERS))
        a = self.integer(scope, one, fuel)
        if other == "index":
            b = self.index(scope, -9, 90)
        elif other == "literal":
            b = self.pick.one(("300", "-1", "100000", "2147483648", "-129", "(-70000)"))
        else:
            b = self.number(scope, other, fuel, None)
        forms = ("{a} + {b}", "{a} - {b}", "{a} * {b}", "{a} // {b}", "{a} % {b}", "{a} ^ {b}", "{a} & {b}", "{b} - {a}",
                 "T.max({a}, {b})", "T.min({b}, {a})", "({a} if {c} else {b})")  # fmt: skip
        form = self.pick.one(forms)
        condition = self.truth(scope, fuel) if "{c}" in form else ""
        return f"T.cast({form.format(a=a, b=b, c=condition)}, '{dtype}')"

    def _function(self, scope: Scope, dtype: str, fuel: int) -> str:
        form = self.pick.one(
            (
                "T.fma({a}, {b}, {c})",
                "T.cast(T.popcount({x}), '{d}')",
                "T.cast(T.clz({x}), '{d}')",
                "T.reinterpret({s}, '{d}')",
                "T.cast({t}, '{d}')",
                "T.cast(T.dp4a({i}, {j}, {k}), '{d}')",
            )
        )
        bits = as_dtype(dtype).bits
        twin = dtype[1:] if dtype[0] == "u" else "u" + dtype
        wide = self.pick.one(("int32", "uint32"))
        parts = {
            "{a}": lambda: self.integer(scope, dtype, fuel),
            "{b}": lambda: self.integer(scope, dtype, fuel),
            "{c}": lambda: self.integer(scope, dtype, fuel),
            "{x}": lambda: self.integer(scope, self.dtype(scope, INTEGERS), fuel),
            "{d}": lambda: dtype,
            "{s}": lambda: self._bits(scope, twin, bits, fuel),
            "{t}": lambda: self.truth(scope, fuel),
            "{i}": lambda: self._packed(scope, wide, fuel),
            "{j}": lambda: self._packed(scope, wide, fuel),
            "{k}": lambda: self._packed(scope, wide, fuel),
        }
        for key, make in parts.items():
            if key in form:
                form = form.replace(key, make())
        return form

    def _bits(self, scope: Scope, twin: str, bits: int, fuel: int) -> str:
        floats = [
            b for b in scope.readable() if is_float(b.dtype) and as_dtype(b.dtype).bits == bits and not b.writable
        ]
        if floats and self.pick.often(50):
            return self.element_plain(scope, self.pick.one([b for b in floats]))
        return self.integer(scope, twin, fuel)

    def _packed(self, scope: Scope, dtype: str, fuel: int) -> str:
        return f"T.cast({self.integer(scope, dtype, fuel)}, '{dtype}')"  # constants may have outgrown the dtype

    def _from_float(self, scope: Scope, dtype: str, fuel: int) -> str:
        source = self.dtype(scope, FLOATS[:6])
        low, high = limits(dtype)
        bound = 2 ** min(6, high.bit_length() - 1)
        inner = self.floating(scope, source, fuel, cap(source, bound), 4, False)
        if low == 0:
            inner = f"T.abs({inner})"
        return (
            f"T.cast({self.pick.one(('{}', 'T.floor({})', 'T.round({})')).format(inner) if low else inner}, '{dtype}')"
        )

    # -- floats -----------------------------------------------------------------------------------------------
    def floating(self, scope: Scope, dtype: str, fuel: int, bound: int, grain: int, special: bool) -> str:
        """A float within the contract."""
        bound = cap(dtype, bound)
        if fuel <= 0 or not self.pick.often(85):
            return self._float_leaf(scope, dtype, bound, grain, special)
        made = (
            self._sum,
            self._gemm,
            self._float_choice,
            self._float_unary,
            self._converted,
            self._rounded,
            self._fused,
        )
        return self.pick.one(made)(scope, dtype, fuel - 1, bound, grain, special)

    def literal(self, bound: int, grain: int) -> float:
        """A number within the contract."""
        unit = 2.0**-grain
        options = (0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 0.25, 3.0, -1.5, float(bound), -float(bound), unit)
        value = self.pick.one(options)
        return math.floor(min(max(value, -bound), bound) / unit) * unit

    def _float_leaf(self, scope: Scope, dtype: str, bound: int, grain: int, special: bool) -> str:
        scalars = [s.name for s in scope.scalars if s.dtype == dtype and (s.bound or 0) <= bound and s.grain <= grain]
        if scalars and self.pick.often(30):
            return self.pick.one(scalars)
        text = self.load(scope, dtype, bound, grain, special) if self.pick.often(75) else None
        if text is not None:
            return text
        fits = [
            b for b in scope.readable() if is_float(b.dtype) and b.bound <= bound and b.grain <= grain and not b.special
        ]
        if fits and self.pick.often(60):
            return f"T.cast({self.element(scope, self.pick.one(fits))}, '{dtype}')"
        if self.pick.often(40):
            source = self.dtype(scope, ("int32", "int8", "uint8", "int64", "bool", "uint32"))
            inner = (
                self.truth(scope, 0) if source == "bool" else f"({self.integer(scope, source, 0)} % {min(bound, 8)})"
            )
            return f"T.cast({inner}, '{dtype}')"
        if self.pick.often(20) and bound >= 4:
            return f"T.cast({self.index(scope, -4, 4, data=False)}, '{dtype}')"
        return f"T.{dtype}({self.literal(bound, grain)})"

    def _sum(self, scope: Scope, dtype: str, fuel: int, bound: int, grain: int, special: bool) -> str:
        if bound < 2:
            return self._float_leaf(scope, dtype, bound, grain, special)
        a = self.floating(scope, dtype, fuel, bound // 2, grain, special)
        b = (
            self.floating(scope, dtype, fuel, bound // 2, grain, special)
            if self.pick.often(70)
            else str(self.literal(bound // 2, grain))
        )
        return f"({a} {self.pick.one('+-')} {b})"

    def _gemm(self, scope: Scope, dtype: str, fuel: int, bound: int, grain: int, special: bool) -> str:
        part = 2 ** ((bound.bit_length() - 1) // 2)
        a = self.floating(scope, dtype, fuel, part, grain // 2, special)
        b = (
            self.floating(scope, dtype, fuel, part, grain // 2, special)
            if self.pick.often(70)
            else str(self.literal(part, grain // 2))
        )
        if self.pick.often(15) and grain:
            return f"({self.floating(scope, dtype, fuel, bound, grain - 1, special)} / 2.0)"
        return f"({a} * {b})"

    def _fused(self, scope: Scope, dtype: str, fuel: int, bound: int, grain: int, special: bool) -> str:
        if bound < 2:
            return self._float_leaf(scope, dtype, bound, grain, special)
        half = bound // 2
        part = 2 ** ((half.bit_length() - 1) // 2)
        a, b = (self.floating(scope, dtype, fuel, part, grain // 2, special) for _ in range(2))
        return f"T.fma({a}, {b}, {self.floating(scope, dtype, fuel, half, grain, special)})"

    def _float_choice(self, scope: Scope, dtype: str, fuel: int, bound: int, grain: int, special: bool) -> str:
        a, b = (self.floating(scope, dtype, fuel, bound, grain, special) for _ in range(2))
        form = self.pick.one(
            (
                "T.max({a}, {b})",
                "T.min({a}, {b})",
                "({a} if {c} else {b})",
                "T.if_then_else({c}, {a}, {b})",
                "T.clamp({w}, {low}, {high})",
                "T.max({a}, {low})",
            )
        )
        low, high = sorted((self.literal(bound, grain), self.literal(bound, grain)))
        wide = self.floating(scope, dtype, fuel, bound * 2, grain, special) if "{w}" in form and bound < 64 else a
        return form.format(a=a, b=b, w=wide, c=self.truth(scope, fuel) if "{c}" in form else "", low=low, high=high)

    def _float_unary(self, scope: Scope, dtype: str, fuel: int, bound: int, grain: int, special: bool) -> str:
        form = self.pick.one(("(-{})", "T.abs({})", "(-T.abs({}))"))
        if "fnuz" in dtype or dtype == "float4_e2m1fn":
            form = "(-{})"
        return form.format(self.floating(scope, dtype, fuel, bound, grain, special))

    def _converted(self, scope: Scope, dtype: str, fuel: int, bound: int, grain: int, special: bool) -> str:
        source = self.dtype(scope, FLOATS)
        special = special and not (dtype == "float4_e2m1fn" or source == "float4_e2m1fn")
        return f"T.cast({self.floating(scope, source, fuel, bound, grain, special)}, '{dtype}')"

    def _rounded(self, scope: Scope, dtype: str, fuel: int, bound: int, grain: int, special: bool) -> str:
        form = self.pick.one(("T.floor({})", "T.ceil({})", "T.round({})", "T.trunc({})", "({} % {m})", "({} // {m})"))
        inner = max(1, bound // 2)
        if "{m}" in form:
            if bound < 4 or grain < 1 or dtype == "float4_e2m1fn":
                return self._float_leaf(scope, dtype, bound, grain, special)
            divisor = (
                self.pick.one((1.5, -1.5, 2.0, 1.0, -0.5))
                if form.startswith("({} %")
                else self.pick.one((1.5, 1.0, -1.0))
            )
            return form.format(self.floating(scope, dtype, fuel, inner, grain, special), m=f"T.{dtype}({divisor})")
        return form.format(self.floating(scope, dtype, fuel, inner, 4, special))

    # -- truth ------------------------------------------------------------------------------------------------
    def truth(self, scope: Scope, fuel: int) -> str:
        """A truth value."""
        kind = self.pick.below(12)
        if fuel <= 0 or kind < 3:
            if scope.indices and self.pick.often(50):
                name, low, high = self.pick.one(scope.indices)
                if self.pick.often(20) or low == high:
                    return f"({name} % 2 == 0)"
                op, value = self.pick.one(("<", "==", ">=", "!=")), low + self.pick.below(high - low + 2)
                # a branch that is never taken may be one that would be wrong, which compilers refuse
                value = min(max(value, low + (op in ("<", ">="))), high)
                return f"({name} {op} {value})"
            return self.load(scope, "bool", None, 0, False) or self._comparison(
                scope, self.dtype(scope, ("int32", "float32", "int8")), 0
            )
        if kind < 7:
            return self._comparison(scope, self.dtype(scope, (*INTEGERS[:8], *FLOATS[:4])), fuel - 1)
        a, b = self.truth(scope, fuel - 1), self.truth(scope, fuel - 1)
        if kind == 11:
            dtype = self.dtype(scope, FLOATS[:5])
            return f"T.isnan({self.floating(scope, dtype, fuel - 1, 64, 4, True)})"
        form = self.pick.one(
            (
                "({a} and {b})",
                "({a} or {b})",
                "(not {a})",
                "T.any_of({a}, {b})",
                "T.all_of({a}, {b})",
                "({a} & {b})",
                "({a} ^ {b})",
                "({a} | {b})",
                "({a} == {b})",
            )
        )
        return form.format(a=a, b=b)

    def _comparison(self, scope: Scope, dtype: str, fuel: int) -> str:
        ops = ("<", "<=", "==", "!=", ">", ">=")
        a, b = self.number(scope, dtype, fuel, None, 4, True), self.number(scope, dtype, fuel, None, 4, True)
        if self.pick.often(15) and not is_float(dtype):
            b = self.pick.one(
                (self.index(scope, -9, 90), self.integer(scope, self.dtype(scope, INTEGERS), fuel), "-1", "200")
            )
        if self.pick.often(15):
            c = self.number(scope, dtype, fuel, None, 4, True)
            return f"({a} {self.pick.one(ops)} {b} {self.pick.one(ops)} {c})"
        return f"({a} {self.pick.one(ops)} {b})"


def _as_data(text: str, dtype: str) -> str:
    """An operand of products that wraps: of index arithmetic, which is exact, no more than 64 bits are computed."""
    if "[" in text or dtype not in ("int32", "int64"):
        return text
    return f"T.reinterpret(T.cast({text}, 'u{dtype}'), '{dtype}')"
