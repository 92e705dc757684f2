"""Describes what the compiler decided for a computation: kernels, what is fused in each, tiles, bytes."""

from __future__ import annotations

from collections.abc import Iterable

from tilelang.ir.expr import Expr, Load, Var, int_const
from tilelang.ir.visit import loads_of
from tilelang.language.extents import folded, product, shape_text, text
from tilelang.level1.contraction import contraction
from tilelang.level1.fused import FusedKernel, FusedReduction
from tilelang.level1.graph import Array
from tilelang.level1.lower import Lowered
from tilelang.level1.placement import Tiling
from tilelang.level1.visited_tiles import VisitedTiles
from tilelang.options import PassConfigKey
from tilelang.performance.prediction import Prediction


def explain(lowered: Lowered, prediction: Prediction | None = None) -> str:
    """A paragraph for each kernel, and what passes between them through memory.

    Args:
        lowered: The program.
        prediction: Its time, where there is one.
    """
    count = len(lowered.kernels)
    time = f", {prediction}" if prediction is not None else ""
    lines = [f"{lowered.entry}: {count} kernel{'s' * (count != 1)}{time}"]
    if prediction is not None and prediction.data_sheet:
        device = prediction.data_sheet
        lines.append(f"    (by the data sheet of {device}: no rates of such a machine have been measured)")
    launches = list(prediction.launches) if prediction is not None else []
    known = len(launches) == count + sum(tiles is not None for tiles in lowered.visited)
    parts = zip(lowered.kernels, lowered.tilings, lowered.visited, lowered.kept, strict=True)
    for number, (kernel, tiling, tiles, kept) in enumerate(parts, 1):
        lines.append(f"kernel {number} stores {_listed(_array_text(output.array) for output in kernel.outputs)}")
        lines += [f"    {line}" for line in _kernel_lines(kernel, tiling)]
        if kept:
            rows = _listed(load.buffer.name for load in kept)
            lines.append(f"    keeps rows of {rows} in shared memory for all passes")
        if tiles is not None:
            lines += _mask_lines(tiles)
        if known:
            lines += [f"    {launches.pop(0)}" for _ in range(1 if tiles is None else 2)]
    if lowered.memory:
        lines.append(f"through memory from kernel to kernel: {_listed(_array_text(array) for array in lowered.memory)}")
    return "\n".join(lines)


def _kernel_lines(kernel: FusedKernel, tiling: Tiling) -> list[str]:
    lines = [_reduction_text(reduction) for reduction in kernel.reductions]
    for output in kernel.outputs:
        if output.along is not None:
            lines.append(f"{output.array.name} = {type(output.definition).__name__.lower()} along {output.along.name}")
    blocks = f"of {tiling.threads} threads"
    grid = _listed(_axis_text(kernel, axis, tiling) for axis in kernel.grid)
    lines.append(f"blocks {blocks} over {grid}" if grid else f"one block {blocks}")
    if kernel.streamed:
        axes = _listed(_axis_text(kernel, axis, tiling) for axis in kernel.streamed)
        flight = f", {tiling.stages} tiles in flight" if tiling.stages > 1 else ""
        kept = _listed(reduction.array.name for reduction in kernel.accumulated)
        lines.append(f"each goes through {axes}{flight}; on chip stay {kept}")
    lines += _sharing_lines(tiling)
    lines.append(f"reads {_listed(_array_text(array) for array in _read(kernel)) or 'nothing'}")
    return lines


def _mask_lines(tiles: VisitedTiles) -> list[str]:
    read = _listed(dict.fromkeys(load.buffer.name for load in loads_of(tiles.condition)))
    mask = f"the mask by {read}" if read else "the mask"
    return [
        f"    a kernel before it lists the tiles of {tiles.axis.name} of which {mask} leaves something; "
        "it skips the others, and does not mask those that are left whole"
    ]


def _sharing_lines(tiling: Tiling) -> list[str]:
    """How several blocks share tiles, or what they load."""
    lines = []
    parts, split, cluster = (
        tiling.pass_configs.get(key.value)
        for key in (PassConfigKey.TL_WORKSPACE_SPLIT, PassConfigKey.TL_SPLIT, PassConfigKey.TL_CLUSTER)
    )
    if parts is not None:
        lines.append(f"{parts} blocks for each tile sum a part each, since tiles are few; a second launch adds them up")
    if split is not None:
        lines.append(f"{split} blocks of a cluster for each tile sum a part each, since tiles are few")
    if isinstance(cluster, tuple):
        lines.append(f"clusters of {' x '.join(map(str, cluster))} blocks share what they load")
    return lines


def _reduction_text(reduction: FusedReduction) -> str:
    over = _listed(axis.name for axis in reduction.reduced)
    unit = " as a matrix product" if contraction(reduction) is not None else ""
    place = f" ({reduction.array.loc})" if reduction.array.loc.file else ""
    return f"{reduction.array.name} = {reduction.combiner.value} over {over}{unit}{place}"


def _axis_text(kernel: FusedKernel, axis: Var, tiling: Tiling) -> str:
    tiles = f" in tiles of {tiling.blocks[axis]}" if axis in tiling.blocks else ""
    return f"{axis.name} ({text(kernel.extents[axis])}{tiles})"


def _read(kernel: FusedKernel) -> list[Array]:
    """The arrays that a kernel reads from memory, each once."""
    bodies: list[Expr] = [*(r.body for r in kernel.reductions), *(output.body for output in kernel.outputs)]
    loads: Iterable[Load] = (load for body in bodies for load in loads_of(body))
    found = dict.fromkeys(load.buffer for load in loads)
    return [array for array in found if isinstance(array, Array) and array not in kernel.by_array]


def _array_text(array: Array) -> str:
    size = int_const(folded(product(array.shape)))
    amount = f", {size * array.stored_dtype.bytes:,} bytes" if size is not None else ""
    return f"{array.name} ({array.stored_dtype!s} {shape_text(array.shape)}{amount})"


def _listed(parts: Iterable[str]) -> str:
    return ", ".join(parts)
