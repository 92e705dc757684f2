"""Prints a thread-level function as C++: one function per block program, one entry that runs the blocks.

Takes a `PrimFunc` without tile operators, in which every access is in bounds; gives a readable `Source`, with the
user's names and source lines as comments. The entry has the C ABI `int32_t entry(pointers and scalars in the order of
the parameters, int64_t for each symbol)`; it returns 0, n + 1 if assertion n failed, or -1 if memory for a workspace or
for the tiles of a block could not be allocated.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilelang.codegen.c_expr import ExprPrinter
from tilelang.codegen.dialect import is_packed
from tilelang.codegen.emitter import Emitter
from tilelang.codegen.names import Names, identifier
from tilelang.codegen.source import Source
from tilelang.codegen.storage import StoragePlan, plan_storage
from tilelang.dtypes import DType
from tilelang.errors import NOWHERE, CompilerBug, Loc
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import Expr, Load, Var, int_const
from tilelang.ir.func import Level, PrimFunc, ScalarParam, TensorParam
from tilelang.ir.stmt import Alloc, Assert, Atomic, CallStmt, For, Launch, Print, Stmt, Store, While
from tilelang.ir.visit import expressions, walk, walk_expr, written_buffers
from tilelang.isa.intrinsic import Helper, ordered_helpers
from tilelang.targets.cpu.codegen.cpp_dialect import CPP
from tilelang.targets.cpu.codegen.cpp_stmt import ARENA, FAIL, FAILED, CppStmtPrinter

_CACHE_LINE_BYTES = 64


def emit(func: PrimFunc) -> Source:
    """The function as C++ source.

    Raises:
        CompilerBug: The function holds something that earlier passes should have removed.
    """
    if func.level is not Level.THREAD:
        raise CompilerBug(f"codegen: {func.name!r} is at {func.level.value} level")
    return _Program(func).source()


class _Program:
    """The source under construction: block programs, then the entry that calls them."""

    def __init__(self, func: PrimFunc) -> None:
        self._func = func
        self._names = Names()
        self._exprs = ExprPrinter(self._names, CPP)
        self._blocks, self._entry = Emitter(), Emitter()
        self._asserts: list[tuple[str, Loc, str]] = []
        self._written = {b.storage for s in walk(func.body) for b in written_buffers(s)}
        self._plans = {s: plan_storage(s.body) for s in walk(func.body) if isinstance(s, Launch)}
        self._asserting = any(isinstance(s, Assert) or _is_sized_at_launch(s) for s in walk(func.body))
        self._may_fail = self._asserting or any(plan.arena_bytes for plan in self._plans.values())
        self._arguments: dict[ScalarParam, str] = {}  # names of scalars whose type in the ABI differs

    def source(self) -> Source:
        """The complete source."""
        func = self._func
        entry_name = self._names.fresh(func.name)
        self._declare_parameters()
        host = CppStmtPrinter(self._entry, self._exprs, plan=None, launch=self._launch, asserts=self._asserts)
        parameters = ", ".join(self._abi_parameters())
        with self._entry.block(f'extern "C" int32_t {entry_name}({parameters})'):
            self._convert_scalars()
            if self._may_fail:
                self._entry.line(f"int32_t {FAILED} = 0;")
            host.body(func.body)
            self._entry.line(f"return {FAILED};" if self._may_fail else "return 0;")
        return self._assemble(entry_name)

    def _assemble(self, entry_name: str) -> Source:
        helpers = ordered_helpers(self._exprs.helpers.values())
        headers = sorted({"<cstdint>", *(h for helper in helpers for h in helper.headers)})
        parts = [*(f"#include {header}" for header in headers), ""]
        for helper in helpers:
            parts += [helper.text.rstrip("\n"), ""]
        blocks, lines = self._blocks.finish("\n".join(parts) + "\n")
        text, entry_lines = self._entry.finish(blocks)
        return Source("cpp", text, entry_name, {**lines, **entry_lines}, tuple(self._asserts))

    # -- parameters -------------------------------------------------------------------------------------------
    def _declare_parameters(self) -> None:
        for param in self._func.params:
            self._names.declare(param.buffer if isinstance(param, TensorParam) else param.var)
        for symbol in self._func.symbols:
            self._names.declare(symbol)
        for param in self._func.params:
            if isinstance(param, ScalarParam) and not _has_abi_type(param):
                self._arguments[param] = self._names.fresh(f"{self._names[param.var]}_arg")

    def _abi_parameters(self) -> list[str]:
        parameters = []
        for param in self._func.params:
            if isinstance(param, TensorParam):
                parameters.append(self._pointer(param.buffer))
            else:
                name = self._arguments.get(param, self._names[param.var])
                parameters.append(f"{_abi_type(param)} {name}")
        return parameters + [f"int64_t {self._names[symbol]}" for symbol in self._func.symbols]

    def _convert_scalars(self) -> None:
        for param, argument in self._arguments.items():
            dtype = param.dtype
            kind = CPP.value_type(dtype)
            text = f"({kind}){argument}"
            if is_packed(dtype):
                text = self._exprs.rounded(text, dtype)
            self._entry.line(f"const {kind} {self._names[param.var]} = {text};")

    def _pointer(self, buffer: Buffer) -> str:
        const = "" if buffer.storage in self._written else "const "
        return f"{const}{self._exprs.storage(buffer.dtype)}* {self._names[buffer]}"

    # -- launches ---------------------------------------------------------------------------------------------
    def _launch(self, launch: Launch) -> None:
        """The loop over the grid, in the entry; the block program is a separate function."""
        plan = self._plans[launch]
        captured = _captured(launch, self._names)
        name = self._names.fresh_everywhere(f"{identifier(self._func.name).rstrip('_')}_block")
        with self._names.scope():
            self._block_function(launch, name, captured, plan)
        with self._entry.block(), self._names.scope():
            count, block = self._names.fresh("blocks"), self._names.fresh("block")
            arguments = [self._names[node] for node in captured] + _coordinates(block, self._grid(launch, count))
            schedule = "static" if _is_even(launch) else "dynamic"
            self._entry.directive(f"#pragma omp parallel for schedule({schedule}) if ({count} > 1)")
            with self._entry.block(f"for (int64_t {block} = 0; {block} < {count}; ++{block})"):
                self._run_block(name, arguments, plan.arena_bytes)

    def _grid(self, launch: Launch, count: str) -> list[str]:
        """Declares the extents of the grid and the number of blocks, `count`; returns the extents as text."""
        texts = []
        for axis, extent in zip("xyz", launch.grid, strict=False):
            constant = int_const(extent)
            if constant is not None:
                texts.append(str(max(constant, 0)))
                continue
            name = self._names.fresh(f"grid_{axis}")
            self._exprs.need("tl_max")
            self._entry.line(f"const int64_t {name} = tl_max<int64_t>({self._exprs.index(extent)}, 0);")
            texts.append(name)
        self._entry.line(f"const int64_t {count} = int64_t({texts[0]}){''.join(f' * {t}' for t in texts[1:])};")
        return texts

    def _run_block(self, name: str, arguments: list[str], arena_bytes: int) -> None:
        """The call of the block program, unless an assertion has failed or an allocation fails."""
        out = self._entry
        if self._may_fail:
            out.line(f"if (__atomic_load_n(&{FAILED}, __ATOMIC_RELAXED) != 0) continue;")
        if arena_bytes:
            self._exprs.need(ARENA_HELPER)
            out.line(f"unsigned char* const {ARENA} = tl_arena({arena_bytes});")
            with out.block(f"if ({ARENA} == nullptr)"):
                self._exprs.need(FAIL)
                out.line(f"tl_fail(&{FAILED}, -1);")
                out.line("continue;")
            arguments = [*arguments, ARENA]
        if self._asserting:
            arguments = [*arguments, f"&{FAILED}"]
        out.line(f"{name}({', '.join(arguments)});")

    def _block_function(self, launch: Launch, name: str, captured: list[Var | Buffer], plan: StoragePlan) -> None:
        out = self._blocks
        parameters = [self._captured_parameter(node) for node in captured]
        parameters += [f"int64_t {self._names.declare(var)}" for var in launch.block_vars]
        if plan.arena_bytes:
            parameters.append(f"unsigned char* {ARENA}")
        if self._asserting:
            parameters.append(f"int32_t* {FAILED}")
        printer = CppStmtPrinter(out, self._exprs, plan=plan, launch=None, asserts=self._asserts)
        with out.block(f"static void {name}({', '.join(parameters)})"):
            printer.body(launch.body)
        out.loc = NOWHERE
        out.line()

    def _captured_parameter(self, node: Var | Buffer) -> str:
        if isinstance(node, Buffer):
            return self._pointer(node)
        return f"{'int64_t' if node.index else CPP.value_type(node.dtype)} {self._names[node]}"


def _is_sized_at_launch(stmt: Stmt) -> bool:
    """Whether a statement allocates memory of the block whose size is only known at the launch."""
    return isinstance(stmt, Alloc) and stmt.buffer.scope.on_chip and stmt.buffer.static_shape is None


def _is_even(launch: Launch) -> bool:
    """Whether blocks take about the same time: trip counts of outer loops do not differ among them."""
    blocks = set(launch.block_vars)
    for stmt in walk(launch.body):
        if isinstance(stmt, While):
            return False
        if isinstance(stmt, For) and any(isinstance(s, For | CallStmt) for s in walk(stmt.body)):
            bounds = (e for bound in (stmt.start, stmt.stop) for e in walk_expr(bound))
            if any(isinstance(e, Load) or isinstance(e, Var) and e in blocks for e in bounds):
                return False
    return True


def _coordinates(block: str, extents: list[str]) -> list[str]:
    """The indices of a block as text, from its linear number; the first dimension of the grid is fastest."""
    texts = []
    rest = block
    for n, extent in enumerate(extents):
        last = n == len(extents) - 1
        texts.append(rest if last else f"{rest} % {extent}")
        rest = f"{block} / {extent}" if n == 0 else f"{rest} / {extent}"
    return texts


def _has_abi_type(param: ScalarParam) -> bool:
    """Whether the type of a scalar in the ABI is its type in expressions."""
    return param.var.index or _abi_type(param) == CPP.value_type(param.dtype)


def _abi_type(param: ScalarParam) -> str:
    dtype: DType = param.dtype
    return "double" if dtype.is_float else "int64_t"


def _captured(launch: Launch, names: Names) -> list[Var | Buffer]:
    """Variables and buffers of the enclosing scope that a block program uses, in order of first use."""
    found: dict[Var | Buffer, None] = {}
    for stmt in walk(launch.body):
        for root in expressions(stmt):
            found.update(dict.fromkeys(_named_in(root)))
        for buffer in _buffers_named(stmt):
            found.update(dict.fromkeys(_named_by(buffer)))
    return [node for node in found if node in names]


def _named_in(root: Expr) -> Iterator[Var | Buffer]:
    """The variables and buffers that an expression needs, in order of first use."""
    for expr in walk_expr(root):
        if isinstance(expr, Var):
            yield expr
        elif isinstance(expr, Load):
            yield from _named_by(expr.buffer)


def _named_by(buffer: Buffer) -> Iterator[Var | Buffer]:
    """A buffer, and what the shape and strides of a tensor need."""
    yield buffer
    if buffer.scope is Scope.GLOBAL:
        for part in (*buffer.shape, *(buffer.strides or ())):
            yield from _named_in(part)


def _buffers_named(stmt: Stmt) -> Iterator[Buffer]:
    match stmt:
        case Store(buffer=buffer) | Atomic(buffer=buffer):
            yield buffer
        case CallStmt(reads=reads, writes=writes):
            yield from (region.buffer for region in (*reads, *writes))
        case Print(operand=Region(buffer=buffer)):
            yield buffer
        case Alloc(buffer=buffer) if buffer.view_of is not None:
            yield buffer.view_of


ARENA_HELPER = Helper(
    "tl_arena",
    f"""\
// Memory for the tiles of one block, kept by each thread between blocks and calls; null if there is none.
static inline unsigned char* tl_arena(size_t bytes) {{
    static thread_local struct Arena {{
        void* data = nullptr;
        size_t size = 0;
        ~Arena() {{ std::free(data); }}
    }} arena;
    if (arena.size < bytes) {{
        std::free(arena.data);
        arena.data = std::aligned_alloc({_CACHE_LINE_BYTES}, bytes);
        arena.size = arena.data == nullptr ? 0 : bytes;
    }}
    return (unsigned char*)arena.data;
}}
""",
    headers=("<cstdlib>",),
)
