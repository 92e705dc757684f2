"""Prints a thread-level function for a GPU: one kernel per launch, each the program of one thread.

Takes a `PrimFunc` whose shared buffers have places (`Launch.plan`) and no more than one index; gives a `Source` that a
person can read: the user's names, and the user's source line above the code it became. What the host does (grids,
workspaces, arguments in order) stands in `Source.launches` and `Source.workspaces`. Subclasses say how a language
writes the head of a kernel, the indices of blocks and threads, and shared memory.

Index arithmetic is `int` where that is proven to suffice. Sums of products of float32 and float64 may be contracted
into fused operations, which round once where the language rounds twice; narrower floats round after each operation.
"""

from __future__ import annotations

import abc
import re
from collections.abc import Iterator, Set
from contextlib import contextmanager

from tilelang.analysis.tensor_map_stores import stored_by_tensor_maps
from tilelang.arith.domain import of_calls
from tilelang.codegen.c_expr import ExprPrinter
from tilelang.codegen.c_stmt import users_line
from tilelang.codegen.dialect import Dialect, is_packed
from tilelang.codegen.emitter import Emitter
from tilelang.codegen.host_expr import python_text
from tilelang.codegen.index_types import ProvenIndexTypes
from tilelang.codegen.names import Names, identifier
from tilelang.codegen.source import DeviceLaunch, KernelArgument, Source, TensorMapText
from tilelang.errors import NOWHERE, CompilerBug, Loc
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.callee import Routine
from tilelang.ir.expr import Expr, Var, as_expr
from tilelang.ir.func import Level, PrimFunc, ScalarParam, TensorParam
from tilelang.ir.launch import LaunchPlan
from tilelang.ir.specialization import INDEX_BITS
from tilelang.ir.stmt import Alloc, Assert, CallStmt, Launch, Seq, Stmt
from tilelang.ir.visit import walk, written_buffers
from tilelang.isa.instruction import Effect, Instruction
from tilelang.isa.intrinsic import Helper, ordered_helpers
from tilelang.targets.gpu.codegen.statements import FAILED, ThreadStmtPrinter, pointer_type

_LINE_LENGTH = 120
_FIXED_WIDTH = re.compile(r"\bu?int(8|16|32|64)_t\b")


