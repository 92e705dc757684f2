"""Prints index arithmetic for languages of the C family: exact integers, in a type that contains them.

Takes expressions in index position, gives text with its precedence and width. Invariant: no operation in the text
overflows its type in the language.
"""

from __future__ import annotations

import abc
from typing import NamedTuple

from tilelang.codegen.dialect import Dialect
from tilelang.codegen.index_types import IndexTypes
from tilelang.codegen.names import Names
from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Binary, Cast, Const, Expr, Select, Unary, Var, as_expr, int_const
from tilelang.ir.scalar import BinaryOp
from tilelang.isa.intrinsic import Helper
from tilelang.powers import is_power_of_two

# Source: ISO C++17 [expr], from loose to tight
TERNARY, OR, AND, BITOR, BITXOR, BITAND, EQUAL, LESS, SHIFT, SUM, PRODUCT, PREFIX, POSTFIX = range(13)

INFIX: dict[BinaryOp, tuple[str, int]] = {
    BinaryOp.ADD: ("+", SUM),
    BinaryOp.SUB: ("-", SUM),
    BinaryOp.MUL: ("*", PRODUCT),
    BinaryOp.DIV: ("/", PRODUCT),
    BinaryOp.EQ: ("==", EQUAL),
    BinaryOp.NE: ("!=", EQUAL),
    BinaryOp.LT: ("<", LESS),
    BinaryOp.LE: ("<=", LESS),
    BinaryOp.GT: (">", LESS),
    BinaryOp.GE: (">=", LESS),
    BinaryOp.AND: ("&&", AND),
    BinaryOp.OR: ("||", OR),
    BinaryOp.BITAND: ("&", BITAND),
    BinaryOp.BITOR: ("|", BITOR),
    BinaryOp.BITXOR: ("^", BITXOR),
}
CALLED = {
    BinaryOp.FLOORDIV: "tl_floordiv",
    BinaryOp.FLOORMOD: "tl_floormod",
    BinaryOp.TRUNCDIV: "tl_truncdiv",
    BinaryOp.TRUNCMOD: "tl_truncmod",
    BinaryOp.MIN: "tl_min",
    BinaryOp.MAX: "tl_max",
    BinaryOp.FMIN: "tl_fmin",
    BinaryOp.FMAX: "tl_fmax",
    BinaryOp.SHL: "tl_shl",
    BinaryOp.SHR: "tl_shr",
}
_QUOTIENTS = frozenset({BinaryOp.FLOORDIV, BinaryOp.TRUNCDIV})
_REMAINDERS = frozenset({BinaryOp.FLOORMOD, BinaryOp.TRUNCMOD})
_BITS = frozenset({BinaryOp.BITAND, BinaryOp.BITOR, BinaryOp.BITXOR})
_FLOORED = frozenset({BinaryOp.FLOORDIV, BinaryOp.FLOORMOD})

Text = tuple[str, int]  # the text and its precedence


class IndexText(NamedTuple):
    """Text of an exact integer.

    Attributes:
        text: The text.
        level: Its precedence.
        bits: The width of its type.
    """

    text: str
    level: int
    bits: int


def tight(text: Text | IndexText, level: int) -> str:
    """The text, in parentheses if it binds more loosely than `level`."""
    return text[0] if text[1] >= level else f"({text[0]})"


def infix(op: BinaryOp, x: Text | IndexText, y: Text | IndexText) -> Text:
    """`x op y`."""
    sign, level = INFIX[op]
    return f"{tight(x, level)} {sign} {tight(y, level + 1)}", level


def int_literal(value: int, dialect: Dialect) -> str:
    """A literal of a type that contains the value."""
    if value == -(2**63):
        return dialect.min_int[64]
    return f"{value}" if -(2**31) < value < 2**31 else f"{value}LL"


