"""Structural equality and digests of programs.

Everything that affects what a program computes or how it is called is compared; source locations and the names of local
variables and buffers are not.
"""

from __future__ import annotations

import dataclasses
import enum
import struct
from collections.abc import Mapping

import numpy as np

from tilelang.errors import CompilerBug, Loc, ProgramError
from tilelang.ir.buffer import Buffer
from tilelang.ir.callee import Callee, Routine
from tilelang.ir.expr import Binary, Call, Cast, Const, Expr, Load, Reinterpret, Select, Unary, Var
from tilelang.ir.func import PrimFunc, ScalarParam, TensorParam
from tilelang.ir.scalar import convert
from tilelang.ir.stmt import Alloc, Stmt
from tilelang.ir.visit import children
from tilelang.layout.layout import Layout


class ExprKey:
    """The structure of an expression as a hashable key: equal for equal structure.

    Variables and buffers compare by identity. The `weak` flag of literals is ignored. A key does not refer to
    the node that keeps it, so that both are freed at once, without the garbage collector.
    """

    __slots__ = ("_hash", "_parts")

    def __init__(self, parts: tuple[object, ...]) -> None:
        self._parts = parts
        self._hash = hash(parts)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, ExprKey) or self._hash != other._hash:
            return False
        if self._parts is other._parts:
            return True
        if self._parts == other._parts:
            other._parts = self._parts  # shared from now on, so that comparing graphs stays linear in their nodes
            return True
        return False


class KeyedExpr(ExprKey):
    """An expression as its own key: equal to its key, and to expressions of equal structure."""

    __slots__ = ("expr",)

    def __init__(self, expr: Expr) -> None:
        key = expr_key(expr)
        self.expr, self._parts, self._hash = expr, key._parts, key._hash


def expr_key(expr: Expr) -> ExprKey:
    """The structural key of an expression, cached on the node."""
    key: ExprKey | None = expr.__dict__.get("_key")
    if key is None:
        key = ExprKey(_parts(expr))
        expr.__dict__["_key"] = key
    return key


def _parts(expr: Expr) -> tuple[object, ...]:
    if isinstance(expr, Var):
        return (object(),)  # equal to nothing else
    return (*_head(expr), *[expr_key(child) for child in children(expr)])


def _head(expr: Expr) -> tuple[object, ...]:
    """The fields of a node that are not operands; variables are treated by the caller."""
    match expr:
        case Const(dtype=dtype):
            return "Const", str(dtype), literal_bits(expr)
        case Binary(op=op, dtype=dtype) | Unary(op=op, dtype=dtype):
            return type(expr).__name__, op.name, str(dtype)
        case Load(buffer=buffer, dtype=dtype):
            return "Load", buffer, str(dtype)
        case Call(callee=callee, dtype=dtype):
            return "Call", callee, str(dtype)
        case Select(dtype=dtype) | Cast(dtype=dtype) | Reinterpret(dtype=dtype):
            return type(expr).__name__, str(dtype)
    raise CompilerBug(f"expr_key: unknown node {type(expr).__name__}")


def _digest(content: bytes) -> str:
    import hashlib  # noqa: PLC0415  it loads a library, which importing this package does not

    return hashlib.sha256(content).hexdigest()


def literal_bits(literal: Const) -> int | str:
    """A literal's value such that equal means the same value: NaN equals itself, -0.0 is not 0.0."""
    if not literal.dtype.is_float:
        return int(literal.value)
    return struct.pack("<d", float(convert(literal.value, literal.dtype))).hex()


def same_expr(a: Expr, b: Expr) -> bool:
    """Whether two expressions have the same structure over the same variables, buffers and callees."""
    return a is b or expr_key(a) == expr_key(b)


def digest(func: PrimFunc) -> str:
    """A hexadecimal digest: the same in every process, and for functions that differ in local names only."""
    return _digest(repr(_encode(func).tokens).encode())


def _encode(func: PrimFunc) -> _Encoder:
    encoder = _Encoder()
    encoder.function(func)
    return encoder


_DEFINES = frozenset({"var", "vars", "block_vars", "thread", "result"})


