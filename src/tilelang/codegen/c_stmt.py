"""Prints statements for languages of the C family; subclasses implement what differs between languages.

Takes statements, gives lines. Invariant: every statement's text is a whole number of lines, after the user's source
line wherever that changes.
"""

from __future__ import annotations

import abc
import linecache
import os
from collections.abc import Sequence

from tilelang.arith.exact import exactly
from tilelang.codegen.c_expr import ExprPrinter
from tilelang.codegen.dialect import is_packed
from tilelang.codegen.emitter import Emitter
from tilelang.errors import CompilerBug, Loc
from tilelang.ir.assumption import Assume
from tilelang.ir.buffer import Region, Scope
from tilelang.ir.expr import Const, Expr, Var
from tilelang.ir.sequences import statements_of
from tilelang.ir.stmt import (
    Alloc,
    Assert,
    Atomic,
    Bind,
    Break,
    CallStmt,
    Continue,
    For,
    If,
    Launch,
    Print,
    Seq,
    Stmt,
    Store,
    While,
)


class StmtPrinter(abc.ABC):
    """Appends the text of statements to an emitter.

    Args:
        out: Receives the lines.
        exprs: Prints the expressions.
        asserts: Receives message, location and hint of each assertion.
    """

    def __init__(self, out: Emitter, exprs: ExprPrinter, asserts: list[tuple[str, Loc, str]]) -> None:
        self._out, self._exprs, self._asserts = out, exprs, asserts
        self._names, self._types = exprs.names, exprs.types
        self._shown: Loc | None = None

    # -- implemented by languages -------------------------------------------------------------------------------
    @abc.abstractmethod
    def _alloc(self, node: Alloc) -> None:
        """Defines a buffer that is no mutable scalar."""

    @abc.abstractmethod
    def _atomic(self, node: Atomic) -> list[str]:
        """The lines of an atomic statement; declares its result."""

    @abc.abstractmethod
    def _print(self, node: Print) -> list[str]:
        """The lines of a print statement."""

    @abc.abstractmethod
    def _fail(self, number: int) -> list[str]:
        """The lines that end the launch because of an assertion, counted from 1."""

    @abc.abstractmethod
    def _pragma(self, node: For) -> str:
        """The directive in front of a loop; empty for none."""

    def _launch(self, node: Launch) -> None:
        raise CompilerBug("codegen: a launch within a launch")

    # -- common -------------------------------------------------------------------------------------------------
    def stmt(self, node: Stmt) -> None:
        """Prints one statement."""
        self._out.loc = node.loc
        with node.loc:
            if isinstance(node, Seq):
                self._seq(node)
                return
            if isinstance(node, Assume):
                self._types.assume(exactly(node.value))
                return
            self._comment(node.loc)
            self._plain(node)

    def body(self, node: Stmt) -> None:
        """Prints the inside of a braced block, which is a scope of names."""
        with self._names.scope(), self._types.scope():
            self._statements(statements_of(node))

    def _seq(self, node: Seq) -> None:
        if any(isinstance(child, Bind | Alloc) for child in node.body):
            with self._out.block():
                self.body(node)
        else:
            self._statements(node.body)

    def _statements(self, statements: Sequence[Stmt]) -> None:
        for stmt in statements:
            self.stmt(stmt)

    def _comment(self, loc: Loc) -> None:
        """Prints the user's line above the code generated from it."""
        if not loc.file or (self._shown is not None and (self._shown.file, self._shown.line) == (loc.file, loc.line)):
            return
        self._shown = loc
        self._out.line(users_line(loc))

    def _plain(self, node: Stmt) -> None:
        out, exprs = self._out, self._exprs
        match node:
            case Bind():
                self._bind(node)
            case Alloc(buffer=buffer, init=init) if buffer.scope is Scope.VAR:
                first = exprs.value(init) if init is not None else "{}"
                out.line(f"{exprs.value_type(buffer.dtype)} {self._names.declare(buffer)} = {first};")
            case Alloc():
                self._alloc(node)
            case Store():
                self._store(node)
            case For():
                self._for(node)
            case While(condition=condition, body=body):
                with out.block(f"while ({exprs.condition(condition)})"), self._types.given(condition):
                    self.body(body)
            case If():
                self._if(node)
            case Break():
                out.line("break;")
            case Continue():
                out.line("continue;")
            case Atomic():
                self._lines(self._atomic(node))
            case Assert(condition=condition, message=message, hint=hint):
                self._asserts.append((message, node.loc, hint))
                with out.block(f"if (!({exprs.condition(condition)}))"):
                    self._lines(self._fail(len(self._asserts)))
            case Print():
                self._lines(self._print(node))
            case CallStmt():
                self._call(node)
            case Launch():
                self._launch(node)
            case _:
                raise CompilerBug(f"codegen: no text for statement {type(node).__name__}")

    def _lines(self, lines: list[str]) -> None:
        for line in lines:
            self._out.line(line)

    def _bind(self, node: Bind) -> None:
        var, exprs = node.var, self._exprs
        if var.index:
            text = exprs.index(node.value)
            kind = exprs.index_type(self._types.bind(var, node.value))
        else:
            text, kind = exprs.value(node.value), exprs.value_type(var.dtype)
            self._types.bind_data(var, node.value)
        self._out.line(f"const {kind} {self._names.declare(var)} = {text};")

    def _store(self, node: Store) -> None:
        buffer, value, exprs = node.buffer, node.value, self._exprs
        if buffer.scope is Scope.VAR:
            self._out.line(f"{self._names[buffer]} = {exprs.value(value)};")
        elif value.dtype.lanes != buffer.dtype.lanes:
            place = exprs.vector(buffer, node.indices, value.dtype)
            self._out.line(f"{place} = {exprs.value(value)};")
        else:
            part = ".bits" if is_packed(buffer.dtype) and exprs.dialect.copies_bits else ""
            place, element = exprs.element(buffer, node.indices), exprs.stored(value, buffer.dtype)
            self._out.line(f"{place}{part} = {element}{part};")

    def _for(self, node: For, also: Sequence[str] = ()) -> None:
        """A loop; `also` are additional increment expressions."""
        out, exprs = self._out, self._exprs
        start, stop = exprs.index(node.start), exprs.exact(node.stop)
        limit = stop.text
        if not _is_stable(node.stop):
            limit = self._names.fresh(f"{node.var.name}_end")  # declared outside of the loop
            out.line(f"const {exprs.index_type(stop.bits)} {limit} = {stop.text};")
        with self._names.scope(), self._types.scope():
            kind = exprs.index_type(self._types.loop(node))
            var = self._names.declare(node.var)
            pragma = self._pragma(node)
            if pragma:
                out.directive(pragma)
            compare = "<" if node.step > 0 else ">"
            step = ", ".join([f"++{var}" if node.step == 1 else f"{var} += {node.step}", *also])
            with out.block(f"for ({kind} {var} = {start}; {var} {compare} {limit}; {step})"):
                self._iteration(node)

    def _iteration(self, node: For) -> None:
        """The body of a loop."""
        self.body(node.body)

    def _if(self, node: If) -> None:
        with self._out.block(f"if ({self._exprs.condition(node.condition)})"), self._types.given(node.condition):
            self.body(node.then_body)
        if node.else_body is not None:
            with self._out.block("else"), self._types.given(node.condition, holds=False):
                self.body(node.else_body)

    def _call(self, node: CallStmt) -> None:
        exprs = self._exprs
        template = exprs.dialect.call(node.routine)
        exprs.need(template.helper)
        text = template.format(*map(self._argument, node.args))
        if node.result is not None:
            kind = exprs.index_type(self._types.declare(node.result)) if node.result.index else ""
            kind = kind or exprs.value_type(node.result.dtype)
            text = f"const {kind} {self._names.declare(node.result)} = {text}"
        self._out.line(f"{text};")

    def _argument(self, argument: Region | Expr) -> str:
        exprs = self._exprs
        return exprs.address(argument) if isinstance(argument, Region) else exprs.argument(argument)


def users_line(loc: Loc) -> str:
    """A comment with the location and text of the user's line."""
    text = linecache.getline(loc.file, loc.line).strip()
    place = f"{os.path.basename(loc.file)}:{loc.line}: {text}" if text else str(loc)
    return f"// {_one_line(place)}"


def _one_line(text: str) -> str:
    """Text that is safe at the end of a comment: a trailing backslash would continue the comment."""
    return " ".join(text.splitlines()).rstrip("\\ \t\0")


def _is_stable(expr: Expr) -> bool:
    """Whether a value is loop-invariant and free to evaluate in each iteration."""
    return isinstance(expr, Const | Var)
