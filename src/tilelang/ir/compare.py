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

    Variables, buffers and callees compare by identity. The `weak` flag of literals is ignored.

    Attributes:
        expr: An expression of this structure; keeps alive the objects that compare by identity.
    """

    __slots__ = ("_hash", "_parts", "expr")

    def __init__(self, expr: Expr, parts: tuple[object, ...]) -> None:
        self.expr = expr
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


def expr_key(expr: Expr) -> ExprKey:
    """The structural key of an expression, cached on the node."""
    key: ExprKey | None = expr.__dict__.get("_key")
    if key is None:
        key = ExprKey(expr, _parts(expr))
        expr.__dict__["_key"] = key
    return key


def _parts(expr: Expr) -> tuple[object, ...]:
    operands = tuple([expr_key(child) for child in children(expr)])
    return (*_head(expr), *operands) if not isinstance(expr, Var) else ("Var", id(expr))


def _head(expr: Expr) -> tuple[object, ...]:
    """The fields of a node that are not operands; variables are treated by the caller."""
    match expr:
        case Const(dtype=dtype):
            return "Const", str(dtype), literal_bits(expr)
        case Binary(op=op, dtype=dtype) | Unary(op=op, dtype=dtype):
            return type(expr).__name__, op.name, str(dtype)
        case Load(buffer=buffer, dtype=dtype):
            return "Load", id(buffer), str(dtype)
        case Call(callee=callee, dtype=dtype):
            return "Call", id(callee), str(dtype)
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


def same_func(a: PrimFunc, b: PrimFunc) -> bool:
    """Whether two functions are equal up to the names of their local variables and buffers."""
    return _encode(a).tokens == _encode(b).tokens


def digest(func: PrimFunc) -> str:
    """A hexadecimal digest: the same in every process, and equal for functions that are equal by `same_func`."""
    return _digest(repr(_encode(func).tokens).encode())


def first_difference(a: PrimFunc, b: PrimFunc) -> str:
    """The first difference of two functions, as text of both sides; empty if they are equal."""
    left, right = _encode(a), _encode(b)
    for i, (x, y) in enumerate(zip(left.tokens, right.tokens, strict=False)):
        if x != y:
            where = left.paths[i]
            if right.paths[i] != where:
                where = f"{where} (there {right.paths[i]})"
            return f"{where}: {left.texts[i]} is not {right.texts[i]}"
    if len(left.tokens) == len(right.tokens):
        return ""
    longer = left if len(left.tokens) > len(right.tokens) else right
    at = min(len(left.tokens), len(right.tokens))
    return f"{longer.paths[at]}: only one of them has {longer.texts[at]}"


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
        self.paths: list[str] = []
        self.texts: list[str] = []
        self._vars: dict[Var, int] = {}
        self._buffers: dict[Buffer, int] = {}
        self._count = 0
        self._numbers: dict[object, int] = {}  # structure of an expression -> its number
        self._seen: dict[int, int] = {}  # id of an expression -> its number, while its variables keep theirs

    def function(self, func: PrimFunc) -> None:
        self._emit(("func", func.name, func.level.value), "func", f"{func.level.value} function {func.name!r}")
        for var in func.symbols:
            self._define(var, "symbols")
            self._emit(("symbol", var.name), "symbols", f"symbol {var.name!r}")
        for param in func.params:
            path = f"param {param.name!r}"
            self._emit((type(param).__name__, param.name), path, f"parameter {param.name!r}")
            match param:
                case TensorParam(buffer=buffer):
                    self._use_buffer(buffer, path)
                case ScalarParam(var=var):
                    self._define(var, path)
        self._value(func.attributes, "attrs")
        self._value(func.assumptions, "assumptions")
        self._stmt(func.body, "body")

    def _emit(self, token: object, path: str, text: str) -> None:
        self.tokens.append(token)
        self.paths.append(path)
        self.texts.append(text)

    def _define(self, var: Var, path: str) -> None:
        if var in self._vars:
            self._seen.clear()  # one variable bound at two places: its uses get a new number
        self._count += 1
        self._vars[var] = self._count
        self._emit(("var", str(var.dtype), var.index), path, f"variable {var.name!r} ({var.dtype!s})")

    def _use_buffer(self, buffer: Buffer, path: str) -> int:
        number = self._buffers.get(buffer)
        if number is None:
            self._count += 1
            number = self._buffers[buffer] = self._count
            head = ("buffer", str(buffer.dtype), buffer.scope.value, buffer.alignment_bytes, buffer.sequential)
            self._emit(head, path, f"buffer {buffer.name!r} ({buffer.dtype!s}, {buffer.scope.value})")
            self._value(buffer.shape, f"{path}.shape")
            self._value(buffer.strides, f"{path}.strides")
            self._value(buffer.view_of, f"{path}.view_of")
            self._value(buffer.address, f"{path}.address")
        return number

    def _stmt(self, stmt: Stmt, path: str) -> None:
        self._emit(type(stmt).__name__, path, type(stmt).__name__)
        if isinstance(stmt, Alloc):
            self._buffers.pop(stmt.buffer, None)
            self._seen.clear()
        for field in dataclasses.fields(stmt):
            if field.name in ("loc", "plan"):  # a plan follows from the rest
                continue
            value = getattr(stmt, field.name)
            where = f"{path}.{field.name}"
            if field.name in _DEFINES and value is not None:
                for var in value if isinstance(value, tuple) else (value,):
                    self._define(var, where)
            else:
                self._value(value, where)

    def _value(self, value: object, path: str) -> None:
        """The token of any field of a node."""
        if isinstance(value, Expr):
            number = self._expr(value, path)
            self._emit(("expr", number), path, _text(value))
        elif isinstance(value, Stmt):
            self._stmt(value, path)
        elif isinstance(value, Buffer):
            self._emit(("use", self._use_buffer(value, path)), path, f"buffer {value.name!r}")
        elif isinstance(value, tuple | list):
            self._emit(("items", len(value)), path, f"{len(value)} items")
            for i, item in enumerate(value):
                self._value(item, f"{path}[{i}]")
        elif isinstance(value, Mapping):
            self._value(tuple(value.items()), path)
        elif isinstance(value, enum.Enum):
            self._emit((type(value).__name__, value.name), path, value.name)
        elif isinstance(value, Callee | Routine):
            self._emit((type(value).__name__, value.name), path, value.name)
            if isinstance(value, Routine):
                self._value(value.texts, f"{path}.texts")
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            self._emit(type(value).__qualname__, path, type(value).__qualname__)
            for field in dataclasses.fields(value):
                if not isinstance(getattr(value, field.name), Loc):
                    self._value(getattr(value, field.name), f"{path}.{field.name}")
        else:
            self._emit(_plain(value, path), path, repr(value))

    def _expr(self, expr: Expr, path: str) -> int:
        cached = self._seen.get(id(expr))
        if cached is not None:
            return cached
        if isinstance(expr, Var):
            head: tuple[object, ...] = ("use", self._variable(expr, path))
        elif isinstance(expr, Load):
            head = ("Load", self._use_buffer(expr.buffer, f"{path}.buffer"), str(expr.dtype))
        elif isinstance(expr, Call):
            head = ("Call", expr.callee.name, str(expr.dtype))
        else:
            head = _head(expr)
        operands = [self._expr(child, f"{path}.{i}") for i, child in enumerate(children(expr))]
        structure = (*head, *operands)
        number = self._numbers.get(structure)
        if number is None:
            self._count += 1
            number = self._numbers[structure] = self._count
            self._emit(structure, path, _text(expr))
        self._seen[id(expr)] = number
        return number

    def _variable(self, var: Var, path: str) -> int:
        if var not in self._vars:
            self._define(var, path)
        return self._vars[var]


def _text(expr: Expr) -> str:
    match expr:
        case Const(value=value, dtype=dtype):
            return f"{value} ({dtype!s})"
        case Var(name=name):
            return f"variable {name!r}"
        case Binary(op=op) | Unary(op=op):
            return f"{type(expr).__name__.lower()} {op.value} ({expr.dtype!s})"
        case Load(buffer=buffer):
            return f"load of {buffer.name!r}"
        case Call(callee=callee):
            return f"call of {callee.name}"
    return f"{type(expr).__name__.lower()} to {expr.dtype!s}"


def _plain(value: object, path: str) -> object:
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
        f"{path}: a {type(value).__name__} has no form that stays the same from run to run",
        hint="use numbers, strings, tuples or dicts of them",
    )
