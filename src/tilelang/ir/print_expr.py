"""Expressions and regions of the IR as text, and unique names.

Variables or buffers of the same name that are visible at the same time get suffixes. A literal is written such that
reading it back in its context gives the same value and dtype.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import MappingProxyType

import numpy as np

from tilelang.dtypes import BOOL, FLOAT32, INT32, DType
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.expr import (
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Load,
    Reinterpret,
    Select,
    Unary,
    Var,
    int_const,
)
from tilelang.ir.scalar import COMPARISONS, BinaryOp, UnaryOp

# Python's precedences; what is not here is written as a call.
_PRECEDENCE = MappingProxyType(
    {
        BinaryOp.OR: 1,
        BinaryOp.AND: 2,
        **dict.fromkeys(COMPARISONS, 4),
        BinaryOp.BITOR: 5,
        BinaryOp.BITXOR: 6,
        BinaryOp.BITAND: 7,
        BinaryOp.SHL: 8,
        BinaryOp.SHR: 8,
        BinaryOp.ADD: 9,
        BinaryOp.SUB: 9,
        BinaryOp.MUL: 10,
        BinaryOp.DIV: 10,
        BinaryOp.FLOORDIV: 10,
        BinaryOp.FLOORMOD: 10,
    }
)
_NOT, _SIGN = 3, 11
_REGROUPS = frozenset({BinaryOp.AND, BinaryOp.OR})  # a op (b op c) needs no parentheses


class ExprPrinter:
    """Prints expressions; names are stable for the lifetime of the printer."""

    def __init__(self) -> None:
        self._names: dict[Var | Buffer, str] = {}
        self._taken: set[str] = set()

    # -- names ----------------------------------------------------------------------------------------------
    def name(self, thing: Var | Buffer) -> str:
        """The unique name, assigned at first use."""
        cached = self._names.get(thing)
        if cached is not None:
            return cached
        base = thing.name or ("v" if isinstance(thing, Var) else "buffer")
        name, count = base, 0
        while name in self._taken:
            count += 1
            name = f"{base}_{count}"
        self._taken.add(name)
        self._names[thing] = name
        return name

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Releases the names assigned inside."""
        names, taken = dict(self._names), set(self._taken)
        try:
            yield
        finally:
            self._names, self._taken = names, taken

    def part(self, value: object) -> str:
        """The text of any field of a node."""
        match value:
            case Expr():
                return self.expr(value)
            case Region():
                return self.region(value)
            case Buffer():
                return self.name(value)
            case enum.Enum():
                return f"T.{type(value).__name__}.{value.name}"
            case str():
                return quote(value)
            case tuple():
                return self.items(value)
        return repr(value)

    # -- expressions ----------------------------------------------------------------------------------------
    def expr(self, node: Expr, outer: int = 0) -> str:
        """The text of an expression, in parentheses if it binds less tightly than `outer`."""
        match node:
            case Const():
                return _literal(node)
            case Var():
                return self.name(node)
            case Binary():
                return self._binary(node, outer)
            case Unary(op=op, a=a):
                level = _NOT if op is UnaryOp.NOT else _SIGN
                text = f"{op.value}{' ' if op is UnaryOp.NOT else ''}{self.expr(a, level)}"
                return f"({text})" if level < outer else text
            case Select(condition=condition, a=a, b=b):
                x, y = self._pair(a, b)
                return f"T.if_then_else({self.expr(condition)}, {x}, {y})"
            case Cast(a=a, dtype=dtype):
                return f"T.{dtype!s}({self.expr(a)})" if dtype.lanes == 1 else f'T.cast({self.expr(a)}, "{dtype!s}")'
            case Reinterpret(a=a, dtype=dtype):
                return f'T.reinterpret({self.expr(a)}, "{dtype!s}")'
            case Load(buffer=buffer, indices=indices, dtype=dtype):
                return self.element(buffer, indices, dtype.lanes // buffer.dtype.lanes)
            case Call(callee=callee, args=args):
                return f"T.{callee.name}({', '.join(self.expr(a) for a in args)})"
        return f"{type(node).__name__}()"

    def _binary(self, node: Binary, outer: int) -> str:
        level = _PRECEDENCE.get(node.op)
        if level is None:
            a, b = self._pair(node.a, node.b)
            return f"T.{node.op.value}({a}, {b})"
        compares = node.op in COMPARISONS  # Python would chain them
        left = level + 1 if compares else level
        right = level if node.op in _REGROUPS else level + 1
        a, b = self._pair(node.a, node.b, left, right)
        text = f"{a} {node.op.value} {b}"
        return f"({text})" if level < outer else text

    def _pair(self, a: Expr, b: Expr, left: int = 0, right: int = 0) -> tuple[str, str]:
        """Both operands; a literal beside an expression needs no dtype."""
        x = self.bare(a, b.dtype, left) if not isinstance(b, Const) else self.expr(a, left)
        y = self.bare(b, a.dtype, right) if not isinstance(a, Const) else self.expr(b, right)
        return x, y

    def bare(self, node: Expr, dtype: DType, outer: int = 0) -> str:
        """The text in a context that implies the dtype of a literal."""
        if isinstance(node, Const) and node.dtype == dtype and math.isfinite(node.value):
            text = _number(node)
            return f"({text})" if text.startswith("-") and outer > _SIGN else text
        return self.expr(node, outer)

    def element(self, buffer: Buffer, indices: Sequence[Expr], lanes: int = 1) -> str:
        """An element of a buffer, or a vector of its last dimension as a slice."""
        if not indices:
            return self.name(buffer)
        parts = [self.expr(i) for i in indices]
        if lanes > 1:
            parts[-1] += f":{self.expr(indices[-1] + lanes)}"
        return f"{self.name(buffer)}[{', '.join(parts)}]"

    def region(self, node: Region) -> str:
        """A region as slices; the name alone if it is the whole buffer."""
        parts = [
            self._slice(start, extent, size)
            for start, extent, size in zip(node.start, node.extent, node.buffer.shape, strict=False)
        ]
        if all(part == ":" for part in parts):
            return self.name(node.buffer)
        element = all(int_const(extent) == 1 for extent in node.extent)  # would read as a position of any extent
        shown = [
            self.expr(start) if int_const(extent) == 1 and not element else part
            for part, start, extent in zip(parts, node.start, node.extent, strict=True)
        ]
        return f"{self.name(node.buffer)}[{', '.join(shown)}]"

    def _slice(self, start: Expr, extent: Expr, size: Expr) -> str:
        first = int_const(start)
        whole = extent is size or (int_const(extent) is not None and int_const(extent) == int_const(size))
        if first == 0 and whole:
            return ":"
        stop = extent if first == 0 else start + extent
        return f"{self.expr(start)}:{self.expr(stop)}"

    def items(self, values: Sequence[object]) -> str:
        """A tuple of fields."""
        parts = [self.part(v) for v in values]
        return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"


def _literal(node: Const) -> str:
    """A literal with its dtype, independent of context."""
    if node.dtype.is_float and not math.isfinite(node.value):
        if math.isnan(node.value):
            return f'T.{node.dtype!s}("nan")'
        return f'{"-" if node.value < 0 else ""}T.infinity("{node.dtype!s}")'
    text = _number(node)
    if node.weak or node.dtype in (BOOL, INT32, FLOAT32):
        return text
    return f"T.{node.dtype!s}({text})"


def _number(node: Const) -> str:
    """The shortest digits that give the same value in the literal's dtype."""
    if node.dtype.is_bool:
        return str(bool(node.value))
    if node.dtype.is_int:
        return str(int(node.value))
    if node.weak or node.dtype.bits == 64:
        return repr(float(node.value))
    narrow = np.float16 if node.dtype == "float16" else np.float32
    return str(narrow(node.value))


def quote(text: str) -> str:
    """A string literal."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
