"""The IR as text, close to the language that users write.

Takes functions, statements, regions and expressions, gives text. The text is stable: it depends on the node alone,
and two variables or buffers that share a name while both are visible are told apart by a suffix. Literals are
written so that reading them back in their surroundings gives the same value and dtype.
"""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import MappingProxyType

import numpy as np

from tilelang.dtypes import BOOL, FLOAT32, INT32, DType
from tilelang.ir.assumption import Assume
from tilelang.ir.buffer import Buffer, Region, Scope
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
from tilelang.ir.func import Level, PrimFunc, ScalarParam, TensorParam
from tilelang.ir.scalar import COMPARISONS, BinaryOp, UnaryOp
from tilelang.ir.stmt import (
    Alloc,
    Assert,
    Atomic,
    AtomicOp,
    Bind,
    Break,
    CallStmt,
    Continue,
    For,
    ForKind,
    If,
    Launch,
    MemoryOrder,
    MemoryScope,
    ParallelLoop,
    Print,
    Seq,
    Stmt,
    Store,
    TileOp,
    While,
)

Node = PrimFunc | Stmt | Expr | Region | Buffer

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
_NOT, _SIGN, _ATOM = 3, 11, 12
_REGROUPS = frozenset({BinaryOp.AND, BinaryOp.OR})  # a op (b op c) needs no parentheses

_ALLOC = MappingProxyType(
    {
        Scope.GLOBAL: "T.alloc_global",
        Scope.SHARED: "T.alloc_shared",
        Scope.FRAGMENT: "T.alloc_fragment",
        Scope.LOCAL: "T.alloc_local",
        Scope.VAR: "T.alloc_var",
        Scope.BARRIER: "T.alloc_barrier",
    }
)
_FOR = MappingProxyType(
    {
        ForKind.SERIAL: "T.serial",
        ForKind.UNROLLED: "T.unroll",
        ForKind.VECTORIZED: "T.vectorized",
        ForKind.PIPELINED: "T.Pipelined",
    }
)
_KEYWORDS = MappingProxyType({"transpose_a": "transpose_A", "transpose_b": "transpose_B"})


def to_text(node: Node, *, mark_loc: bool = False) -> str:
    """The node as text; statements and functions end with a line break.

    Args:
        node: A function, statement, expression, region or buffer.
        mark_loc: Whether each statement ends with a comment that names its place in the user's program.
    """
    printer = _Printer(mark_loc=mark_loc)
    match node:
        case PrimFunc():
            printer.func(node)
        case Stmt():
            printer.stmt(node)
        case Region():
            return printer.region(node)
        case Buffer():
            return printer.name(node)
        case Expr():
            return printer.expr(node)
    return "\n".join(printer.lines) + "\n"