class IndexPrinter(abc.ABC):
    """The part of a printer of expressions that prints exact integers.

    Args:
        names: Identifiers of variables and buffers.
        dialect: The language.
        types: The widths of index arithmetic.

    Attributes:
        names: As given.
        dialect: As given.
        types: As given.
        helpers: Helpers that the text uses, in order of first use.
    """

    def __init__(self, names: Names, dialect: Dialect, types: IndexTypes) -> None:
        self.names, self.dialect, self.types = names, dialect, types
        self.helpers: dict[str, Helper] = {}

    def need(self, helper: Helper | str | None) -> None:
        """Adds a helper, given as record or by its name in `Dialect.helpers`."""
        if isinstance(helper, str):
            helper = self.dialect.helpers[helper]
        if helper is not None:
            self.helpers.setdefault(helper.name, helper)

    def index(self, expr: Expr) -> str:
        """The expression as an exact integer, without parentheses: for arguments and initializers."""
        return self._index(expr).text

    def exact(self, expr: Expr) -> IndexText:
        """The expression as an exact integer, with the width of its type."""
        return self._index(expr)

    def index_type(self, bits: int) -> str:
        """The name of the integer type of a width."""
        return self.dialect.index_types[bits]

    def offset(self, buffer: Buffer, indices: tuple[Expr, ...]) -> str:
        """The offset of an element in its buffer, in elements; without parentheses."""
        bits = self.types.offset_bits(buffer)
        total: IndexText | None = None
        value: Expr = as_expr(0)
        for position, index in enumerate(indices):
            if int_const(index) == 0:
                continue
            factors = _stride(buffer, position)
            term, part = self._product(index, factors, bits)
            if total is None:
                total, value = term, part
                continue
            value = value if bits else value + part
            width = bits or self.types.bits(value)
            if max(total.bits, term.bits) < width:
                total = self._widened(total, width)
            if total.bits == 64 and term.level == SUM:
                term = term._replace(level=PRODUCT)  # its terms may be added one by one
            total = IndexText(*infix(BinaryOp.ADD, total, term), max(total.bits, term.bits))
        return "0" if total is None else total.text

    def _product(self, index: Expr, factors: list[Expr], bits: int | None) -> tuple[IndexText, Expr]:
        """An index times the factors of its stride, and the same as an expression."""
        result, value = self._index(index), index
        for factor in factors:
            value = value if bits else value * factor
            width = bits or self.types.bits(value)
            other = self._index(factor)
            if max(result.bits, other.bits) < width:
                result = self._widened(result, width)
            text = f"{tight(result, PRODUCT)} * {tight(other, POSTFIX)}"
            result = IndexText(text, PRODUCT, max(result.bits, other.bits))
        return result, value

    @abc.abstractmethod
    def _value(self, expr: Expr) -> Text:
        """The expression as a value of its dtype."""

    def _index(self, expr: Expr) -> IndexText:
        match expr:
            case Const(value=value):
                return self._literal_index(int(value))
            case Var(index=True):
                return IndexText(self.names[expr], POSTFIX, self.types.declared(expr))
            case Binary(op=op, a=a, b=b) if expr.dtype.is_int:
                return self._index_binary(op, a, b, self.types.bits(expr))
            case Unary(op=op, a=a) if expr.dtype.is_int:
                x = self._widened(self._index(a), self.types.bits(expr))
                return IndexText(f"{op.value}{tight(x, POSTFIX)}", PREFIX, x.bits)
            case Select(condition=c, a=a, b=b):
                return self._index_choice(c, a, b)
            case Cast(a=a) if expr.is_index:
                return self._index(a)
            case Cast(a=a, dtype=dtype) if dtype.is_int and dtype.bits >= 8 and a.dtype.is_int:
                return self._exact((f"({self.dialect.value_type(dtype)})({self.index(a)})", PREFIX), expr)
        return self._exact(self._value(expr), expr)

    def _exact(self, value: Text, expr: Expr) -> IndexText:
        """Data in index position: converted to a type in which arithmetic on it is exact."""
        bits, dtype = self.types.bits(expr), expr.dtype
        promoted = dtype.is_int and (dtype.bits < 32 or dtype.bits == 32 and dtype.kind.value == "int")
        if bits == 32 and promoted and dtype.bits >= 8:
            return IndexText(*value, 32)
        return IndexText(f"({self.index_type(bits)}){tight(value, PREFIX)}", PREFIX, bits)

    def _index_choice(self, condition: Expr, a: Expr, b: Expr) -> IndexText:
        test = tight(self._value(condition), OR)
        with self.types.given(condition, momentary=True):
            x = self._index(a)
        with self.types.given(condition, holds=False, momentary=True):
            y = self._index(b)
        bits = max(x.bits, y.bits)
        if bits == 32:
            return IndexText(f"{test} ? {tight(x, OR)} : {tight(y, OR)}", TERNARY, bits)
        kind = self.index_type(bits)
        return IndexText(f"{test} ? {kind}({x.text}) : {kind}({y.text})", TERNARY, bits)

    def _index_binary(self, op: BinaryOp, a: Expr, b: Expr, bits: int) -> IndexText:
        x, y = self._index(a), self._index(b)
        amount = int_const(b)
        if op in INFIX and op is not BinaryOp.DIV:
            if max(x.bits, y.bits) < bits:
                x = self._widened(x, bits)
            width = max(x.bits, y.bits)
            if self.dialect.divides_by_shifts and op in _BITS:
                x, y = self._clear(x), self._clear(y)
            return IndexText(*infix(op, x, y), width)
        if amount is not None and amount > 0 and op in _QUOTIENTS | _REMAINDERS:
            short = self._divided(op, a, x, amount)
            if short is not None:
                return short
        is_shift = op in (BinaryOp.SHL, BinaryOp.SHR)
        if self.dialect.divides_by_shifts and is_shift and amount is not None and 0 <= amount < 31:
            if op is BinaryOp.SHR:
                return IndexText(f"{tight(x, PREFIX)} >> {amount}", SHIFT, x.bits)
            x = self._widened(x, bits)
            return IndexText(f"{tight(x, PRODUCT)} * {2**amount}", PRODUCT, x.bits)
        if op in _QUOTIENTS | _REMAINDERS and self.types.is_nonnegative(a) and self.types.is_nonnegative(b - 1):
            return self._plainly_divided(op, x, y)
        name = CALLED[op]
        self.need(name)
        bits = max(x.bits, y.bits, bits)
        return IndexText(f"{name}<{self.index_type(bits)}>({x.text}, {y.text})", POSTFIX, bits)

    @staticmethod
    def _clear(x: IndexText) -> IndexText:
        """An operand in parentheses, for operators whose precedence is not well known."""
        return x if x.level >= PREFIX else IndexText(f"({x.text})", POSTFIX, x.bits)

    def _divided(self, op: BinaryOp, a: Expr, x: IndexText, divisor: int) -> IndexText | None:
        """Quotient or remainder by a positive constant, where that is shorter than a call."""
        if self.dialect.divides_by_shifts:
            nonnegative = self.types.is_nonnegative(a)
            if is_power_of_two(divisor) and (nonnegative or op in _FLOORED):
                if op in _QUOTIENTS:
                    amount = divisor.bit_length() - 1
                    x = self._widened(x, 32 if amount < 32 else 64)
                    return IndexText(f"{tight(x, PREFIX)} >> {amount}", SHIFT, x.bits)
                mask = self._literal_index(divisor - 1)
                return IndexText(f"{tight(x, PREFIX)} & {mask.text}", BITAND, max(x.bits, mask.bits))
            if nonnegative and x.bits == 32 and divisor < 2**31:
                sign = "/" if op in _QUOTIENTS else "%"
                kind = self.index_type(32)
                return IndexText(f"({kind})((unsigned){tight(x, PREFIX)} {sign} {divisor}u)", PREFIX, 32)
        if op in _FLOORED:
            return None
        sign = "/" if op in _QUOTIENTS else "%"
        y = self._literal_index(divisor)
        return IndexText(f"{tight(x, PRODUCT)} {sign} {y.text}", PRODUCT, max(x.bits, y.bits))

    def _plainly_divided(self, op: BinaryOp, x: IndexText, y: IndexText) -> IndexText:
        """Quotient or remainder of non-negative numbers, the divisor not 0, in unsigned types."""
        bits, sign = max(x.bits, y.bits), "/" if op in _QUOTIENTS else "%"
        kind = self.index_type(bits)
        number = "unsigned" if bits == 32 else f"u{kind}"
        text = f"({kind})(({number}){tight(x, PREFIX)} {sign} ({number}){tight(y, PREFIX)})"
        return IndexText(text, PREFIX, bits)

    def _literal_index(self, value: int) -> IndexText:
        text = int_literal(value, self.dialect)
        bits = 64 if text.endswith("LL") or value == -(2**63) else 32
        return IndexText(text, PREFIX if value < 0 else POSTFIX, max(bits, self.types.least))

    def _widened(self, x: IndexText, bits: int) -> IndexText:
        """The integer converted to a type of at least `bits`."""
        if x.bits >= bits:
            return x
        return IndexText(f"({self.index_type(bits)}){tight(x, PREFIX)}", PREFIX, bits)


def _stride(buffer: Buffer, position: int) -> list[Expr]:
    """The factors of the stride of one dimension; none for a stride of 1."""
    if buffer.strides is not None:
        stride = buffer.strides[position]
        return [] if int_const(stride) == 1 else [stride]
    constant, factors = 1, []
    for extent in buffer.shape[position + 1 :]:
        constant_extent = int_const(extent)
        if constant_extent is not None:
            constant *= constant_extent
        else:
            factors.append(extent)
    return [*factors, as_expr(constant)] if constant != 1 else factors
