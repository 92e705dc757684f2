"""Prints a thread-level function as CUDA C++: one kernel per launch, each the program of one thread.

Takes a `PrimFunc` whose shared buffers have places (`Launch.plan`) and no more than one index; gives a `Source` that a
person can read: the user's names, and the user's source line above the code it became. The text needs no header. What
the host does (grids, workspaces, arguments in order) stands in `Source.launches` and `Source.workspaces`.

Index arithmetic is `int` where that is proven to suffice. Sums of products of float32 and float64 may be contracted
into fused operations, which round once where the language rounds twice; narrower floats round after each operation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager

from tilelang.analysis.tensor_map_stores import stored_by_tensor_maps
from tilelang.arith.domain import of_calls
from tilelang.codegen.c_expr import ExprPrinter
from tilelang.codegen.c_stmt import users_line
from tilelang.codegen.dialect import is_packed
from tilelang.codegen.emitter import Emitter
from tilelang.codegen.host_expr import python_text
from tilelang.codegen.index_types import ProvenIndexTypes
from tilelang.codegen.names import CUDA_RESERVED, Names, identifier
from tilelang.codegen.source import DeviceLaunch, KernelArgument, Source, TensorMapText
from tilelang.errors import NOWHERE, CompilerBug, Loc
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Expr, Var, as_expr
from tilelang.ir.func import Level, PrimFunc, ScalarParam, TensorParam
from tilelang.ir.launch import TensorMap
from tilelang.ir.specialization import INDEX_BITS
from tilelang.ir.stmt import Alloc, Assert, CallStmt, Launch, Seq, Stmt
from tilelang.ir.visit import walk, walk_expr, written_buffers
from tilelang.isa.instruction import Effect, Instruction
from tilelang.isa.intrinsic import ordered_helpers
from tilelang.targets.nvidia.codegen.cuda_headers import needed_headers
from tilelang.targets.nvidia.codegen.cuda_stmt import ARENA, FAILED, CudaStmtPrinter, pointer_type
from tilelang.targets.nvidia.codegen.cuda_types import CUDA
from tilelang.targets.nvidia.isa.dependent_launch import GRID_DEPENDENCY_WAIT
from tilelang.targets.nvidia.isa.extern import is_foreign
from tilelang.targets.nvidia.isa.source_kernel import SourceKernel
from tilelang.targets.nvidia.isa.tma import TENSOR_MAP
from tilelang.targets.nvidia.isa.types import INTEGERS
from tilelang.targets.nvidia.machines import MAX_GRID

_LINE_LENGTH = 120
_FIXED_WIDTH = re.compile(r"\bu?int(8|16|32|64)_t\b")


def emit(func: PrimFunc) -> Source:
    """The function as CUDA source.

    Raises:
        CompilerBug: The function holds something that earlier passes should have removed.
    """
    if func.level is not Level.THREAD:
        raise CompilerBug(f"codegen: {func.name!r} is at {func.level.value} level")
    return _Program(func).source()


class _Program:
    """The source under construction: kernels one after another."""

    def __init__(self, func: PrimFunc) -> None:
        self._func = func
        self._names = Names(CUDA_RESERVED)
        self._types = ProvenIndexTypes(of_calls(func), wide=dict(func.attributes).get(INDEX_BITS) == 64)
        self._exprs = ExprPrinter(self._names, CUDA, self._types)
        self._out = Emitter()
        self._asserts: list[tuple[str, Loc]] = []
        self._workspaces: list[Buffer] = []
        self._launches: list[DeviceLaunch] = []
        self._users: dict[str, None] = {}  # the user's own C++, each text once

    def source(self) -> Source:
        """Everything, put together."""
        self._declare_parameters()
        for stmt in walk(self._func.body):
            if isinstance(stmt, CallStmt) and isinstance(stmt.routine, SourceKernel):
                self._names.fresh_everywhere(stmt.routine.entry)  # so that no kernel of ours gets that name
        for stmt in _top_level(self._func.body):
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
        if _FIXED_WIDTH.search(kernels):
            helpers.insert(0, INTEGERS)
        called = (stmt.routine for stmt in walk(self._func.body) if isinstance(stmt, CallStmt))
        foreign = bool(self._users) or any(map(is_foreign, called))
        headers = needed_headers("\n".join([*self._users, kernels])) if foreign else ()
        parts = [*(f"#include <{header}>" for header in headers), *([""] if headers else [])]
        for helper in ordered_helpers(helpers):
            parts += [helper.text.rstrip("\n"), ""]
        for text in self._users:
            parts += [text.rstrip("\n"), ""]
        text, lines = self._out.finish("\n".join(parts) + "\n" if parts else "")
        sizes = tuple(_bytes_text(buffer) for buffer in self._workspaces)
        name = self._launches[0].name if self._launches else identifier(self._func.name, CUDA_RESERVED)
        return Source(
            "cuda",
            text,
            name,
            lines,
            tuple(self._asserts),
            launches=tuple(self._launches),
            workspaces=sizes,
            foreign=foreign,
        )

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
        source = next((s.routine for s in walk(launch.body) if isinstance(s, CallStmt)), None)
        if isinstance(source, SourceKernel):
            self._source_launch(launch, source)
            return
        name = self._names.fresh_everywhere(f"{identifier(self._func.name).rstrip('_')}_kernel")
        written = {buffer.storage for stmt in walk(launch.body) for buffer in written_buffers(stmt)}
        written |= {buffer.storage for buffer in stored_by_tensor_maps(launch)}
        body, head = Emitter(), Emitter()
        failing = any(isinstance(stmt, Assert) for stmt in walk(launch.body))
        early = GRID_DEPENDENCY_WAIT in _instructions(launch)
        with self._names.scope(), self._types.scope():
            self._learn(launch)
            for var in _indices(launch):
                self._names.declare(var)
                self._types.declare(var)
            for tensor_map in launch.plan.tensor_maps:
                self._names.declare(tensor_map.var)
            renamed = {p: self._names.fresh(f"{self._names[p.var]}_arg") for p in self._converted()}
            self._names.used.clear()
            CudaStmtPrinter(body, self._exprs, launch.plan, written, self._asserts).body(launch.body)
            used = set(self._names.used)
            head.loc = launch.loc
            self._prologue(launch, head, used, renamed)
            maps = [m for m in launch.plan.tensor_maps if m.var in used]
            parameters, arguments = self._signature(used, written, renamed, maps, failing, early)
        if self._launches:
            self._out.line()
        self._out.loc = launch.loc
        if launch.loc.file:
            self._out.line(users_line(launch.loc))
        bounds = f"{launch.num_threads}" + (f", {m}" if (m := launch.hints.min_blocks_per_sm) else "")
        cluster = launch.hints.cluster
        traits = f"__launch_bounds__({bounds})"
        if cluster != (1, 1, 1):
            traits += f" __cluster_dims__{cluster}"
        with self._open(f'extern "C" __global__ void {traits} {name}', parameters):
            self._out.include(head)
            self._out.include(body)
        self._out.loc = NOWHERE
        self._launches.append(
            DeviceLaunch(
                name,
                tuple(python_text(extent) for extent in launch.grid),
                launch.threads,
                launch.plan.shared_bytes,
                (cluster[0], cluster[1], cluster[2]),
                tuple(arguments),
                tensor_maps=tuple(map(self._map_text, maps)),
                cooperative=any(Effect.SYNC_GRID in instruction.effect for instruction in _instructions(launch)),
                early=early,
                shared_text=python_text(dynamic) if (dynamic := launch.plan.dynamic_shared_bytes) is not None else "",
                fragments=tuple(
                    (buffer.name, layout.values * buffer.dtype.storage_bytes)
                    for buffer, layout in launch.plan.fragments
                ),
            )
        )

    def _source_launch(self, launch: Launch, source: SourceKernel) -> None:
        """A launch of the user's own kernel: with all tensors, and the sizes that the grid and the shapes name."""
        self._users[source.text] = None
        tensors = [(i, param) for i, param in enumerate(self._func.params) if isinstance(param, TensorParam)]
        arguments = [KernelArgument("tensor", index, "void*") for index, _ in tensors]
        extents = [*launch.grid, *(extent for _, param in tensors for extent in param.shape)]
        known = {p.var: ("scalar", i) for i, p in enumerate(self._func.params) if isinstance(p, ScalarParam)}
        known.update({symbol: ("symbol", i) for i, symbol in enumerate(self._func.symbols)})
        for var in dict.fromkeys(node for extent in extents for node in walk_expr(extent) if isinstance(node, Var)):
            kind, index = known[var]
            ctype = f"{var.dtype!s}_t" if var.dtype.is_int else self._exprs.value_type(var.dtype)
            arguments.append(KernelArgument(kind, index, ctype))
        cluster = launch.hints.cluster
        grid = tuple(python_text(extent) for extent in launch.grid)
        self._launches.append(DeviceLaunch(source.entry, grid, launch.threads, 0, cluster, tuple(arguments)))

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
        """What holds of the indices of blocks and threads."""
        domain = self._types.domain
        for var, extent, most in zip(launch.block_vars, launch.grid, MAX_GRID, strict=False):
            domain = domain.with_loop(var, 0, extent).with_range(var, 0, most - 1)
        if launch.thread is not None:
            domain = domain.with_range(launch.thread, 0, launch.num_threads - 1)
        self._types.learn(domain)

    def _prologue(self, launch: Launch, out: Emitter, used: Set[Var | Buffer], renamed: dict[ScalarParam, str]) -> None:
        """Shared memory, indices of blocks and threads, and parameters that arrive in another form."""
        shared = {buffer for buffer, _ in (*launch.plan.shared_offsets, *launch.plan.dynamic_shared_offsets)}
        if any(isinstance(s, Alloc) and s.buffer in shared for s in walk(launch.body)):
            out.line(f"extern __shared__ __align__(1024) unsigned char {ARENA}[];")
        for var, axis in zip(launch.block_vars, "xyz", strict=False):
            if var in used:
                out.line(f"const int {self._names[var]} = blockIdx.{axis};")
        if launch.thread in used and launch.thread is not None:
            out.line(f"const int {self._names[launch.thread]} = {_linear_thread(launch.threads)};")
        for param, argument in renamed.items():
            if param.var in used:
                kind = self._exprs.value_type(param.dtype)
                text = self._exprs.rounded(argument, param.dtype)
                out.line(f"const {kind} {self._names[param.var]} = {text};")

    def _signature(
        self,
        used: Set[Var | Buffer],
        written: Set[Buffer],
        renamed: dict[ScalarParam, str],
        maps: Sequence[TensorMap],
        failing: bool,
        early: bool,
    ) -> tuple[list[str], list[KernelArgument]]:
        """The kernel's parameters, and how the host fills them; only those that the body uses."""
        texts: list[str] = []
        arguments: list[KernelArgument] = []

        def add(text: str, kind: str, index: int, ctype: str) -> None:
            texts.append(text)
            arguments.append(KernelArgument(kind, index, ctype))

        for index, tensor_map in enumerate(maps):
            name = self._names[tensor_map.var]
            add(f"const __grid_constant__ {TENSOR_MAP.name} {name}", "tensor_map", index, TENSOR_MAP.name)
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

    def _map_text(self, tensor_map: TensorMap) -> TensorMapText:
        """The record of a tensor map for the host."""
        tensors = [param.buffer if isinstance(param, TensorParam) else None for param in self._func.params]
        if tensor_map.tensor.storage not in tensors:
            raise CompilerBug(f"codegen: the map of '{tensor_map.tensor.name}', which is no parameter")
        return TensorMapText(
            tensors.index(tensor_map.tensor.storage),
            tensor_map.tensor.dtype,
            tuple(map(python_text, tensor_map.dims)),
            tuple(map(python_text, tensor_map.strides)),
            tensor_map.box,
            tensor_map.swizzle,
            tensor_map.pixels,
        )

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


def _top_level(body: Stmt) -> Iterator[Stmt]:
    if isinstance(body, Seq):
        for child in body.body:
            yield from _top_level(child)
    else:
        yield body


def _indices(launch: Launch) -> tuple[Var, ...]:
    return launch.block_vars if launch.thread is None else (*launch.block_vars, launch.thread)


def _instructions(launch: Launch) -> Iterator[Instruction]:
    for stmt in walk(launch.body):
        if isinstance(stmt, CallStmt) and isinstance(stmt.routine, Instruction):
            yield stmt.routine


def _linear_thread(threads: tuple[int, int, int]) -> str:
    """The number of a thread in its block, x running fastest."""
    x, y, z = threads
    if z > 1:
        return f"threadIdx.x + {x} * (threadIdx.y + {y} * threadIdx.z)"
    return f"threadIdx.x + {x} * threadIdx.y" if y > 1 else "threadIdx.x"


def _bytes_text(buffer: Buffer) -> str:
    size: Expr = as_expr(buffer.dtype.storage_bytes)
    for extent in buffer.shape:
        size = size * extent
    return python_text(size)
