"""Prints a thread-level function as CUDA C++: one kernel per launch, each the program of one thread.

Takes a `PrimFunc`, gives a `Source`; what the text has in common with that for other GPUs is printed by
`targets.gpu.codegen.program`. The text needs no header, unless code of the user does.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from tilelang.codegen.emitter import Emitter
from tilelang.codegen.host_expr import python_text
from tilelang.codegen.source import DeviceLaunch, KernelArgument, Source, TensorMapText
from tilelang.errors import CompilerBug
from tilelang.ir.buffer import Buffer
from tilelang.ir.callee import Routine
from tilelang.ir.expr import Var
from tilelang.ir.func import PrimFunc, ScalarParam, TensorParam
from tilelang.ir.launch import LaunchPlan, TensorMap
from tilelang.ir.stmt import CallStmt, Launch
from tilelang.ir.visit import walk, walk_expr
from tilelang.targets.gpu.codegen.program import ThreadProgram, instructions_of
from tilelang.targets.gpu.codegen.statements import ARENA
from tilelang.targets.nvidia.codegen.cuda_dialect import CUDA, RESERVED
from tilelang.targets.nvidia.codegen.cuda_headers import needed_headers
from tilelang.targets.nvidia.codegen.cuda_stmt import CudaStmtPrinter
from tilelang.targets.nvidia.isa.dependent_launch import GRID_DEPENDENCY_WAIT
from tilelang.targets.nvidia.isa.extern import is_user_code
from tilelang.targets.nvidia.isa.source_kernel import SourceKernel
from tilelang.targets.nvidia.isa.tma import TENSOR_MAP
from tilelang.targets.nvidia.isa.types import INTEGERS
from tilelang.targets.nvidia.machines import MAX_GRID


def emit(func: PrimFunc) -> Source:
    """The function as CUDA source.

    Raises:
        CompilerBug: The function holds something that earlier passes should have removed.
    """
    return _Program(func).source()


class _Program(ThreadProgram):
    """The source under construction."""

    dialect = CUDA
    words = RESERVED
    integers = INTEGERS
    max_grid = MAX_GRID

    def _declare_parameters(self) -> None:
        super()._declare_parameters()
        for stmt in walk(self._func.body):
            if isinstance(stmt, CallStmt) and isinstance(stmt.routine, SourceKernel):
                self._names.fresh_everywhere(stmt.routine.entry)  # so that no kernel of ours gets that name

    def _launch(self, launch: Launch) -> None:
        source = next((s.routine for s in walk(launch.body) if isinstance(s, CallStmt)), None)
        if isinstance(source, SourceKernel):
            self._users.update(dict.fromkeys(launch.hints.sources))
            self._source_launch(launch, source)
        else:
            super()._launch(launch)

    def _source_launch(self, launch: Launch, source: SourceKernel) -> None:
        """A launch of the user's own kernel: with all tensors, and the sizes that the grid and the shapes name."""
        self._users[source.text] = None
        tensors = [(i, param) for i, param in enumerate(self._func.params) if isinstance(param, TensorParam)]
        arguments = [KernelArgument("tensor", index, "void*") for index, _ in tensors]
        extents = [*launch.grid, *(extent for _, param in tensors for extent in param.shape)]
        argument_of = {p.var: ("scalar", i) for i, p in enumerate(self._func.params) if isinstance(p, ScalarParam)}
        argument_of.update({symbol: ("symbol", i) for i, symbol in enumerate(self._func.symbols)})
        for var in dict.fromkeys(node for extent in extents for node in walk_expr(extent) if isinstance(node, Var)):
            kind, index = argument_of[var]
            ctype = f"{var.dtype!s}_t" if var.dtype.is_int else self._exprs.value_type(var.dtype)
            arguments.append(KernelArgument(kind, index, ctype))
        cluster = launch.hints.cluster
        grid = tuple(python_text(extent) for extent in launch.grid)
        self._launches.append(DeviceLaunch(source.entry, grid, launch.threads, 0, cluster, tuple(arguments)))

    def _traits(self, launch: Launch) -> str:
        bounds = f"{launch.num_threads}" + (f", {m}" if (m := launch.hints.min_blocks_per_sm) else "")
        cluster = launch.hints.cluster
        return f"__launch_bounds__({bounds})" + (f" __cluster_dims__{cluster}" if cluster != (1, 1, 1) else "")

    def _arena(self, plan: LaunchPlan) -> str:
        return f"extern __shared__ __align__(1024) unsigned char {ARENA}[];"

    def _dynamic_bytes(self, plan: LaunchPlan) -> int:
        return plan.shared_bytes

    def _block_index(self, axis: str) -> str:
        return f"blockIdx.{axis}"

    def _thread_index(self, axis: str) -> str:
        return f"threadIdx.{axis}"

    def _statements(self, out: Emitter, launch: Launch, written: Set[Buffer]) -> CudaStmtPrinter:
        return CudaStmtPrinter(out, self._exprs, launch, written, self._asserts)

    def _preamble(self, user_text: str) -> list[str]:
        headers = needed_headers(user_text)
        return [*(f"#include <{header}>" for header in headers), *([""] if headers else [])]

    def _is_user_code(self, routine: Routine) -> bool:
        return is_user_code(routine)

    def _is_early(self, launch: Launch) -> bool:
        return GRID_DEPENDENCY_WAIT in instructions_of(launch)

    def _first_parameters(self, launch: Launch, used: Set[Var | Buffer]) -> tuple[list[str], list[KernelArgument]]:
        names = [self._names[tensor_map.var] for tensor_map in _used_maps(launch, used)]
        texts = [f"const __grid_constant__ {TENSOR_MAP.name} {name}" for name in names]
        return texts, [KernelArgument("tensor_map", index, TENSOR_MAP.name) for index in range(len(names))]

    def _tensor_maps(self, launch: Launch, used: Set[Var | Buffer]) -> tuple[TensorMapText, ...]:
        return tuple(map(self._map_text, _used_maps(launch, used)))

    def _map_text(self, tensor_map: TensorMap) -> TensorMapText:
        """The record of a tensor map for the host."""
        tensors = [param.buffer if isinstance(param, TensorParam) else None for param in self._func.params]
        tensors += self._workspaces
        if tensor_map.tensor.storage not in tensors:
            raise CompilerBug(f"codegen: the map of '{tensor_map.tensor.name}', no parameter and no workspace")
        return TensorMapText(
            tensors.index(tensor_map.tensor.storage),
            tensor_map.tensor.dtype,
            tuple(map(python_text, tensor_map.dims)),
            tuple(map(python_text, tensor_map.strides)),
            tensor_map.box,
            tensor_map.swizzle,
            tensor_map.pixels,
            tensor_map.rounds,
        )


def _used_maps(launch: Launch, used: Set[Var | Buffer]) -> Sequence[TensorMap]:
    return [tensor_map for tensor_map in launch.plan.tensor_maps if tensor_map.var in used]
