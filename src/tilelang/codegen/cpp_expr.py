"""Prints expressions as C++.

Two modes follow the two kinds of integers: *index* text has type int64_t and is exact; *value* text has the value type
of the expression's dtype and wraps or rounds there. Invariant: the printed text has the IR's meaning whatever the
surrounding text, given the precedence that comes with it.
"""

from __future__ import annotations

import math

import numpy as np

from tilelang.codegen.cpp_helpers import HELPERS
from tilelang.codegen.cpp_types import is_packed, storage_helpers, storage_type, value_type
from tilelang.codegen.names import Names
from tilelang.dtypes import FLOAT32, INT64, DType
from tilelang.errors import CompilerBug
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Binary, Call, Cast, Const, Expr, Load, Reinterpret, Select, Unary, Var, int_const
from tilelang.ir.scalar import COMPARISONS, LOGICAL, BinaryOp, UnaryOp, convert
from tilelang.isa.common.convert import conversion
from tilelang.isa.intrinsic import Helper, Intrinsic

# Source: ISO C++17 [expr], from loose to tight
TERNARY, OR, AND, BITOR, BITXOR, BITAND, EQUAL, LESS, SHIFT, SUM, PRODUCT, PREFIX, POSTFIX = range(13)

_INFIX: dict[BinaryOp, tuple[str, int]] = {
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
_CALLED = {
    BinaryOp.FLOORDIV: "tl_floordiv",
    BinaryOp.FLOORMOD: "tl_floormod",
    BinaryOp.TRUNCDIV: "tl_truncdiv",
    BinaryOp.TRUNCMOD: "tl_truncmod",
    BinaryOp.MIN: "tl_min",
    BinaryOp.MAX: "tl_max",
    BinaryOp.SHL: "tl_shl",
    BinaryOp.SHR: "tl_shr",
}
_EXACT = frozenset({BinaryOp.MIN, BinaryOp.MAX})  # give one of their operands

Text = tuple[str, int]  # the text and its precedence


class ExprPrinter:
    """Turns expressions into text; collects the helpers that the text needs.

    Attributes:
        names: Identifiers of variables and buffers.
        helpers: What the text needs, in order of first use.
    """

    def __init__(self, names: Names) -> None:
        self.names = names
        self.helpers: dict[str, Helper] = {}

    def need(self, helper: Helper | str | None) -> None:
        """Notes that the text uses a helper, given as record or by its name in `cpp_helpers`."""
        if isinstance(helper, str):
            helper = HELPERS[helper]
        if helper is not None:
            self.helpers.setdefault(helper.name, helper)

    def value(self, expr: Expr) -> str:
        """The expression as a value of its dtype; loose, so only for argument and initializer places."""
        return self._value(expr)[0]

    def index(self, expr: Expr) -> str:
        """The expression as an exact int64_t; loose."""
        return self._index(expr)[0]

    def condition(self, expr: Expr) -> str:
        """The expression as a truth value; loose."""
        return self._value(expr)[0]

    def stored(self, expr: Expr, dtype: DType) -> str:
        """The expression as an element of a buffer of `dtype`; loose."""
        if isinstance(expr, Load) and expr.buffer.scope is not Scope.VAR and expr.buffer.dtype == dtype == expr.dtype:
            return self.element(expr.buffer, expr.indices)  # bits move as they are
        if not is_packed(dtype):
            return self.value(expr)
        if isinstance(expr, Cast) and expr.dtype == dtype:
            return self._converted(expr)  # straight to bits, without going through the value they stand for
        element = self.storage(dtype)
        text, tight = self._value(expr)
        rounding = f"{element}::rounded("
        if text.startswith(rounding) and tight >= PREFIX:
            text = text[len(rounding) : -1]  # rounded by becoming an element
        return f"{element}({text})"

    def storage(self, dtype: DType) -> str:
        """The type of elements of a dtype, which from now on is defined."""
        for helper in storage_helpers(dtype):
            self.need(helper)
        return storage_type(dtype)

    def rounded(self, text: str, dtype: DType) -> str:
        """A number brought to the nearest (or wrapped) value of a packed dtype; binds at least as a prefix operator."""
        if dtype in ("float16", "bfloat16", "float8_e5m2"):
            return f"{self.storage(dtype)}::rounded({text})"
        return f"({value_type(dtype)}){self.storage(dtype)}({text})"

    def loaded(self, text: str, dtype: DType) -> str:
        """The value of the element that `text` names; binds at least as tight as a prefix operator."""
        if is_packed(dtype):
            self.storage(dtype)
            return f"({value_type(dtype)}){text}"
        return text

    def element(self, buffer: Buffer, indices: tuple[Expr, ...]) -> str:
        """An lvalue for one element of a buffer that is no mutable scalar."""
        return f"{self.names[buffer]}[{self.offset(buffer, indices)}]"

    def offset(self, buffer: Buffer, indices: tuple[Expr, ...]) -> str:
        """The distance of an element from the buffer's first one, in elements; loose."""
        terms = []
        for position, index in enumerate(indices):
            if int_const(index) == 0:
                continue
            stride = self._stride(buffer, position)
            text, tight = self._index(index)
            if stride == "1":
                terms.append(text if tight >= SUM else f"({text})")
            else:
                terms.append(f"{text if tight >= PRODUCT else f'({text})'} * {stride}")
        return " + ".join(terms) or "0"

    def _stride(self, buffer: Buffer, position: int) -> str:
        """Distance of neighbors along one dimension, as text that binds at least as tight as a product."""
        if buffer.strides is not None:
            text, tight = self._index(buffer.strides[position])
            return text if tight >= POSTFIX else f"({text})"
        constant, factors = 1, []
        for extent in buffer.shape[position + 1 :]:
            known = int_const(extent)
            if known is not None:
                constant *= known
            else:
                text, tight = self._index(extent)
                factors.append(text if tight >= POSTFIX else f"({text})")
        if constant != 1 or not factors:
            factors.append(_int_literal(constant))
        return " * ".join(factors)

    # -- values -----------------------------------------------------------------------------------------------
    def _value(self, expr: Expr) -> Text:
        if expr.is_index:
            if isinstance(expr, Const):
                return _literal(expr)
            return f"({value_type(expr.dtype)})({self.index(expr)})", PREFIX
        match expr:
            case Const():
                return _literal(expr)
            case Var():
                return self.names[expr], POSTFIX
            case Load():
                return self._load(expr)
            case Unary():
                return self._unary(expr)
            case Binary():
                return self._binary(expr)
            case Select(condition=c, a=a, b=b):
                test = self._tight(self._value(c), OR)
                yes, no = self._arm(a, expr.dtype), self._arm(b, expr.dtype)
                return f"{test} ? {yes} : {no}", TERNARY
            case Cast():
                return self._cast(expr)
            case Reinterpret():
                return self._reinterpret(expr)
            case Call():
                return self._call(expr)
        raise CompilerBug(f"codegen: no C++ for expression {type(expr).__name__}")

    def _arm(self, expr: Expr, dtype: DType) -> str:
        text = self._tight(self._value(expr), OR)
        return f"{value_type(dtype)}({text})" if isinstance(expr, Const) and dtype.is_int else text

    def _load(self, expr: Load) -> Text:
        buffer = expr.buffer
        if buffer.scope is Scope.VAR:
            return self.names[buffer], POSTFIX
        text = self.element(buffer, expr.indices)
        return self.loaded(text, buffer.dtype), PREFIX if is_packed(buffer.dtype) else POSTFIX

    def _unary(self, expr: Unary) -> Text:
        text = self._tight(self._value(expr.a), PREFIX + 1)
        match expr.op:
            case UnaryOp.NOT:
                return f"!{text}", PREFIX
            case UnaryOp.NEG:
                return (f"-{text}", PREFIX) if expr.dtype.is_float else self._wrapped(f"-{text}", expr.dtype, PREFIX)
            case UnaryOp.INVERT:
                return self._wrapped(f"~{text}", expr.dtype, PREFIX)

    def _binary(self, expr: Binary) -> Text:
        op, a, b = expr.op, expr.a, expr.b
        if op in LOGICAL:
            text, level = ("&&", AND) if op is BinaryOp.AND else ("||", OR)
            return f"{self._tight(self._value(a), level)} {text} {self._tight(self._value(b), level + 1)}", level
        if op in COMPARISONS and a.is_index and b.is_index:
            return self._infix(op, self._index(a), self._index(b))
        dtype = a.dtype
        x, y = self._value(a), self._value(b)
        if op in COMPARISONS:
            return self._infix(op, x, y)
        if op in _INFIX:
            text, level = self._infix(op, x, y)
            if dtype.is_bool:
                return f"bool({text})", POSTFIX
            return self._wrapped(text, expr.dtype, level)
        if op in (BinaryOp.SHL, BinaryOp.SHR):
            amount = int_const(b)
            if amount is not None and 0 <= amount < dtype.bits:
                text = f"{self._tight(x, SHIFT)} {op.value} {amount}"
                return self._wrapped(text, dtype, SHIFT)
        return self._called(op, x[0], y[0], dtype)

    def _called(self, op: BinaryOp, x: str, y: str, dtype: DType) -> Text:
        name = _CALLED[op]
        if dtype.is_float and op in (BinaryOp.FLOORDIV, BinaryOp.FLOORMOD):
            name += "_float"
        self.need(name)
        text = f"{name}<{value_type(dtype)}>({x}, {y})"
        if dtype.is_float and op in (BinaryOp.MIN, BinaryOp.MAX):
            text = f"{name}({x}, {y})"  # the overloads that propagate NaN
        return (text, POSTFIX) if op in _EXACT else self._wrapped(text, dtype, POSTFIX)

    def _infix(self, op: BinaryOp, x: Text, y: Text) -> Text:
        text, level = _INFIX[op]
        return f"{self._tight(x, level)} {text} {self._tight(y, level + 1)}", level

    def _wrapped(self, text: str, dtype: DType, level: int) -> Text:
        """What C++ computed in int or float, brought back to a narrower dtype."""
        if is_packed(dtype):
            return self.rounded(text, dtype), PREFIX
        if dtype.is_int and dtype.bits < 32:
            return f"{value_type(dtype)}({text})", POSTFIX
        return text, level

    def _cast(self, expr: Cast) -> Text:
        dtype = expr.dtype
        if is_packed(dtype):
            if expr.a.dtype == "float32":
                return self.rounded(self.value(expr.a), dtype), PREFIX
            return f"({value_type(dtype)}){self._converted(expr)}", PREFIX
        source = INT64 if expr.a.is_index else expr.a.dtype
        if dtype.is_bool or dtype == "tfloat32":
            return self._converted(expr), POSTFIX
        operand = self._index(expr.a) if expr.a.is_index else self._value(expr.a)
        if value_type(source) == value_type(dtype):
            return operand
        return f"({value_type(dtype)}){self._tight(operand, PREFIX)}", PREFIX

    def _converted(self, expr: Cast) -> str:
        """The result of a cast as an element in memory."""
        self.storage(expr.dtype)
        source = INT64 if expr.a.is_index else expr.a.dtype
        if source == expr.dtype:
            return f"{storage_type(source)}({self.value(expr.a)})"
        spelling = conversion(source, expr.dtype)
        self.need(spelling.helper)
        return spelling.of(self.index(expr.a) if expr.a.is_index else self.value(expr.a))

    def _reinterpret(self, expr: Reinterpret) -> Text:
        source, dtype = expr.a.dtype, expr.dtype
        if source == dtype:
            return self._value(expr.a)
        self.need("tl_bits")
        text = self.value(expr.a)
        if is_packed(source):
            text = f"{self.storage(source)}({text})"
        elif source.is_int and source.bits < 32:  # C++ has no literals of narrow integers
            text = f"{value_type(source)}({text})"
        text = f"tl_bits<{self.storage(dtype)}>({text})"
        return self.loaded(text, dtype), PREFIX if is_packed(dtype) else POSTFIX

    def _call(self, expr: Call) -> Text:
        callee = expr.callee
        if not isinstance(callee, Intrinsic):
            raise CompilerBug(f"codegen: {callee.name} is no intrinsic")
        compute = callee.compute(tuple(a.dtype for a in expr.args))
        spelling = callee.spelling("cpp", compute)
        self.need(spelling.helper)
        text = spelling.of(*(self._operand(a, compute) for a in expr.args))
        return self._wrapped(text, expr.dtype, TERNARY)

    def _operand(self, expr: Expr, compute: DType) -> str:
        return self.value(expr if expr.dtype == compute and not expr.is_index else Cast(expr, compute))

    # -- indices ----------------------------------------------------------------------------------------------
    def _index(self, expr: Expr) -> Text:
        match expr:
            case Const(value=value):
                return _int_literal(int(value)), PREFIX if value < 0 else POSTFIX
            case Var():
                name = self.names[expr]
                return (name, POSTFIX) if expr.index else (f"(int64_t){name}", PREFIX)
            case Binary(op=op, a=a, b=b) if expr.dtype.is_int:
                return self._index_binary(op, a, b)
            case Unary(op=op, a=a) if expr.dtype.is_int:
                return f"{op.value}{self._tight(self._index(a), POSTFIX)}", PREFIX
            case Select(condition=c, a=a, b=b):
                arms = [f"int64_t({self.index(arm)})" for arm in (a, b)]
                return f"{self._tight(self._value(c), OR)} ? {arms[0]} : {arms[1]}", TERNARY
            case Cast(a=a) if expr.is_index:
                return self._index(a)
            case Cast(a=a, dtype=dtype) if dtype.is_int and dtype.bits >= 8 and a.dtype.is_int:
                return f"(int64_t)({value_type(dtype)})({self.index(a)})", PREFIX
        return f"(int64_t){self._tight(self._value(expr), PREFIX)}", PREFIX

    def _index_binary(self, op: BinaryOp, a: Expr, b: Expr) -> Text:
        x, y = self._index(a), self._index(b)
        if op in _INFIX and op is not BinaryOp.DIV:
            return self._infix(op, x, y)
        divisor = int_const(b)
        if op in (BinaryOp.TRUNCDIV, BinaryOp.TRUNCMOD) and divisor is not None and divisor > 0:
            sign = "/" if op is BinaryOp.TRUNCDIV else "%"
            return f"{self._tight(x, PRODUCT)} {sign} {y[0]}", PRODUCT
        name = _CALLED[op]
        self.need(name)
        return f"{name}<int64_t>({x[0]}, {y[0]})", POSTFIX

    @staticmethod
    def _tight(text: Text, level: int) -> str:
        return text[0] if text[1] >= level else f"({text[0]})"


def _int_literal(value: int) -> str:
    if value == -(2**63):
        return "INT64_MIN"
    return f"{value}" if -(2**31) < value < 2**31 else f"{value}LL"


def _literal(expr: Const) -> Text:
    value, dtype = expr.value, expr.dtype
    if dtype.is_bool:
        return ("true" if value else "false"), POSTFIX
    if dtype.is_float:
        return float_literal(float(value), dtype)
    if value == -(2**31) and dtype.bits == 32:
        return "INT32_MIN", POSTFIX  # -2147483648 would be a long, in which sums do not wrap
    text = _int_literal(int(value))
    if dtype.kind.value == "uint":
        text += "ULL" if dtype.bits == 64 else "u" if dtype.bits == 32 else ""
        text = text.replace("LLU", "U").replace("LLu", "u")
    elif dtype.bits == 64 and "L" not in text and text != "INT64_MIN":
        text += "LL"
    return text, PREFIX if int(value) < 0 else POSTFIX


def float_literal(value: float, dtype: DType = FLOAT32) -> Text:
    """A floating-point constant in the value type of its dtype; a bare literal beyond float32 is infinite there."""
    if dtype.bits != 64:
        value = float(convert(value, FLOAT32))
    if math.isnan(value):
        return ('__builtin_nan("")' if dtype.bits == 64 else '__builtin_nanf("")'), POSTFIX
    if math.isinf(value):
        text = "__builtin_inf()" if dtype.bits == 64 else "__builtin_inff()"
        return (f"-{text}", PREFIX) if value < 0 else (text, POSTFIX)
    text = repr(value)
    if dtype.bits != 64:
        text = f"{_shortest_float32(value)}f"
    return text, PREFIX if text.startswith("-") else POSTFIX


def _shortest_float32(value: float) -> str:
    text = str(np.float32(value))
    return text if "." in text or "e" in text else text + ".0"