class _Printer:
    def __init__(self, *, mark_loc: bool) -> None:
        self.lines: list[str] = []
        self._mark_loc = mark_loc
        self._indent = ""
        self._names: dict[Var | Buffer, str] = {}
        self._taken: set[str] = set()

    # -- names ----------------------------------------------------------------------------------------------
    def name(self, thing: Var | Buffer) -> str:
        """Its name, given when first asked for."""
        known = self._names.get(thing)
        if known is not None:
            return known
        base = thing.name or ("v" if isinstance(thing, Var) else "buffer")
        name, count = base, 0
        while name in self._taken:
            count += 1
            name = f"{base}_{count}"
        self._taken.add(name)
        self._names[thing] = name
        return name

    @contextmanager
    def _scope(self) -> Iterator[None]:
        """Names given inside are free again afterwards."""
        names, taken, indent = dict(self._names), set(self._taken), self._indent
        try:
            yield
        finally:
            self._names, self._taken, self._indent = names, taken, indent

    # -- lines ----------------------------------------------------------------------------------------------
    def _line(self, text: str, stmt: Stmt | None = None) -> None:
        mark = f"  # {stmt.loc}" if self._mark_loc and stmt is not None and stmt.loc.file else ""
        self.lines.append(f"{self._indent}{text}{mark}" if text else "")

    def _block(self, body: Stmt, first: Sequence[str] = ()) -> None:
        with self._scope():
            self._indent += "    "
            before = len(self.lines)
            for text in first:
                self._line(text)
            self.stmt(body)
            if len(self.lines) == before:
                self._line("pass")

    # -- functions ------------------------------------------------------------------------------------------
    def func(self, func: PrimFunc) -> None:
        """Appends the whole function."""
        for symbol in func.symbols:
            self._line(f'{self.name(symbol)} = T.dynamic("{symbol.name}", "{symbol.dtype!s}")')
        if func.level is not Level.TILE:
            self._line(f"# {func.level.value} level")
        self._line("@T.prim_func")
        params = []
        for param in func.params:
            if isinstance(param, ScalarParam):
                params.append(f"{self.name(param.var)}: T.{param.dtype!s}")
            else:
                params.append(f"{self.name(param.buffer)}: {self._tensor_type(param)}")
        self._line(f"def {func.name}({', '.join(params)}):")
        attrs = [f"T.func_attr({dict(func.attributes)!r})"] if func.attributes else []
        self._block(func.body, [*attrs, *(f"T.assume({self.expr(condition)})" for condition in func.assumptions)])

    def _tensor_type(self, param: TensorParam) -> str:
        buffer = param.buffer
        shape = self._tuple(buffer.shape)
        if buffer.strides is None:
            return f'T.Tensor({shape}, "{buffer.dtype!s}")'
        return f'T.StridedTensor({shape}, {self._tuple(buffer.strides)}, "{buffer.dtype!s}")'

    # -- statements -----------------------------------------------------------------------------------------
    def stmt(self, node: Stmt) -> None:
        """Appends the lines of a statement."""
        match node:
            case Seq(body=body):
                for child in body:
                    if isinstance(child, Seq):
                        with self._scope():
                            self.stmt(child)
                    else:
                        self.stmt(child)
            case Bind(var=var, value=value):
                text = self.expr(value)  # before the name, which the value cannot see
                self._line(f"T.assume({text})" if isinstance(node, Assume) else f"{self.name(var)} = {text}", node)
            case Alloc():
                self._line(self._alloc(node), node)
            case Store(buffer=buffer, indices=indices, value=value):
                element = self._element(buffer, indices, value.dtype.lanes // buffer.dtype.lanes)
                late = "  # asynchronous" if node.asynchronous else ""
                self._line(f"{element} = {self._bare(value, buffer.dtype)}{late}", node)
            case For() | ParallelLoop() | Launch():
                self._loop(node)
            case While(condition=condition, body=body):
                self._line(f"while {self.expr(condition)}:", node)
                self._block(body)
            case If():
                self._if(node, "if")
            case Break():
                self._line("break", node)
            case Continue():
                self._line("continue", node)
            case Atomic():
                self._line(self._atomic(node), node)
            case Assert(condition=condition, message=message):
                self._line(f"T.device_assert({self.expr(condition)}, {_quote(message)})", node)
            case Print(operand=operand, message=message):
                shown = "" if operand is None else self._part(operand)
                said = f"{', ' if shown else 'msg='}{_quote(message)}" if message else ""
                self._line(f"T.print({shown}{said})", node)
            case CallStmt(routine=routine, args=args, result=result):
                call = f"{routine.name}({', '.join(self._part(a) for a in args)})"
                self._line(call if result is None else f"{self.name(result)} = {call}", node)
            case TileOp():
                chosen = f"  # {node.choice}" if node.choice else ""
                fields = ", ".join(self._fields(node, skip={"op", "choice"}))
                self._line(f"{node.name}({fields}){chosen}", node)
            case _:
                self._line(f"{type(node).__name__}({', '.join(self._fields(node))})", node)

    def _alloc(self, node: Alloc) -> str:
        buffer = node.buffer
        dtype = f'"{buffer.dtype!s}"'
        if buffer.view_of is not None:
            source = self.name(buffer.view_of)
            return f"{self.name(buffer)} = T.view({source}, {self._tuple(buffer.shape)}, {dtype})"
        if buffer.address is not None:
            strides = "" if buffer.strides is None else f", {self._tuple(buffer.strides)}"
            address = self._bare(buffer.address, buffer.address.dtype)
            return f"{self.name(buffer)} = T.make_tensor({address}, {self._tuple(buffer.shape)}, {dtype}{strides})"
        init = "" if node.init is None else f", init={self._bare(node.init, buffer.dtype)}"
        shape = "" if buffer.scope is Scope.VAR else f"{self._tuple(buffer.shape)}, "
        strides = "" if buffer.strides is None else f", strides={self._tuple(buffer.strides)}"
        return f"{self.name(buffer)} = {_ALLOC[buffer.scope]}({shape}{dtype}{strides}{init})"

    def _loop(self, node: For | ParallelLoop | Launch) -> None:
        variables: tuple[Var, ...]
        first: list[str] = []
        match node:
            case For():
                head, variables = self._range(node), (node.var,)
            case ParallelLoop():
                extents = ", ".join(self.expr(e) for e in node.extents)
                head, variables = f"T.Parallel({extents})", node.vars
            case Launch():
                head, variables, first = self._kernel(node), node.block_vars, self._hints(node)
        with self._scope():
            names = ", ".join(self.name(v) for v in variables)
            if isinstance(node, Launch):
                self._line(f"with {head} as {names if len(variables) == 1 else f'({names})'}:", node)
            else:
                note = self._reductions(node) if isinstance(node, For) else ""
                self._line(f"for {names} in {head}:{note}", node)
            self._block(node.body, first)

    def _range(self, node: For) -> str:
        bounds = [self.expr(node.stop)]
        if int_const(node.start) != 0 or node.step != 1:
            bounds.insert(0, self.expr(node.start))
        if node.step != 1:
            bounds.append(str(node.step))
        if node.unroll_factor is not None:
            bounds.append(f"unroll_factor={node.unroll_factor}")
        if node.pipeline is not None:
            bounds.append(f"num_stages={node.pipeline.num_stages}")
            for key in ("order", "stage"):
                places = getattr(node.pipeline, key)
                if places is not None:
                    bounds.append(f"{key}={list(places)}")
        return f"{_FOR[node.kind]}({', '.join(bounds)})"

    def _reductions(self, node: For) -> str:
        found = ", ".join(f"{self._element(r.buffer, r.indices)} by {r.op}" for r in node.reductions)
        return f"  # reduces {found}" if found else ""

    def _kernel(self, node: Launch) -> str:
        grid = ", ".join(self.expr(e) for e in node.grid)
        x, y, z = node.threads
        return f"T.Kernel({grid}, threads={x if (y, z) == (1, 1) else (x, y, z)})"

    def _hints(self, node: Launch) -> list[str]:
        hints, lines = node.hints, []
        if hints.swizzle is not None:
            panel, order = hints.swizzle
            lines.append(f"T.use_swizzle({panel}, order={_quote(order)})")
        if hints.cluster != (1, 1, 1):
            lines.append(f"# cluster {hints.cluster}")
        if hints.min_blocks_per_sm is not None:
            lines.append(f"# at least {hints.min_blocks_per_sm} blocks per multiprocessor")
        for buffer, value in hints.safe_values:
            lines.append(f"T.annotate_safe_value({{{self.name(buffer)}: {self._bare(value, buffer.dtype)}}})")
        for buffer, ratio in hints.l2_hit_ratios:
            lines.append(f"T.annotate_l2_hit_ratio({{{self.name(buffer)}: {ratio}}})")
        for buffer, layout in hints.layouts:  # the buffer is declared further down, so its name is the user's
            lines.append(f"T.annotate_layout({{{buffer.name}: {layout}}})")
        for buffer, placed in hints.tensor_layouts:
            names, places = (", ".join(map(to_text, part)) for part in (placed.variables, placed.places))
            lines.append(f"T.annotate_layout({{{self.name(buffer)}: lambda {names}: ({places})}})")
        return lines

    def _if(self, node: If, keyword: str) -> None:
        group = node.group
        who = "" if group is None else f"  # {'one thread' if group.count == 1 else f'{group.count} threads together'}"
        self._line(f"{keyword} {self.expr(node.condition)}:{who}", node)
        self._block(node.then_body)
        if isinstance(node.else_body, If):
            self._if(node.else_body, "elif")
        elif node.else_body is not None:
            self._line("else:")
            self._block(node.else_body)

    def _atomic(self, node: Atomic) -> str:
        operands = [self._element(node.buffer, node.indices)]
        operands += [self._bare(e, node.buffer.dtype) for e in (node.compare, node.value) if e is not None]
        if node.result is not None and node.op not in (AtomicOp.LOAD, AtomicOp.CAS):
            operands.append("return_prev=True")
        if node.order is not MemoryOrder.RELAXED or node.result is not None or node.op is AtomicOp.STORE:
            operands.append(f'memory_order="{node.order.value}"')
        if node.scope is not MemoryScope.GPU:
            operands.append(f'scope="{node.scope.value}"')
        call = f"T.atomic_{node.op.value}({', '.join(operands)})"
        return call if node.result is None else f"{self.name(node.result)} = {call}"

    def _fields(self, node: Stmt, skip: frozenset[str] | set[str] = frozenset()) -> Iterator[str]:
        """A statement's fields as arguments: what must be given by position, the rest by keyword where set."""
        keyword = False
        for field in dataclasses.fields(node):
            value = getattr(node, field.name)
            if field.name == "loc" or field.name in skip:
                continue
            if isinstance(value, Stmt):
                keyword = True
                continue
            required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
            if not required and (value is field.default or isinstance(value, bool | int) and value == field.default):
                keyword = True
                continue
            keyword |= not required or not isinstance(value, Expr | Region | Buffer | tuple)
            text = self._part(value)
            yield f"{_KEYWORDS.get(field.name, field.name)}={text}" if keyword else text

    def _part(self, value: object) -> str:
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
                return _quote(value)
            case tuple():
                return self._tuple(value)
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
                return self._element(buffer, indices, dtype.lanes // buffer.dtype.lanes)
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
        """Both operands; a literal beside an expression takes its dtype from there and needs none of its own."""
        x = self._bare(a, b.dtype, left) if not isinstance(b, Const) else self.expr(a, left)
        y = self._bare(b, a.dtype, right) if not isinstance(a, Const) else self.expr(b, right)
        return x, y

    def _bare(self, node: Expr, dtype: DType, outer: int = 0) -> str:
        """The text where a literal of `dtype` is understood to have it."""
        if isinstance(node, Const) and node.dtype == dtype and math.isfinite(node.value):
            text = _number(node)
            return f"({text})" if text.startswith("-") and outer > _SIGN else text
        return self.expr(node, outer)

    def _element(self, buffer: Buffer, indices: Sequence[Expr], lanes: int = 1) -> str:
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

    def _tuple(self, values: Sequence[object]) -> str:
        parts = [self._part(v) for v in values]
        return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"


def _literal(node: Const) -> str:
    """A literal that has its dtype wherever it stands."""
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


def _quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
