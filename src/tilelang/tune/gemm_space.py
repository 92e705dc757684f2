"""Configurations for tiled gemms: tile sizes, stages, threads and schedules.

Ordered by a simple cost model, best first. Invariant: each gives the requested tunables and no others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tilelang.api import public
from tilelang.errors import OptionError
from tilelang.targets.gemm_tile import GemmTile
from tilelang.targets.target import Target, TargetLike, parse_target
from tilelang.tune.subject import PASS_CONFIGS, Subject

_FEWEST_SHARED = 4  # least K steps of a block that shares a tile; with fewer, synchronization dominates

NAMES = ("block_M", "block_N", "block_K", "num_stages", "threads")


@public
def gemm_configs(
    tunables: Sequence[str] = NAMES,
    target: TargetLike = "auto",
    M: int | None = None,
    N: int | None = None,
    K: int | None = None,
    block_M: int | None = None,
    block_N: int | None = None,
    block_K: int | None = None,
) -> list[dict[str, Any]]:
    """Configurations of a tiled matrix product, for `tilelang.autotune(configs=gemm_configs)`.

    Args:
        tunables: Which of `block_M`, `block_N`, `block_K`, `num_stages` and `threads` to give.
        target: What kernels are compiled for; on Hopper configurations also say how warps share the work.
        M: Rows of the result, if known.
        N: Columns of the result, if known.
        K: Length of the sums, if known.
        block_M: The tile's rows, if they are not tuned.
        block_N: The tile's columns, if they are not tuned.
        block_K: The tile's depth, if it is not tuned.
    """
    if not any(name in NAMES for name in tunables):
        return [{}]
    target = parse_target(target)
    shapes = list(target.family.gemm_tiles(target.machine, M))
    given = {"block_M": block_M, "block_N": block_N, "block_K": block_K}
    wanted = {name: value for name, value in given.items() if value is not None and name not in tunables}
    shapes = [s for s in shapes if all(getattr(s, name) == value for name, value in wanted.items())] or shapes
    if isinstance(M, int):
        shapes = _not_too_large(shapes, "block_M", M)
    if isinstance(N, int):
        shapes = _not_too_large(shapes, "block_N", N)
    if isinstance(M, int) and isinstance(N, int) and isinstance(K, int):
        processors = _processors(target)
        shapes = [shape for shape in shapes if shape.split == 1 or _is_shared(shape, M, N, K, target)]
        shapes.sort(key=lambda shape: _cycles(shape, M, N, K, processors))
    else:
        shapes = [shape for shape in shapes if shape.split == 1]
    rows = []
    for shape in shapes:
        row = {name: getattr(shape, name) for name in NAMES if name in tunables}
        rows.append({**row, PASS_CONFIGS: dict(shape.switches)} if shape.switches else row)
    return rows


def default_configs(subject: Subject) -> Callable[..., Any]:
    """The configurations for a function without any of its own.

    Raises:
        OptionError: Its parameters are not those of a tiled product.
    """
    if {"block_M", "block_N"} <= set(subject.signature.parameters):
        return gemm_configs
    raise OptionError(
        f"autotune: '{subject.name}' has no configurations, and none are known for its tunables "
        f"{', '.join(subject.tunables) or '(none)'}",
        hint="pass configs={'block': [64, 128, 256]}; only tiled products with block_M and block_N can do without",
    )


def _processors(target: Target) -> int:
    return target.machine.multiprocessors or 100 if target.is_gpu else 1


def _not_too_large(shapes: Sequence[GemmTile], name: str, size: int) -> list[GemmTile]:
    """Configurations whose tiles are at least half full, or else the smallest."""
    smallest = min(getattr(shape, name) for shape in shapes)
    return [shape for shape in shapes if getattr(shape, name) <= max(smallest, 2 * size - 1)]


def _is_shared(shape: GemmTile, m: int, n: int, k: int, target: Target) -> bool:
    """Whether blocks of a cluster that share a tile have enough work each, and all blocks are resident."""
    blocks = math.ceil(m / shape.block_M) * math.ceil(n / shape.block_N) * shape.split
    has_work = k >= _FEWEST_SHARED * shape.block_K * shape.split
    return has_work and blocks <= target.machine.blocks_at_once(shape.split)


def _cycles(shape: GemmTile, m: int, n: int, k: int, processors: int) -> float:
    """An estimate of the time of a gemm in cycles of a Hopper SM.

    Per cycle an SM multiplies 2048 pairs or loads 64 bytes from the L2 cache, where loads slow down multiplication, and
    stores 16 results; a block starts in 3000 cycles. Blocks of a cluster exchange 32 bytes per cycle, and synchronize
    in 1500 cycles. Other machines rank tiles in much the same way.
    """
    rows, columns, depth = shape.block_M, shape.block_N, shape.block_K
    waves = math.ceil(math.ceil(m / rows) * math.ceil(n / columns) * shape.split / processors)
    pairs, loads = rows * columns * depth / 2048, (rows + columns) * depth * 2 / 64
    step = max(pairs, loads) + 0.15 * min(pairs, loads)
    sent = rows * columns * 4 * (shape.split - 1) / shape.split / 32
    meeting = 1500 if shape.split > 1 else 0
    stored = rows * columns / shape.split / 16
    return waves * (math.ceil(k / depth / shape.split) * step + stored + sent) + meeting + 3000