class _Encoder:
    """A function as a flat list of plain tokens, in which variables, buffers and expressions are numbered.

    Expressions are numbered by structure, so a shared node and two equal nodes look alike and graphs stay linear.
    """

    def __init__(self) -> None:
        self.tokens: list[object] = []
        self._where = ""  # the part of the function, for messages
        self._vars: dict[Var, int] = {}
        self._buffers: dict[Buffer, int] = {}
        self._count = 0
        self._numbers: dict[object, int] = {}  # structure of an expression -> its number
        self._seen: dict[int, int] = {}  # id of an expression -> its number, while its variables keep theirs

    def function(self, func: PrimFunc) -> None:
        self.tokens.append(("func", func.name, func.level.value))
        for var in func.symbols:
            self._define(var)
            self.tokens.append(("symbol", var.name))
        for param in func.params:
            self._where = f"param {param.name!r}"
            self.tokens.append((type(param).__name__, param.name))
            match param:
                case TensorParam(buffer=buffer):
                    self._use_buffer(buffer)
                case ScalarParam(var=var):
                    self._define(var)
        self._where = "attrs"
        self._value(func.attributes)
        self._where = "assumptions"
        self._value(func.assumptions)
        self._stmt(func.body)

    def _define(self, var: Var) -> None:
        if var in self._vars:
            self._seen.clear()  # one variable bound at two places: its uses get a new number
        self._count += 1
        self._vars[var] = self._count
        self.tokens.append(("var", str(var.dtype), var.index))

    def _use_buffer(self, buffer: Buffer) -> int:
        number = self._buffers.get(buffer)
        if number is None:
            self._count += 1
            number = self._buffers[buffer] = self._count
            dtype, scope = str(buffer.dtype), buffer.scope.value
            self.tokens.append(("buffer", dtype, scope, buffer.alignment_bytes, buffer.sequential))
            for value in (buffer.shape, buffer.strides, buffer.view_of, buffer.address):
                self._value(value)
        return number

    def _stmt(self, stmt: Stmt) -> None:
        self._where = type(stmt).__name__
        self.tokens.append(self._where)
        if isinstance(stmt, Alloc):
            self._buffers.pop(stmt.buffer, None)
            self._seen.clear()
        for field in dataclasses.fields(stmt):
            if field.name in ("loc", "written", "plan"):  # a plan follows from the rest
                continue
            value = getattr(stmt, field.name)
            if field.name in _DEFINES and value is not None:
                for var in value if isinstance(value, tuple) else (value,):
                    self._define(var)
            else:
                self._value(value)

    def _value(self, value: object) -> None:
        """The tokens of any field of a node."""
        if isinstance(value, Expr):
            self.tokens.append(("expr", self._expr(value)))
        elif isinstance(value, Stmt):
            self._stmt(value)
        elif isinstance(value, Buffer):
            self.tokens.append(("use", self._use_buffer(value)))
        elif isinstance(value, tuple | list):
            self.tokens.append(("items", len(value)))
            for item in value:
                self._value(item)
        elif isinstance(value, Mapping):
            self._value(tuple(value.items()))
        elif isinstance(value, enum.Enum):
            self.tokens.append((type(value).__name__, value.name))
        elif isinstance(value, Callee | Routine):
            self.tokens.append((type(value).__name__, value.name))
            if isinstance(value, Routine):
                self._value(value.texts)
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            self.tokens.append(type(value).__qualname__)
            for field in dataclasses.fields(value):
                if not isinstance(getattr(value, field.name), Loc):
                    self._value(getattr(value, field.name))
        else:
            self.tokens.append(_plain(value, self._where))

    def _expr(self, expr: Expr) -> int:
        cached = self._seen.get(id(expr))
        if cached is not None:
            return cached
        if isinstance(expr, Var):
            head: tuple[object, ...] = ("use", self._variable(expr))
        elif isinstance(expr, Load):
            head = ("Load", self._use_buffer(expr.buffer), str(expr.dtype))
        elif isinstance(expr, Call):
            head = ("Call", expr.callee.name, str(expr.dtype))
        else:
            head = _head(expr)
        structure = (*head, *map(self._expr, children(expr)))
        number = self._numbers.get(structure)
        if number is None:
            self._count += 1
            number = self._numbers[structure] = self._count
            self.tokens.append(structure)
        self._seen[id(expr)] = number
        return number

    def _variable(self, var: Var) -> int:
        if var not in self._vars:
            self._define(var)
        return self._vars[var]


def _plain(value: object, where: str) -> object:
    """A token for a value that is not IR; includes its type, so that 1, 1.0 and True differ."""
    if value is None or isinstance(value, bool | str | bytes):
        return type(value).__name__, value if not isinstance(value, str) else str(value)
    if isinstance(value, int | np.integer):
        return "int", int(value)
    if isinstance(value, float | np.floating):
        return "float", struct.pack("<d", float(value)).hex()
    if isinstance(value, np.ndarray):
        return "array", str(value.dtype), value.shape, value.tobytes()
    if isinstance(value, frozenset | set):
        return "set", sorted(map(repr, value))
    if isinstance(value, Layout):
        return "layout", value.shape, _digest(value.table.tobytes())
    if isinstance(value, type):
        return "type", value.__module__, value.__qualname__
    raise ProgramError(
        f"{where}: a {type(value).__name__} has no form that stays the same from run to run",
        hint="use numbers, strings, tuples or dicts of them",
    )
