"""Lowers a graph to the text of a Level 2 module, and records the decisions."""

from __future__ import annotations

import dataclasses
import keyword
from collections.abc import Sequence
from typing import overload

from tilelang.dtypes import INT32
from tilelang.errors import TuningError
from tilelang.ir.expr import Load, Var
from tilelang.ir.print_expr import ExprPrinter
from tilelang.level1.aligned_operands import with_aligned_operands
from tilelang.level1.canonical_masks import with_canonical_masks
from tilelang.level1.chunk_sequences import with_chunked_sequences
from tilelang.level1.collapse_axes import Reshapes, with_collapsed_axes
from tilelang.level1.deduplicate import without_duplicates
from tilelang.level1.fuse import fused_kernels
from tilelang.level1.fused import FusedKernel
from tilelang.level1.gemv_as_gemm import with_gemv_as_gemm
from tilelang.level1.graph import Array, Graph, Map, Parameter, Reshaped, axes_for, define, element
from tilelang.level1.kept_rows import kept_rows
from tilelang.level1.kernel_text import kernel_text
from tilelang.level1.launch_text import INDENT
from tilelang.level1.line_wrap import wrapped
from tilelang.level1.placement import Placement, Tiling, place_axes
from tilelang.level1.recompute import products_to_store
from tilelang.level1.shifted_sums import with_shifted_sums
from tilelang.level1.split import can_split, split
from tilelang.level1.strength_reduction import with_reduced_strength
from tilelang.level1.tile_list_text import list_workspaces, listing_lines
from tilelang.level1.tiles import split_count, tilings_of
from tilelang.level1.visited_tiles import VisitedTiles, with_visited_tiles
from tilelang.records import record
from tilelang.targets.target import Target


@record(eq=False)
class Lowered(Sequence[FusedKernel]):
    """A computation as a Level 2 program: a sequence of kernels, and the memory between them.

    Attributes:
        text: The source of a Python module.
        entry: The name in it of the function that makes the kernel: `tilelang.jit`, without required arguments. The
            kernel takes the parameters of the graph and returns its results, all in order.
        kernels: The kernels, in the order in which they run.
        tilings: How each of them is divided.
        choices: The ways in which each of them can be divided, the one that is expected to be fastest first.
        visited: For each kernel whose loop visits only some tiles, which; another kernel before it lists them.
        kept: For each kernel, the loads of which blocks keep whole rows in shared memory.
        memory: The arrays that pass from one kernel to another through memory.
        parts: The programs between calls of Level 2 kernels, which `entry` takes as arguments then; empty without.
    """

    text: str
    entry: str
    kernels: Sequence[FusedKernel]
    tilings: Sequence[Tiling]
    choices: Sequence[Sequence[Tiling]]
    visited: Sequence[VisitedTiles | None]
    kept: Sequence[Sequence[Load]]
    memory: Sequence[Array]
    parts: Sequence[Lowered] = ()

    def __len__(self) -> int:
        return len(self.kernels)

    @overload
    def __getitem__(self, place: int) -> FusedKernel: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[FusedKernel]: ...

    def __getitem__(self, place: int | slice) -> FusedKernel | Sequence[FusedKernel]:
        return self.kernels[place]


def lower(
    graph: Graph, target: Target, *, execution_backend: str | None = None, tilings: Sequence[str] = ()
) -> Lowered:
    """The Level 2 program of a graph.

    Args:
        graph: The computation.
        target: What it is for; its tiles are chosen for the machine.
        execution_backend: How the program runs, as for `tilelang.jit`.
        tilings: The text of a tiling for each kernel, instead of the one that is expected to be fastest.

    Raises:
        TuningError: A kernel has no such tiling.
    """
    graph = without_duplicates(with_chunked_sequences(without_duplicates(graph), target))
    graph = _with_distinct_results(graph)
    graph, kernels = _kernels(graph, target)
    reshapes = Reshapes()
    kernels = [with_collapsed_axes(kernel, reshapes) for kernel in kernels]
    choices = [tilings_of(kernel, target, alone=len(kernels) == 1) for kernel in kernels]
    chosen = _chosen(graph.name, choices, tilings)
    results = set(graph.results)
    memory = [output.array for kernel in kernels for output in kernel.outputs if output.array not in results]
    kernels = [
        kernel if kept_rows(kernel, tiling, target) else with_shifted_sums(kernel, tiling)
        for kernel, tiling in zip(kernels, chosen, strict=True)
    ]
    placements = [place_axes(kernel, tiling) for kernel, tiling in zip(kernels, chosen, strict=True)]
    listed = list(map(with_visited_tiles, kernels, chosen, placements))
    kernels, visited = [kernel for kernel, _ in listed], [tiles for _, tiles in listed]
    kept = [kept_rows(kernel, tiling, target) for kernel, tiling in zip(kernels, chosen, strict=True)]
    made = Lowered("", graph.name, kernels, chosen, choices, visited, kept, memory)
    return dataclasses.replace(made, text=_module_text(graph, made, placements, target, execution_backend))


def _chosen(name: str, choices: Sequence[Sequence[Tiling]], texts: Sequence[str]) -> list[Tiling]:
    """The tiling of each kernel: the best one, or those with given texts."""
    if not texts:
        return [tilings[0] for tilings in choices]
    by_text = [{str(tiling): tiling for tiling in tilings} for tilings in choices]
    if len(texts) != len(choices) or any(text not in own for text, own in zip(texts, by_text, strict=True)):
        listed, kernels = "; ".join(texts), "kernel" if len(choices) == 1 else "kernels"
        raise TuningError(
            f"{name}: its {len(choices)} {kernels} cannot be divided as the decision says: {listed}",
            hint=f"tune it again and export: {name}.tune(...)",
        )
    return [own[text] for text, own in zip(texts, by_text, strict=True)]