class ThreadProgram(abc.ABC):
    """The source under construction: kernels one after another.

    Args:
        func: The function; raises `CompilerBug` if it holds something that earlier passes should have removed.

    Attributes:
        dialect: The language.
        words: Names that the language reserves beyond those of C++.
        integers: Defines the integer types of fixed width; None where the preamble does.
        max_grid: Blocks of a grid along x, y and z.
        flags: Compiler flags that the text needs.
        thread_type: The type of the index of a thread.
    """

    dialect: Dialect
    words: re.Pattern[str]
    integers: Helper | None = None
    max_grid: tuple[int, int, int]
    flags: tuple[str, ...] = ()
    thread_type: str = "const int"

    def __init__(self, func: PrimFunc) -> None:
        if func.level is not Level.THREAD:
            raise CompilerBug(f"codegen: {func.name!r} is at {func.level.value} level")
        self._func = func
        self._names = Names(self.words)
        self._types = ProvenIndexTypes(of_calls(func), wide=dict(func.attributes).get(INDEX_BITS) == 64)
        self._exprs = self._printer()
        self._out = Emitter()
        self._asserts: list[tuple[str, Loc, str]] = []
        self._workspaces: list[Buffer] = []
        self._launches: list[DeviceLaunch] = []
        self._users: dict[str, None] = {}  # the user's own C++, each text once

    def source(self) -> Source:
        """Everything, put together."""
        self._declare_parameters()
        for stmt in top_level(self._func.body):
            with stmt.loc:
                if isinstance(stmt, Launch):
                    self._launch(stmt)
                elif isinstance(stmt, Alloc) and stmt.buffer.scope is Scope.GLOBAL and stmt.buffer.view_of is None:
                    self._names.declare(stmt.buffer)
                    self._workspaces.append(stmt.buffer)
                else:
                    raise CompilerBug(f"codegen: {type(stmt).__name__} outside of a launch")
        return self._assemble()

    def _assemble(self) -> Source:
        kernels, _ = self._out.finish()
        helpers = list(self._exprs.helpers.values())
        if self.integers is not None and _FIXED_WIDTH.search(kernels):
            helpers.insert(0, self.integers)
        called = (stmt.routine for stmt in walk(self._func.body) if isinstance(stmt, CallStmt))
        has_user_code = bool(self._users) or any(map(self._is_user_code, called))
        parts = self._preamble("\n".join([*self._users, kernels]) if has_user_code else "")
        for helper in ordered_helpers(helpers):
            parts += [helper.text.rstrip("\n"), ""]
        for text in self._users:
            parts += [text.rstrip("\n"), ""]
        text, lines = self._out.finish("\n".join(parts) + "\n" if parts else "")
        sizes = tuple(_bytes_text(buffer) for buffer in self._workspaces)
        name = self._launches[0].name if self._launches else identifier(self._func.name, self.words)
        return Source(
            self.dialect.language,
            text,
            name,
            lines,
            tuple(self._asserts),
            self.flags,
            launches=tuple(self._launches),
            workspaces=sizes,
            has_user_code=has_user_code,
        )

    # -- what languages write -----------------------------------------------------------------------------------
    @abc.abstractmethod
    def _traits(self, launch: Launch) -> str:
        """The attributes of a kernel, between its type and its name."""

    @abc.abstractmethod
    def _arena(self, plan: LaunchPlan) -> str:
        """The definition of shared memory as an array of bytes."""

    @abc.abstractmethod
    def _dynamic_bytes(self, plan: LaunchPlan) -> int:
        """The constant part of the shared memory that the host gives a launch."""

    @abc.abstractmethod
    def _block_index(self, axis: str) -> str:
        """The index of the block along x, y or z."""

    @abc.abstractmethod
    def _thread_index(self, axis: str) -> str:
        """The index of the thread in its block along x, y or z."""

    @abc.abstractmethod
    def _statements(self, out: Emitter, launch: Launch, written: Set[Buffer]) -> ThreadStmtPrinter:
        """The printer of the statements of a launch; `written` are the buffers that it may write."""

    def _printer(self) -> ExprPrinter:
        """The printer of expressions."""
        return ExprPrinter(self._names, self.dialect, self._types)

    def _preamble(self, user_text: str) -> list[str]:
        """The lines before all helpers; `user_text` is the text that the user's code is part of, if there is any."""
        return []

    def _is_user_code(self, routine: Routine) -> bool:
        """Whether a routine is source of the user."""
        return False

    def _is_early(self, launch: Launch) -> bool:
        """Whether a launch may begin before the preceding one ends."""
        return False

    def _first_parameters(self, launch: Launch, used: Set[Var | Buffer]) -> tuple[list[str], list[KernelArgument]]:
        """The parameters that come first, and how the host fills them."""
        return [], []

    def _tensor_maps(self, launch: Launch, used: Set[Var | Buffer]) -> tuple[TensorMapText, ...]:
        """The tensor maps that the host makes for a launch."""
        return ()

    def _linear_thread(self, threads: tuple[int, int, int]) -> str:
        """The number of a thread in its block, x running fastest."""
        x, y, z = threads
        if z > 1:
            along_y = f"{self._thread_index('y')} + {y} * {self._thread_index('z')}"
            return f"{self._thread_index('x')} + {x} * ({along_y})"
        return f"{self._thread_index('x')} + {x} * {self._thread_index('y')}" if y > 1 else self._thread_index("x")

    # -- parameters -------------------------------------------------------------------------------------------
    def _declare_parameters(self) -> None:
        for param in self._func.params:
            if isinstance(param, TensorParam):
                self._names.declare(param.buffer)
            else:
                self._names.declare(param.var)
                self._declare_index(param.var)
        for symbol in self._func.symbols:
            self._names.declare(symbol)
            self._declare_index(symbol)

    def _declare_index(self, var: Var) -> None:
        if var.index:
            self._types.declare(var)

    # -- launches ---------------------------------------------------------------------------------------------
    def _launch(self, launch: Launch) -> None:
        """Prints the body first, which shows what it needs, and then the head in front of it."""
        self._users.update(dict.fromkeys(launch.hints.sources))
        name = self._names.fresh_everywhere(f"{identifier(self._func.name).rstrip('_')}_kernel")
        written = {buffer.storage for stmt in walk(launch.body) for buffer in written_buffers(stmt)}
        written |= {buffer.storage for buffer in stored_by_tensor_maps(launch)}
        body, head = Emitter(), Emitter()
        failing = any(isinstance(stmt, Assert) for stmt in walk(launch.body))
        early = self._is_early(launch)
        with self._names.scope(), self._types.scope():
            self._learn(launch)
            for var in _indices(launch):
                self._names.declare(var)
                self._types.declare(var)
            for tensor_map in launch.plan.tensor_maps:
                self._names.declare(tensor_map.var)
            renamed = {p: self._names.fresh(f"{self._names[p.var]}_arg") for p in self._converted()}
            self._names.used.clear()
            self._statements(body, launch, written).body(launch.body)
            used = set(self._names.used)
            head.loc = launch.loc
            self._prologue(launch, head, used, renamed)
            parameters, arguments = self._signature(launch, used, written, renamed, failing)
        if self._launches:
            self._out.line()
        self._out.loc = launch.loc
        if launch.loc.file:
            self._out.line(users_line(launch.loc))
        with self._open(f'extern "C" __global__ void {self._traits(launch)} {name}', parameters):
            self._out.include(head)
            self._out.include(body)
        self._out.loc = NOWHERE
        self._launches.append(
            DeviceLaunch(
                name,
                tuple(python_text(extent) for extent in launch.grid),
                launch.threads,
                self._dynamic_bytes(launch.plan),
                launch.hints.cluster,
                tuple(arguments),
                tensor_maps=self._tensor_maps(launch, used),
                cooperative=any(Effect.SYNC_GRID in instruction.effect for instruction in instructions_of(launch)),
                early=early,
                shared_text=python_text(dynamic) if (dynamic := launch.plan.dynamic_shared_bytes) is not None else "",
                fragments=tuple(
                    (buffer.name, layout.values * buffer.dtype.storage_bytes)
                    for buffer, layout in launch.plan.fragments
                ),
            )
        )

    @contextmanager
    def _open(self, head: str, parameters: list[str]) -> Iterator[None]:
        """The head of a function, in one line if that is not too long, and its braces."""
        whole = f"{head}({', '.join(parameters)})"
        if len(whole) <= _LINE_LENGTH:
            with self._out.block(whole):
                yield
            return
        self._out.line(f"{head}(")
        for number, parameter in enumerate(parameters, start=1):
            self._out.line(f"    {parameter}{',' if number < len(parameters) else ''}")
        with self._out.block(")"):
            yield

    def _learn(self, launch: Launch) -> None:
        """The ranges of the indices of blocks and threads."""
        domain = self._types.domain
        for var, extent, most in zip(launch.block_vars, launch.grid, self.max_grid, strict=False):
            domain = domain.with_loop(var, 0, extent).with_range(var, 0, most - 1)
        if launch.thread is not None:
            domain = domain.with_range(launch.thread, 0, launch.num_threads - 1)
        self._types.learn(domain)

    def _prologue(self, launch: Launch, out: Emitter, used: Set[Var | Buffer], renamed: dict[ScalarParam, str]) -> None:
        """Shared memory, indices of blocks and threads, and parameters that arrive in another form."""
        shared = {buffer for buffer, _ in (*launch.plan.shared_offsets, *launch.plan.dynamic_shared_offsets)}
        if any(isinstance(s, Alloc) and s.buffer in shared for s in walk(launch.body)):
            out.line(self._arena(launch.plan))
        for var, axis in zip(launch.block_vars, "xyz", strict=False):
            if var in used:
                out.line(f"const int {self._names[var]} = {self._block_index(axis)};")
        if launch.thread in used and launch.thread is not None:
            out.line(f"{self.thread_type} {self._names[launch.thread]} = {self._linear_thread(launch.threads)};")
        for param, argument in renamed.items():
            if param.var in used:
                kind = self._exprs.value_type(param.dtype)
                text = self._exprs.rounded(argument, param.dtype)
                out.line(f"const {kind} {self._names[param.var]} = {text};")

    def _signature(
        self,
        launch: Launch,
        used: Set[Var | Buffer],
        written: Set[Buffer],
        renamed: dict[ScalarParam, str],
        failing: bool,
    ) -> tuple[list[str], list[KernelArgument]]:
        """The kernel's parameters, and how the host fills them; only those that the body uses."""
        texts, arguments = self._first_parameters(launch, used)
        early = self._is_early(launch)

        def add(text: str, kind: str, index: int, ctype: str) -> None:
            texts.append(text)
            arguments.append(KernelArgument(kind, index, ctype))

        for index, param in enumerate(self._func.params):
            if isinstance(param, TensorParam) and param.buffer in used:
                add(self._pointer(param.buffer, written, early), "tensor", index, "void*")
        for index, buffer in enumerate(self._workspaces):
            if buffer in used:
                add(self._pointer(buffer, written, early), "workspace", index, "void*")
        for index, param in enumerate(self._func.params):
            if isinstance(param, ScalarParam) and param.var in used:
                name = renamed.get(param, self._names[param.var])
                add(f"{self._type_text(param.var)} {name}", "scalar", index, self._scalar_type(param.var))
        for index, symbol in enumerate(self._func.symbols):
            if symbol in used:
                add(f"{self._type_text(symbol)} {self._names[symbol]}", "symbol", index, self._scalar_type(symbol))
        if failing:
            add(f"int* {FAILED}", "failure", 0, "void*")
        return texts, arguments

    def _pointer(self, buffer: Buffer, written: Set[Buffer], early: bool) -> str:
        kind, name = pointer_type(buffer, self._exprs, written), self._names[buffer]
        # Distinct parameters are distinct memory, by the language's rule. Where a launch begins early, a compiler that
        # takes read-only memory for constant might load it before the wait for the launches that write it.
        return f"{kind} {name}" if early else f"{kind} __restrict__ {name}"

    def _scalar_type(self, var: Var) -> str:
        if var.index:
            return f"int{self._types.declared(var)}_t"
        return self._exprs.value_type(var.dtype)

    def _type_text(self, var: Var) -> str:
        return self._exprs.index_type(self._types.declared(var)) if var.index else self._scalar_type(var)

    def _converted(self) -> Iterator[ScalarParam]:
        """Scalar parameters of dtypes that the host cannot pass, which the kernel converts to."""
        for param in self._func.params:
            if isinstance(param, ScalarParam) and not param.var.index and is_packed(param.dtype):
                yield param


def top_level(body: Stmt) -> Iterator[Stmt]:
    """The launches of a function and the allocations beside them."""
    if isinstance(body, Seq):
        for child in body.body:
            yield from top_level(child)
    else:
        yield body


def _indices(launch: Launch) -> tuple[Var, ...]:
    return launch.block_vars if launch.thread is None else (*launch.block_vars, launch.thread)


def instructions_of(launch: Launch) -> Iterator[Instruction]:
    """The instructions that a launch executes."""
    for stmt in walk(launch.body):
        if isinstance(stmt, CallStmt) and isinstance(stmt.routine, Instruction):
            yield stmt.routine


def _bytes_text(buffer: Buffer) -> str:
    size: Expr = as_expr(buffer.dtype.storage_bytes)
    for extent in buffer.shape:
        size = size * extent
    return python_text(size)
