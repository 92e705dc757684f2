"""The IR as text in a syntax close to the language, with decisions of passes as comments.

The text depends on the node alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from tilelang.ir.assumption import Assume
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import Expr, Var, int_const
from tilelang.ir.func import Level, PrimFunc, ScalarParam, TensorParam
from tilelang.ir.pipeline import (
    Acquire,
    Commit,
    InitPipelines,
    OrderArrive,
    OrderWait,
    PipelineStmt,
    Release,
    ReleaseTo,
    StoreWait,
    Wait,
)
from tilelang.ir.print_expr import ExprPrinter, quote
from tilelang.ir.print_plan import buffer_comments, launch_comments, thread_mapping
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
_KEYWORDS = MappingProxyType({"transpose_a": "transpose_A", "transpose_b": "transpose_B", "transpose_c": "transpose_C"})


def to_text(node: Node) -> str:
    """A function, statement, expression, region or buffer as text; statements and functions end with a line break."""
    printer = _Printer()
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


class _Printer(ExprPrinter):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self._indent = ""
        self._decided: Mapping[Buffer, Sequence[str]] = {}

    # -- lines ----------------------------------------------------------------------------------------------
    def _line(self, text: str) -> None:
        self.lines.append(f"{self._indent}{text}" if text else "")

    def _block(self, body: Stmt, first: Sequence[str] = ()) -> None:
        with self.scope():
            outside, self._indent = self._indent, self._indent + "    "
            for text in first:
                self._line(text)
            before = len(self.lines)
            self.stmt(body)
            if len(self.lines) == before:
                self._line("pass")
            self._indent = outside

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
        shape = self.items(buffer.shape)
        if buffer.strides is None:
            return f'T.Tensor({shape}, "{buffer.dtype!s}")'
        return f'T.StridedTensor({shape}, {self.items(buffer.strides)}, "{buffer.dtype!s}")'

    # -- statements -----------------------------------------------------------------------------------------
    def stmt(self, node: Stmt) -> None:
        """Appends the lines of a statement."""
        match node:
            case Seq(body=body):
                for child in body:
                    if isinstance(child, Seq):
                        with self.scope():
                            self.stmt(child)
                    else:
                        self.stmt(child)
            case Bind(var=var, value=value):
                text = self.expr(value)  # before the name, which the value cannot see
                self._line(f"T.assume({text})" if isinstance(node, Assume) else f"{self.name(var)} = {text}")
            case Alloc(buffer=buffer):
                self._line(self._alloc(node) + _comment(*self._decided.get(buffer, ())))
            case Store(buffer=buffer, indices=indices, value=value):
                element = self.element(buffer, indices, value.dtype.lanes // buffer.dtype.lanes)
                late = _comment("asynchronous" if node.asynchronous else "")
                self._line(f"{element} = {self.bare(value, buffer.dtype)}{late}")
            case For() | ParallelLoop() | Launch():
                self._loop(node)
            case While(condition=condition, body=body):
                self._line(f"while {self.expr(condition)}:")
                self._block(body)
            case If():
                self._if(node, "if")
            case Break():
                self._line("break")
            case Continue():
                self._line("continue")
            case Atomic():
                self._line(self._atomic(node))
            case Assert(condition=condition, message=message):
                self._line(f"T.device_assert({self.expr(condition)}, {quote(message)})")
            case Print(operand=operand, message=message):
                shown = "" if operand is None else self.part(operand)
                said = f"{', ' if shown else 'msg='}{quote(message)}" if message else ""
                self._line(f"T.print({shown}{said})")
            case CallStmt(routine=routine, args=args, result=result):
                call = f"{routine.name}({', '.join(self.part(a) for a in args)})"
                call = call if result is None else f"{self.name(result)} = {call}"
                touched = (self._besides(*each, args) for each in (("reads", node.reads), ("writes", node.writes)))
                self._line(call + _comment(*touched))
            case TileOp():
                fields = ", ".join(self._fields(node, skip={"op", "choice", "plan", "request"}))
                self._line(f"{node.name}({fields}){_comment(_chosen(node))}")
            case PipelineStmt():
                self._pipeline(node)
            case _:
                self._line(f"{type(node).__name__}({', '.join(self._fields(node))})")

    def _pipeline(self, node: PipelineStmt) -> None:
        match node:
            case InitPipelines(pipelines=pipelines, orders=orders, counted=counted):
                for pipeline in pipelines:
                    self._line(f"pipeline {pipeline.name}: init {pipeline}")
                for order in orders:
                    self._line(f"order {order.name}: init {order}")
                for region in counted:
                    self._line(f"barrier {self.region(region)}: init")
            case Acquire(pipeline=pipeline, index=index, phase=phase):
                self._line(f"pipeline {pipeline.name}: acquire({self.expr(index)}, {self.expr(phase)})")
            case Commit(pipeline=pipeline, index=index):
                self._line(f"pipeline {pipeline.name}: commit({self.expr(index)})")
            case Wait(pipeline=pipeline, index=index, phase=phase):
                self._line(f"pipeline {pipeline.name}: wait({self.expr(index)}, {self.expr(phase)})")
            case Release(pipeline=pipeline, index=index):
                self._line(f"pipeline {pipeline.name}: release({self.expr(index)})")
            case ReleaseTo(pipeline=pipeline, blocks=blocks):
                self._line(f"pipeline {pipeline.name}: release to blocks {self.items(blocks)}")
            case OrderWait(order=order, member=member, phase=phase):
                operands = ("" if member is None else str(member), "" if phase is None else self.expr(phase))
                self._line(f"order {order.name}: wait({', '.join(filter(None, operands))})")
            case OrderArrive(order=order, member=member):
                self._line(f"order {order.name}: arrive({'' if member is None else member})")
            case StoreWait(read=read):
                self._line(f"wait for stores({read=})")

    def _besides(self, verb: str, regions: Sequence[Region], args: Sequence[Expr | Region]) -> str:
        """The buffers that a call reads or writes and that are not among its arguments."""
        named = {a.buffer for a in args if isinstance(a, Region)}
        others = dict.fromkeys(self.name(region.buffer) for region in regions if region.buffer not in named)
        return f"{verb} {', '.join(others)}" if others else ""

    def _alloc(self, node: Alloc) -> str:
        buffer = node.buffer
        dtype = f'"{buffer.dtype!s}"'
        if buffer.view_of is not None:
            source = self.name(buffer.view_of)
            return f"{self.name(buffer)} = T.view({source}, {self.items(buffer.shape)}, {dtype})"
        if buffer.address is not None:
            strides = "" if buffer.strides is None else f", {self.items(buffer.strides)}"
            address = self.bare(buffer.address, buffer.address.dtype)
            return f"{self.name(buffer)} = T.make_tensor({address}, {self.items(buffer.shape)}, {dtype}{strides})"
        init = "" if node.init is None else f", init={self.bare(node.init, buffer.dtype)}"
        shape = "" if buffer.scope is Scope.VAR else f"{self.items(buffer.shape)}, "
        strides = "" if buffer.strides is None else f", strides={self.items(buffer.strides)}"
        return f"{self.name(buffer)} = {_ALLOC[buffer.scope]}({shape}{dtype}{strides}{init})"

    def _loop(self, node: For | ParallelLoop | Launch) -> None:
        variables: tuple[Var, ...]
        first: list[str] = []
        note = ""
        match node:
            case For():
                head, variables, note = self._range(node), (node.var,), self._reductions(node)
            case ParallelLoop():
                head, variables = self._parallel(node), node.vars
                note = "" if node.layout is None else thread_mapping("run", "iteration", node.layout)
            case Launch():
                head, variables, first = self._kernel(node), node.block_vars, self._hints(node)
                first += [f"# {line}" for line in launch_comments(node.plan, self.expr)]
                self._decided = buffer_comments(node.plan, self.expr)
        with self.scope():
            names = ", ".join(self.name(v) for v in variables)
            if isinstance(node, Launch):
                self._line(f"with {head} as {names if len(variables) == 1 else f'({names})'}:")
            else:
                self._line(f"for {names} in {head}:{_comment(note)}")
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

    def _parallel(self, node: ParallelLoop) -> str:
        extents = ", ".join(self.expr(e) for e in node.extents)
        width = "" if node.coalesced_width is None else f", coalesced_width={node.coalesced_width}"
        return f"T.Parallel({extents}{width})"

    def _reductions(self, node: For) -> str:
        found = ", ".join(f"{self.element(r.buffer, r.indices)} by {r.op}" for r in node.reductions)
        return f"reduces {found}" if found else ""

    def _kernel(self, node: Launch) -> str:
        grid = ", ".join(self.expr(e) for e in node.grid)
        x, y, z = node.threads
        return f"T.Kernel({grid}, threads={x if (y, z) == (1, 1) else (x, y, z)})"

    def _hints(self, node: Launch) -> list[str]:
        hints, lines = node.hints, []
        if hints.swizzle is not None:
            panel, order = hints.swizzle
            lines.append(f"T.use_swizzle({panel}, order={quote(order)})")
        if hints.cluster != (1, 1, 1):
            lines.append(f"# cluster {hints.cluster}")
        if hints.min_blocks_per_sm is not None:
            lines.append(f"# at least {hints.min_blocks_per_sm} blocks per multiprocessor")
        for buffer, value in hints.safe_values:
            lines.append(f"T.annotate_safe_value({{{self.name(buffer)}: {self.bare(value, buffer.dtype)}}})")
        for buffer, ratio in hints.l2_hit_ratios:
            lines.append(f"T.annotate_l2_hit_ratio({{{self.name(buffer)}: {ratio}}})")
        for buffer, layout in hints.layouts:  # the buffer is declared further down, so its name is the user's
            lines.append(f"T.annotate_layout({{{buffer.name}: {layout}}})")
        for buffer, placed in hints.tensor_layouts:
            names, places = (", ".join(map(to_text, part)) for part in (placed.variables, placed.coordinates))
            lines.append(f"T.annotate_layout({{{self.name(buffer)}: lambda {names}: ({places})}})")
        return lines

    def _if(self, node: If, keyword: str) -> None:
        group = node.group
        who = "" if group is None else f"  # {'one thread' if group.count == 1 else f'{group.count} threads together'}"
        self._line(f"{keyword} {self.expr(node.condition)}:{who}")
        self._block(node.then_body)
        if isinstance(node.else_body, If):
            self._if(node.else_body, "elif")
        elif node.else_body is not None:
            self._line("else:")
            self._block(node.else_body)

    def _atomic(self, node: Atomic) -> str:
        operands = [self.element(node.buffer, node.indices)]
        operands += [self.bare(e, node.buffer.dtype) for e in (node.compare, node.value) if e is not None]
        if node.result is not None and node.op not in (AtomicOp.LOAD, AtomicOp.CAS):
            operands.append("return_prev=True")
        if node.order is not MemoryOrder.RELAXED or node.result is not None or node.op is AtomicOp.STORE:
            operands.append(f'memory_order="{node.order.value}"')
        if node.scope is not MemoryScope.GPU:
            operands.append(f'scope="{node.scope.value}"')
        call = f"T.atomic_{node.op.value}({', '.join(operands)})"
        return call if node.result is None else f"{self.name(node.result)} = {call}"

    def _fields(self, node: Stmt, skip: frozenset[str] | set[str] = frozenset()) -> Iterator[str]:
        """The fields of a statement as arguments: required ones by position, others by keyword if set."""
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
            text = self.part(value)
            yield f"{_KEYWORDS.get(field.name, field.name)}={text}" if keyword else text


def _chosen(op: TileOp) -> str:
    """The chosen lowering of an operator, and its plan."""
    decided = "" if op.plan is None else str(op.plan)
    return f"{op.choice}: {decided}" if decided else op.choice


def _comment(*texts: str) -> str:
    """Several texts as one trailing comment; empty without texts."""
    shown = "; ".join(filter(None, texts))
    return f"  # {shown}" if shown else ""
