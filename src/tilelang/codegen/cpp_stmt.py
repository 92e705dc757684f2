"""Prints the statements of a block program, or of the host code around launches, as C++.

Invariant: every statement's text is a whole number of lines, preceded by the user's source line wherever that changes.
"""

from __future__ import annotations

import linecache
import os
from collections.abc import Callable

from tilelang.codegen.cpp_atomic import atomic_lines
from tilelang.codegen.cpp_expr import ExprPrinter
from tilelang.codegen.cpp_print import print_lines
from tilelang.codegen.cpp_types import is_packed, value_type
from tilelang.codegen.emitter import Emitter
from tilelang.codegen.storage import StoragePlan
from tilelang.errors import CompilerBug, Loc
from tilelang.ir.buffer import Region, Scope
from tilelang.ir.expr import Const, Expr, Var, int_const
from tilelang.ir.stmt import (
    Alloc,
    Assert,
    Atomic,
    Bind,
    Break,
    CallStmt,
    Continue,
    For,
    ForKind,
    If,
    Launch,
    Print,
    Reduction,
    Seq,
    Stmt,
    Store,
    While,
)
from tilelang.isa.intrinsic import Helper

ARENA = "tl_arena_base"
FAILED = "tl_failed"


class StmtPrinter:
    """Appends the text of statements to an emitter.

    Args:
        out: Receives the lines.
        exprs: Prints the expressions.
        plan: Where on-chip buffers live; None outside of block programs.
        launch: Prints a launch; None inside of block programs.
        asserts: Receives message and place of each assertion.
    """

    def __init__(
        self,
        out: Emitter,
        exprs: ExprPrinter,
        *,
        plan: StoragePlan | None,
        launch: Callable[[Launch], None] | None,
        asserts: list[tuple[str, Loc]],
    ) -> None:
        self._out, self._exprs, self._plan, self._launch, self._asserts = out, exprs, plan, launch, asserts
        self._names = exprs.names
        self._shown: Loc | None = None

    def stmt(self, node: Stmt) -> None:
        """Prints one statement."""
        self._out.loc = node.loc
        with node.loc:
            if isinstance(node, Seq):
                self._seq(node)
                return
            self._comment(node.loc)
            self._plain(node)

    def body(self, node: Stmt) -> None:
        """Prints the inside of a braced block, which is a scope of names."""
        with self._names.scope():
            for child in node.body if isinstance(node, Seq) else (node,):
                self.stmt(child)

    def _seq(self, node: Seq) -> None:
        if any(isinstance(child, Bind | Alloc) for child in node.body):
            with self._out.block():
                self.body(node)
        else:
            for child in node.body:
                self.stmt(child)

    def _comment(self, loc: Loc) -> None:
        """The user's line above the code it became."""
        if not loc.file or (self._shown is not None and (self._shown.file, self._shown.line) == (loc.file, loc.line)):
            return
        self._shown = loc
        text = linecache.getline(loc.file, loc.line).strip()
        place = f"{os.path.basename(loc.file)}:{loc.line}: {text}" if text else str(loc)
        self._out.line(f"// {_one_line(place)}")

    def _plain(self, node: Stmt) -> None:
        out, exprs = self._out, self._exprs
        match node:
            case Bind(var=var, value=value):
                text = exprs.index(value) if var.index else exprs.value(value)
                out.line(f"const {_var_type(var)} {self._names.declare(var)} = {text};")
            case Alloc():
                self._alloc(node)
            case Store(buffer=buffer, indices=indices, value=value):
                if buffer.scope is Scope.VAR:
                    out.line(f"{self._names[buffer]} = {exprs.value(value)};")
                else:
                    # compilers vectorize moves of bits, not of the structs around them
                    part = ".bits" if is_packed(buffer.dtype) else ""
                    place, element = exprs.element(buffer, indices), exprs.stored(value, buffer.dtype)
                    out.line(f"{place}{part} = {element}{part};")
            case For():
                self._for(node)
            case While(condition=condition, body=body):
                with out.block(f"while ({exprs.condition(condition)})"):
                    self.body(body)
            case If():
                self._if(node)
            case Break():
                out.line("break;")
            case Continue():
                out.line("continue;")
            case Atomic():
                for line in atomic_lines(node, exprs):
                    out.line(line)
            case Assert(condition=condition, message=message):
                self._asserts.append((message, node.loc))
                exprs.need(FAIL)
                with out.block(f"if (!({exprs.condition(condition)}))"):
                    out.line(f"tl_fail({FAILED}, {len(self._asserts)});")
                    out.line("return;")
            case Print():
                for line in print_lines(node, exprs):
                    out.line(line)
            case CallStmt():
                self._call(node)
            case Launch() if self._launch is not None:
                self._launch(node)
            case _:
                raise CompilerBug(f"codegen: no C++ for statement {type(node).__name__}")

    def _alloc(self, node: Alloc) -> None:
        buffer, out, exprs = node.buffer, self._out, self._exprs
        base = self._names[buffer.view_of] if buffer.view_of is not None else ""
        name = self._names.declare(buffer)
        if buffer.scope is Scope.VAR:
            first = exprs.value(node.init) if node.init is not None else ""
            out.line(f"{value_type(buffer.dtype)} {name} = {first or '{}'};")
            return
        kind = exprs.storage(buffer.dtype)
        if buffer.view_of is not None:
            out.line(f"{kind}* const {name} = ({kind}*){base};")
        elif buffer.scope is Scope.GLOBAL:
            exprs.need(WORKSPACE)
            count = " * ".join(f"({exprs.index(extent)})" for extent in buffer.shape) or "1"
            memory = self._names.fresh(f"{name}_memory")
            out.line(f"const tl_workspace {memory}(({count}) * int64_t(sizeof({kind})));")
            out.line(f"if ({memory}.data == nullptr) return -1;")
            out.line(f"{kind}* const {name} = ({kind}*){memory}.data;")
        elif self._plan is not None and buffer in self._plan.offsets:
            out.line(f"{kind}* __restrict const {name} = ({kind}*)({ARENA} + {self._plan.offsets[buffer]});")
        else:
            elements = max(1, (buffer.bytes or 0) // buffer.dtype.storage_bytes)
            out.line(f"alignas(64) {kind} {name}[{elements}];")

    def _for(self, node: For) -> None:
        out, exprs = self._out, self._exprs
        start, stop = exprs.index(node.start), exprs.index(node.stop)
        if not _is_stable(node.stop):
            bound = self._names.fresh(f"{node.var.name}_end")  # stands beside the loop, not inside
            out.line(f"const int64_t {bound} = {stop};")
            stop = bound
        with self._names.scope():
            var = self._names.declare(node.var)
            if node.kind is ForKind.VECTORIZED:
                out.directive("#pragma omp simd" + "".join(f" {self._clause(r)}" for r in node.reductions))
            elif node.kind is ForKind.UNROLLED:
                out.directive(f"#pragma GCC unroll {node.unroll_factor or _trips(node)}")
            compare = "<" if node.step > 0 else ">"
            step = f"++{var}" if node.step == 1 else f"{var} += {node.step}"
            with out.block(f"for (int64_t {var} = {start}; {var} {compare} {stop}; {step})"):
                self.body(node.body)

    def _clause(self, reduction: Reduction) -> str:
        return f"reduction({reduction.op}: {self._names[reduction.buffer]})"

    def _if(self, node: If) -> None:
        with self._out.block(f"if ({self._exprs.condition(node.condition)})"):
            self.body(node.then_body)
        if node.else_body is not None:
            with self._out.block("else"):
                self.body(node.else_body)

    def _call(self, node: CallStmt) -> None:
        helper = node.routine.helper["cpp"]
        if not isinstance(helper, Helper):
            raise CompilerBug(f"codegen: routine {node.routine.name} has no C++ helper")
        self._exprs.need(helper)
        args = [self._address(a) if isinstance(a, Region) else self._argument(a) for a in node.args]
        self._out.line(f"{node.routine.spell['cpp']}({', '.join(args)});")

    def _address(self, region: Region) -> str:
        offset = self._exprs.offset(region.buffer, region.start)
        name = self._names[region.buffer]
        return name if offset == "0" else f"{name} + {offset}"

    def _argument(self, expr: Expr) -> str:
        return self._exprs.index(expr) if expr.is_index else self._exprs.value(expr)


def _one_line(text: str) -> str:
    """Text that ends a comment where the line ends: a backslash there, blanks behind it or not, would continue it."""
    return " ".join(text.splitlines()).rstrip("\\ \t\0")


def _var_type(var: Var) -> str:
    return "int64_t" if var.index else value_type(var.dtype)


def _is_stable(expr: Expr) -> bool:
    """Whether asking for the value before each iteration gives the same each time, and costs nothing."""
    return isinstance(expr, Const | Var)


def _trips(node: For) -> int:
    start, stop = int_const(node.start), int_const(node.stop)
    if start is None or stop is None:
        return 4
    return min(max(1, len(range(start, stop, node.step))), 64)


FAIL = Helper(
    "tl_fail",
    """\
// Records what went wrong: the number of an assertion, or -1. The first failure of a call counts.
static inline void tl_fail(int32_t* failed, int32_t number) {
    int32_t none = 0;
    __atomic_compare_exchange_n(failed, &none, number, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}
""",
)
WORKSPACE = Helper(
    "tl_workspace",
    """\
// Memory of one call, shared by its launches.
struct tl_workspace {
    void* const data;
    explicit tl_workspace(int64_t bytes) : data(std::malloc(bytes > 0 ? size_t(bytes) : 1)) {}
    ~tl_workspace() { std::free(data); }
    tl_workspace(const tl_workspace&) = delete;
};
""",
    headers=("<cstdlib>",),
)
