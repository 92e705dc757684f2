"""Prints expressions for languages of the C family.

There are two modes, for the two kinds of integers: *index* text (`c_index`) is exact; *value* text has the value type
of the expression's dtype and wraps or rounds there. Invariant: the printed text has the semantics of the IR in any
context, given the precedence that comes with it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from tilelang.analysis.selects import better_both
from tilelang.analysis.strides import distance
from tilelang.codegen.base_and_offset import Offset, split_address
from tilelang.codegen.c_index import (
    CALLED,
    INFIX,
    OR,
    POSTFIX,
    PREFIX,
    SHIFT,
    TERNARY,
    IndexPrinter,
    Text,
    infix,
    int_literal,
    tight,
)
from tilelang.codegen.dialect import Dialect, is_packed
from tilelang.codegen.index_types import IndexTypes
from tilelang.codegen.names import Names
from tilelang.codegen.pointer_increments import AddressKey, Steps, address_key
from tilelang.dtypes import FLOAT32, INT32, INT64, SCALARS, DType, Kind, lane_dtype
from tilelang.errors import CompilerBug
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import Binary, Call, Cast, Const, Expr, Load, Reinterpret, Select, Unary, Var, const, int_const
from tilelang.ir.scalar import COMPARISONS, LOGICAL, BinaryOp, UnaryOp, convert
from tilelang.ir.vector import extracted_lane, packed_lanes
from tilelang.ir.visit import variables_of
from tilelang.isa.intrinsic import Intrinsic

UINT32 = SCALARS["uint32"]
_EXACT = frozenset({BinaryOp.MIN, BinaryOp.MAX, BinaryOp.FMIN, BinaryOp.FMAX})  # the result is one of the operands
_MANY_QUOTIENTS = 32  # of a thread; on an H200, 16 by `Dialect.quotient` were slower in softmax, 32 faster in attention
_MODULAR = frozenset({BinaryOp.ADD, BinaryOp.SUB, BinaryOp.MUL})


class ExprPrinter(IndexPrinter):
    """Prints expressions, and collects the helpers that the text uses.

    Args:
        names: Identifiers of variables and buffers.
        dialect: The language.
        types: The widths of index arithmetic; 64 bits for all if None.

    Attributes:
        unrolled: The variables of enclosing unrolled loops, each with its largest value.
        pointers: Names of pointers that enclosing loops increment, each with the offsets of unrolled loops.
    """

    def __init__(self, names: Names, dialect: Dialect, types: IndexTypes | None = None) -> None:
        super().__init__(names, dialect, types or IndexTypes())
        self.unrolled: dict[Var, int] = {}
        self.pointers: dict[AddressKey, tuple[str, Mapping[Var, Steps]]] = {}

    def value(self, expr: Expr) -> str:
        """The expression as a value of its dtype, without parentheses: for arguments and initializers."""
        return self._value(expr)[0]

    def condition(self, expr: Expr) -> str:
        """The expression as a boolean, without parentheses."""
        return self._value(expr)[0]

    def argument(self, expr: Expr) -> str:
        """The expression as an argument of an instruction: a value, or an exact integer; without parentheses."""
        return self.index(expr) if expr.is_index else self.value(expr)

    def stored(self, expr: Expr, dtype: DType) -> str:
        """The expression as an element of a buffer of `dtype`, without parentheses."""
        if isinstance(expr, Load) and expr.buffer.scope is not Scope.VAR and expr.buffer.dtype == dtype == expr.dtype:
            return self.element(expr.buffer, expr.indices)  # copied bit by bit
        if not is_packed(dtype):
            return self.value(expr)
        if isinstance(expr, Cast) and expr.dtype == dtype:
            return self._converted(expr)  # converted directly to the storage type
        if expr.dtype == dtype and self._adds_elements(expr):
            return self._of_elements(expr)[0]
        element = self.storage(dtype)
        text, level = self._value(expr)
        rounding = f"{element}::rounded("
        if text.startswith(rounding) and level >= PREFIX:
            text = text[len(rounding) : -1]  # the constructor rounds
        return f"{element}({text})"

    def storage(self, dtype: DType) -> str:
        """The storage type of a dtype; its definition is added to the helpers."""
        kind = self.dialect.c_type(dtype)
        if kind.helper is not None:
            self.need(kind.helper)
        return kind.name

    def value_type(self, dtype: DType) -> str:
        """The value type of a dtype; its definition is added to the helpers."""
        if dtype.lanes > 1 or not is_packed(dtype):
            self.storage(dtype)
        return self.dialect.value_type(dtype)

    def rounded(self, text: str, dtype: DType) -> str:
        """A number rounded (or wrapped) to a packed dtype; binds at least as a prefix operator."""
        if dtype in ("float16", "bfloat16", "float8_e5m2"):
            return f"{self.storage(dtype)}::rounded({text})"
        return f"({self.value_type(dtype)}){self.storage(dtype)}({text})"

    def loaded(self, text: str, dtype: DType) -> str:
        """The value of the element `text`; binds at least as tight as a prefix operator."""
        if is_packed(dtype):
            self.storage(dtype)
            return f"({self.value_type(dtype)}){text}"
        return text

    def element(self, buffer: Buffer, indices: tuple[Expr, ...]) -> str:
        """An lvalue of one element of a buffer other than a mutable scalar."""
        name = self.names[buffer]
        pointer = self.pointers.get(address_key(Region(buffer, indices, ()))) if self.pointers else None
        if pointer is not None:
            return f"{pointer[0]}[{' + '.join(self._moves(buffer, pointer[1])) or '0'}]"
        if self.unrolled and buffer.scope is Scope.GLOBAL and not all(index.is_index for index in indices):
            start, moves = split_address(buffer, indices, self.unrolled)
            if moved := self._offset_text(moves):
                return f"({self.dialect.address.format(name, self.offset(buffer, start))})[{moved}]"
        return f"{name}[{self.offset(buffer, indices)}]"

    def vector(self, buffer: Buffer, indices: tuple[Expr, ...], dtype: DType, *, const: bool = False) -> str:
        """An lvalue of a vector of consecutive elements of a buffer; binds as a prefix operator."""
        if not self.dialect.has_vectors:
            raise CompilerBug(f"codegen: access to {dtype!s} in '{buffer.name}' of {buffer.dtype!s}")
        kind = f"{'const ' if const else ''}{self.storage(dtype)}*"
        return f"*({kind})&{self.element(buffer, indices)}"

    def address(self, region: Region) -> str:
        """A pointer to the first element of a region, without parentheses."""
        buffer = region.buffer
        name = self.names[buffer]
        if buffer.scope is Scope.VAR:
            return f"&{name}"
        pointer = self.pointers.get(address_key(region)) if self.pointers else None
        if pointer is not None:
            return " + ".join((pointer[0], *self._moves(buffer, pointer[1])))
        start, moves = region.start, Offset({})
        if self.unrolled and buffer.scope in (Scope.GLOBAL, Scope.SHARED):
            start, moves = split_address(buffer, start, self.unrolled)
        offset = self.offset(buffer, start)
        base = name if offset == "0" else self.dialect.address.format(name, offset)
        moved = self._offset_text(moves)
        return f"{base} + {moved}" if moved else base

    def _moves(self, buffer: Buffer, factors: Mapping[Var, Steps]) -> list[str]:
        """What unrolled loops add to a pointer."""
        return [f"{self.names[var]} * {self.distance(buffer, steps)}" for var, steps in factors.items()]

    def distance(self, buffer: Buffer, steps: Steps) -> str:
        """The offset difference for a step of the indices, in elements; binds as a postfix operator."""
        constant = distance(buffer, steps)
        if constant is not None:
            return str(constant) if constant >= 0 else f"({constant})"
        return f"({self.offset(buffer, tuple(const(step, INT32) for step in steps))})"

    def _offset_text(self, moves: Offset) -> str:
        """The offset of unrolled loops as text; empty if 0."""
        names = self.names
        terms = [names[var] if factor == 1 else f"{names[var]} * {factor}" for var, factor in moves.factors.items()]
        return " + ".join([*terms, str(moves.constant)] if moves.constant else terms)

    # -- values -----------------------------------------------------------------------------------------------
    def _value(self, expr: Expr) -> Text:
        if expr.is_index:
            return self._index_as_value(expr)
        match expr:
            case Const():
                return self._literal(expr)
            case Var():
                return self.names[expr], POSTFIX
            case Load():
                return self._load(expr)
            case Unary():
                return self._unary(expr)
            case Binary():
                return self._binary(expr)
            case Select(condition=c, a=a, b=b):
                return self._choice(c, a, b, expr.dtype)
            case Cast():
                return self._cast(expr)
            case Reinterpret():
                return self._reinterpret(expr)
            case Call():
                return self._call(expr)
        raise CompilerBug(f"codegen: no text for expression {type(expr).__name__}")

    def _index_as_value(self, expr: Expr) -> Text:
        if isinstance(expr, Const):
            return self._literal(expr)
        found = self._index(expr)
        kind = self.value_type(expr.dtype)
        if found.bits == 32 and expr.dtype == INT32:
            return found.text, found.level
        return f"({kind})({found.text})", PREFIX

    def _choice(self, condition: Expr, a: Expr, b: Expr, dtype: DType) -> Text:
        if self.dialect.select is not None and self.value_type(dtype) == "float" and better_both(a, b):
            self.need(self.dialect.select)
            both = f"{self.value(a)}, {self.value(b)}"
            return f"{self.dialect.select.name}({self.condition(condition)}, {both})", POSTFIX
        test = tight(self._value(condition), OR)
        with self.types.given(condition, momentary=True):
            yes = self._arm(a, dtype)
        with self.types.given(condition, holds=False, momentary=True):
            no = self._arm(b, dtype)
        return f"{test} ? {yes} : {no}", TERNARY

    def _arm(self, expr: Expr, dtype: DType) -> str:
        text = tight(self._value(expr), OR)
        if isinstance(expr, Const) and dtype.is_int and dtype.lanes == 1:
            return f"{self.value_type(dtype)}({text})"
        return text

    def _load(self, expr: Load) -> Text:
        buffer = expr.buffer
        if buffer.scope is Scope.VAR:
            return self.names[buffer], POSTFIX
        if expr.dtype.lanes != buffer.dtype.lanes:
            return self.vector(buffer, expr.indices, expr.dtype, const=True), PREFIX
        text = self.element(buffer, expr.indices)
        return self.loaded(text, buffer.dtype), PREFIX if is_packed(buffer.dtype) else POSTFIX

    def _unary(self, expr: Unary) -> Text:
        if expr.op is UnaryOp.NEG and self._is_modular(expr.dtype):
            return self._signed(self._modular(expr), expr.dtype)
        text = tight(self._value(expr.a), PREFIX + 1)
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
            return self._logical(op, a, b)
        if op in COMPARISONS and a.is_index and b.is_index:
            return infix(op, self._index(a), self._index(b))
        dtype = a.dtype
        if op in _MODULAR and self._is_modular(dtype):
            return self._signed(self._modular(expr), dtype)
        if self._adds_elements(expr):
            return f"({self.value_type(dtype)}){tight(self._of_elements(expr), PREFIX)}", PREFIX
        x, y = self._value(a), self._value(b)
        if op in COMPARISONS:
            return infix(op, x, y)
        if op is BinaryOp.DIV and self.dialect.quotient and self.value_type(dtype) == "float" and self._divides_many(b):
            self.need(self.dialect.quotient)
            return self._wrapped(f"{self.dialect.quotient.name}({x[0]}, {y[0]})", expr.dtype, POSTFIX)
        if op in INFIX:
            if op is BinaryOp.MUL and dtype == "uint16" and not self.dialect.overflow_wraps:
                x = f"{self.dialect.value_type(UINT32)}({x[0]})", POSTFIX  # the product of two may exceed an int
            text, level = infix(op, x, y)
            if dtype.is_bool:
                return f"bool({text})", POSTFIX
            return self._wrapped(text, expr.dtype, level)
        if op in (BinaryOp.SHL, BinaryOp.SHR):
            amount = int_const(b)
            if amount is not None and 0 <= amount < dtype.bits:
                if op is BinaryOp.SHL and self._is_modular(dtype):
                    return self._signed((f"{tight(self._modular(a), SHIFT)} << {amount}", SHIFT), dtype)
                text = f"{tight(x, SHIFT)} {op.value} {amount}"
                return self._wrapped(text, dtype, SHIFT)
        return self._called(op, x[0], y[0], dtype)

    def _divides_many(self, divisor: Expr) -> bool:
        """Whether unrolled loops divide many values, all iterations of one by the same element of registers."""
        if not isinstance(divisor, Load) or divisor.buffer.scope is not Scope.LOCAL:
            return False
        count = math.prod(last + 1 for last in self.unrolled.values())
        return count >= _MANY_QUOTIENTS and not self.unrolled.keys() <= variables_of(divisor)

    def _logical(self, op: BinaryOp, a: Expr, b: Expr) -> Text:
        sign, level = INFIX[op]
        x = tight(self._value(a), level)
        with self.types.given(a, holds=op is BinaryOp.AND, momentary=True):
            y = tight(self._value(b), level + 1)
        return f"{x} {sign} {y}", level

    def _called(self, op: BinaryOp, x: str, y: str, dtype: DType) -> Text:
        name = CALLED[op]
        if dtype.is_float and op in (BinaryOp.FLOORDIV, BinaryOp.FLOORMOD):
            name += "_float"
        self.need(name)
        text = f"{name}<{self.value_type(dtype)}>({x}, {y})"
        if dtype.is_float and op in _EXACT:
            text = f"{name}({x}, {y})"  # the overloads for floats
        return (text, POSTFIX) if op in _EXACT else self._wrapped(text, dtype, POSTFIX)

    def _wrapped(self, text: str, dtype: DType, level: int) -> Text:
        """A result that the language computed in int or float, converted back to a narrower dtype."""
        if is_packed(dtype):
            return self.rounded(text, dtype), PREFIX
        if dtype.is_int and dtype.bits < 32:
            return f"{self.value_type(dtype)}({text})", POSTFIX
        return text, level

    # -- arithmetic on packed elements in their storage type ----------------------------------------------------
    def _adds_elements(self, expr: Expr) -> bool:
        """Whether the language has the operator for the storage type."""
        return isinstance(expr, Binary) and expr.op in _MODULAR and str(expr.dtype) in self.dialect.packed_arithmetic

    def _of_elements(self, expr: Expr) -> Text:
        """An expression of a packed dtype in its storage type."""
        if isinstance(expr, Binary) and self._adds_elements(expr):
            return infix(expr.op, self._of_elements(expr.a), self._of_elements(expr.b))
        return self.stored(expr, expr.dtype), POSTFIX

    # -- signed arithmetic, where overflow is undefined in the language -----------------------------------------
    def _is_modular(self, dtype: DType) -> bool:
        """Whether arithmetic of a dtype must use the unsigned type of its width."""
        return not self.dialect.overflow_wraps and dtype.kind is Kind.INT and dtype.bits >= 32

    def _modular(self, expr: Expr) -> Text:
        """The value of a signed integer in the unsigned type of its width, in which arithmetic wraps."""
        dtype = expr.dtype
        unsigned = SCALARS[f"uint{dtype.bits}"]
        if isinstance(expr, Const):
            return self._literal(Const(int(expr.value) % 2**dtype.bits, unsigned))
        if not expr.is_index:
            match expr:
                case Binary(op=op, a=a, b=b) if op in _MODULAR:
                    return infix(op, self._modular(a), self._modular(b))
                case Unary(op=UnaryOp.NEG, a=a):
                    return f"-{tight(self._modular(a), POSTFIX)}", PREFIX
        return f"{self.value_type(unsigned)}({self.value(expr)})", POSTFIX

    def _signed(self, text: Text, dtype: DType) -> Text:
        return f"{self.value_type(dtype)}({text[0]})", POSTFIX

    # -- conversions --------------------------------------------------------------------------------------------
    def _cast(self, expr: Cast) -> Text:
        dtype = expr.dtype
        if dtype.lanes > 1:
            return self._converted(expr), POSTFIX
        kind = self.value_type(dtype)
        if is_packed(dtype):
            if expr.a.dtype == "float32":
                return self.rounded(self.value(expr.a), dtype), PREFIX
            return f"({kind}){self._converted(expr)}", PREFIX
        if dtype.is_bool or dtype == "tfloat32":
            return self._converted(expr), POSTFIX
        if expr.a.is_index:
            found = self._index(expr.a)
            source, operand = self._index_dtype(found.bits), (found.text, found.level)
        else:
            source, operand = expr.a.dtype, self._value(expr.a)
        if self.dialect.value_type(source) == kind:
            return operand
        return f"({kind}){tight(operand, PREFIX)}", PREFIX

    @staticmethod
    def _index_dtype(bits: int) -> DType:
        return INT32 if bits == 32 else INT64

    def _converted(self, expr: Cast) -> str:
        """The result of a cast in its storage type."""
        self.storage(expr.dtype)
        if expr.a.is_index:
            found = self._index(expr.a)
            source, operand = self._index_dtype(found.bits), found.text
        else:
            source, operand = expr.a.dtype, self.value(expr.a)
        if source == expr.dtype:
            return f"{self.storage(source)}({operand})"
        template = self.dialect.conversion(source, expr.dtype)
        self.need(template.helper)
        return template.format(operand)

    def _reinterpret(self, expr: Reinterpret) -> Text:
        source, dtype = expr.a.dtype, expr.dtype
        if source == dtype or source.lanes > 1 and self.storage(source) == self.storage(dtype):
            return self._value(expr.a)
        self.need("tl_bits")
        text = self.stored(expr.a, source)  # not via float, which may change the bits of NaN
        if source.is_int and source.bits < 32 and not is_packed(source):  # C++ has no literals of narrow integers
            text = f"{self.value_type(source)}({text})"
        text = f"tl_bits<{self.storage(dtype)}>({text})"
        return self.loaded(text, dtype), PREFIX if is_packed(dtype) else POSTFIX

    def _call(self, expr: Call) -> Text:
        callee = expr.callee
        lanes = packed_lanes(expr)
        if lanes is not None:
            self.need("tl_pack")
            scalar = lane_dtype(expr.dtype)
            parts = ", ".join(self.stored(lane, scalar) for lane in lanes)
            return f"tl_pack<{self.storage(expr.dtype)}, {self.storage(scalar)}>({parts})", POSTFIX
        index = extracted_lane(expr)
        if index is not None:
            self.need("tl_lane")
            text = f"tl_lane<{self.storage(expr.dtype)}>({self.value(expr.args[0])}, {index})"
            return self.loaded(text, expr.dtype), PREFIX if is_packed(expr.dtype) else POSTFIX
        if not isinstance(callee, Intrinsic):
            raise CompilerBug(f"codegen: {callee.name} is no intrinsic")
        compute = callee.compute(tuple(a.dtype for a in expr.args))
        template = self.dialect.template(callee, compute)
        self.need(template.helper)
        operands = [a if a.dtype == compute and not a.is_index else Cast(a, compute) for a in expr.args]
        if template.text == "{0}":
            return self._value(operands[0])
        return self._wrapped(template.format(*map(self.value, operands)), expr.dtype, TERNARY)

    # -- literals -----------------------------------------------------------------------------------------------
    def _literal(self, expr: Const) -> Text:
        value, dtype = expr.value, expr.dtype
        if dtype.lanes > 1:
            if value != 0:
                raise CompilerBug(f"codegen: the vector literal {value} of {dtype!s}")
            return f"{self.storage(dtype)}{{}}", POSTFIX
        if dtype.is_bool:
            return ("true" if value else "false"), POSTFIX
        if dtype.is_float:
            return float_literal(float(value), self.dialect, dtype)
        if value == -(2**31) and dtype.bits == 32:
            return self.dialect.min_int[32], POSTFIX  # -2147483648 would be a long, in which sums do not wrap
        text = int_literal(int(value), self.dialect)
        if dtype.kind is Kind.UINT:
            text += "ULL" if dtype.bits == 64 else "u" if dtype.bits == 32 else ""
            text = text.replace("LLU", "U").replace("LLu", "u")
        elif dtype.bits == 64 and "L" not in text and text != self.dialect.min_int[64]:
            text += "LL"
        return text, PREFIX if int(value) < 0 else POSTFIX


def float_literal(value: float, dialect: Dialect, dtype: DType = FLOAT32) -> Text:
    """A floating-point constant in the value type of its dtype; a bare literal beyond float32 is infinite there."""
    bits = 64 if dtype.bits == 64 else 32
    if bits != 64:
        value = float(convert(value, FLOAT32))
    if math.isnan(value):
        return dialect.nan[bits], POSTFIX
    if math.isinf(value):
        text = dialect.infinity[bits]
        return (f"-{text}", PREFIX) if value < 0 else (text, POSTFIX)
    text = repr(value) if bits == 64 else f"{_shortest_float32(value)}f"
    return text, PREFIX if text.startswith("-") else POSTFIX


def _shortest_float32(value: float) -> str:
    text = str(np.float32(value))
    return text if "." in text or "e" in text else text + ".0"