def _kernels(graph: Graph, target: Target) -> tuple[Graph, list[FusedKernel]]:
    """The kernels of a graph, which is rewritten where operands are aligned or reductions split."""
    materialized: list[Array] = []
    stored: list[Array] = []  # besides those, products that would be computed again
    if target.is_gpu:
        graph, materialized = with_aligned_operands(graph, fused_kernels(graph))
    while True:
        fused = fused_kernels(graph, [*materialized, *stored])
        kernels = [with_reduced_strength(with_canonical_masks(each)) for each in fused]
        repeated = [array for kernel in kernels for array in products_to_store(kernel, target)]
        if repeated:
            stored += repeated
            continue
        for kernel in kernels:
            parts = split_count(kernel, target, alone=len(kernels) == 1)
            if not any(output.array in materialized for output in kernel.outputs) and can_split(kernel, parts):
                made = split(graph, kernel, parts)
                graph, materialized = made.graph, [*materialized, *made.partial]
                break
        else:
            return graph, [with_gemv_as_gemm(kernel, target) for kernel in kernels]


def _with_distinct_results(graph: Graph) -> Graph:
    """The graph with copies of results that are parameters, or come twice."""
    results: list[Array] = []
    for array in graph.results:
        if isinstance(array.definition, Parameter) or array in results:
            axes = axes_for(array.shape)
            array = define(array.name, array.shape, array.dtype, Map(axes, element(array, axes)),
                           stored_dtype=array.stored_dtype, loc=array.loc)  # fmt: skip
        results.append(array)
    return dataclasses.replace(graph, results=tuple(results))


def _module_text(
    graph: Graph,
    lowered: Lowered,
    placements: Sequence[Placement],
    target: Target,
    execution_backend: str | None,
) -> str:
    kernels, tilings = lowered.kernels, lowered.tilings
    names = ExprPrinter()
    for word in ("T", "tilelang", "main", graph.name, *keyword.kwlist):
        names.name(Var(word, INT32))
    symbols = [f'{names.name(symbol)} = T.dynamic("{symbol.name}")' for symbol in graph.symbols]
    arrays = (*graph.parameters, *graph.results)
    tensors = [f"{names.name(array)}: {_tensor(array, names, 'Tensor')}" for array in arrays]
    conditions = dict.fromkeys(f"T.assume({names.expr(each.extent)} >= {each.least})" for each in graph.required)
    workspaces = [f"{names.name(array)} = {_tensor(array, names, 'alloc_global')}" for array in lowered.memory]
    workspaces += [_reshape(array, names) for array in _reshaped_arrays(kernels)]
    blocks = [
        f"{names.name(placement.block_names[axis])}={size}"
        for placement, tiling in zip(placements, tilings, strict=True)
        for axis, size in tiling.blocks.items()
    ]
    body: list[str] = []
    parts = zip(kernels, tilings, placements, lowered.visited, lowered.kept, strict=True)
    for kernel, tiling, placement, tiles, kept in parts:
        if tiles is not None:
            workspaces += list_workspaces(tiles, placement, names)
            body += listing_lines(tiles, kernel, placement, names)
        body += kernel_text(kernel, tiling, placement, names, tiles, kept)
    results = list(range(len(graph.parameters), len(graph.parameters) + len(graph.results)))
    options = [f"out_idx={results}", f'target="{target.kind!s}"']
    options += [f'execution_backend="{execution_backend}"'] if execution_backend else []
    pass_configs = {name: value for tiling in tilings for name, value in tiling.pass_configs.items()}
    options += [f"pass_configs={pass_configs}"] if pass_configs else []
    lines = wrapped(
        [
            f"@tilelang.jit({', '.join(options)})",
            f"def {graph.name}({', '.join(blocks)}):",
            *(INDENT + line for line in symbols),
            *([""] if symbols else []),
            f"{INDENT}@T.prim_func",
            f"{INDENT}def main(",
            *(f"{INDENT * 2}{tensor}," for tensor in tensors),
            f"{INDENT}):",
            *(INDENT * 2 + line for line in (*conditions, *workspaces, *body) or ["pass"]),
            "",
            f"{INDENT}return main",
            "",
        ]
    )
    return module_header(graph.name) + "\n".join(lines)


def module_header(name: str) -> str:
    """What a module begins with."""
    return (
        f'"""{name}: a Level 2 program, written by tilelang.compute."""\n\n'
        "import tilelang\nimport tilelang.language as T\n\n\n"
    )


def _reshaped_arrays(kernels: Sequence[FusedKernel]) -> list[Array]:
    """The reshaped arrays that kernels read; an array comes before reshapes of it."""
    found: dict[Array, None] = {}
    for kernel in kernels:
        for load in kernel.loads:
            chain = [load.buffer]
            while isinstance(array := chain[-1], Array) and isinstance(array.definition, Reshaped):
                chain.append(array.definition.source)
            found.update(dict.fromkeys(chain[-2::-1]))  # type: ignore[arg-type]
    return list(found)


def _reshape(array: Array, names: ExprPrinter) -> str:
    assert isinstance(array.definition, Reshaped)
    return f"{names.name(array)} = T.reshape({names.name(array.definition.source)}, {names.items(array.shape)})"


def _tensor(array: Array, names: ExprPrinter, kind: str) -> str:
    return f'T.{kind}({names.items(array.shape)}, "{array.stored_dtype!s}")'
