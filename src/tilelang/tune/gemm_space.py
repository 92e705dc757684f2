"""Configurations for tiled gemms: tile sizes, stages, threads and schedules.

Ordered by expected time, best first. Invariant: each gives the requested tunables and no others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tilelang.api import public
from tilelang.errors import OptionError
from tilelang.performance.gemm import TiledGemm, gemm_seconds
from tilelang.targets.gemm_tile import GemmTile
from tilelang.targets.target import Target, TargetLike, parse_target
from tilelang.tune.subject import PASS_CONFIGS, Subject

_MIN_STEPS = 4  # of a block that shares a tile; with fewer, its pipeline is never full
_MIN_OCCUPIED = 3  # share of the multiprocessors that blocks which store their sums use at least: a third
_EQUAL_TIMES = 0.005  # share of a time: tiles of times that differ by less are in the order of the machine's list
# For machines without rates, whose tiles are only ranked: multiply-adds, loaded bytes and stored elements of a
# multiprocessor per cycle; cycles until a block starts
_MULTIPLY_ADDS, _LOAD_BYTES, _STORE_ELEMENTS, _BLOCK_START = 2048, 64, 16, 3000

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
        target: What kernels are compiled for; where warps specialize, configurations also say how they share the work.
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
    if isinstance(M, int) and isinstance(N, int) and isinstance(K, int):
        shapes = [shape for shape in shapes if not _is_split(shape) or _has_work(shape, M, N, K, target)]
        shapes = [shape for shape in shapes if _divides(shape, M, N)]
        shapes.sort(key=lambda shape: math.log(_expected(shape, M, N, K, target)) // _EQUAL_TIMES)
    else:
        shapes = [shape for shape in shapes if not _is_split(shape)]
    if isinstance(M, int):
        shapes = _not_too_large(shapes, "block_M", M)
    if isinstance(N, int):
        shapes = _not_too_large(shapes, "block_N", N)
    rows = []
    for shape in shapes:
        row = {name: getattr(shape, name) for name in NAMES if name in tunables}
        rows.append({**row, PASS_CONFIGS: dict(shape.pass_configs)} if shape.pass_configs else row)
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


def _not_too_large(shapes: Sequence[GemmTile], name: str, size: int) -> list[GemmTile]:
    """Configurations whose tiles are at least half full, or else the smallest."""
    smallest = min(getattr(shape, name) for shape in shapes)
    return [shape for shape in shapes if getattr(shape, name) <= max(smallest, 2 * size - 1)]


def _is_split(shape: GemmTile) -> bool:
    """Whether several blocks split the reduction of a tile."""
    return shape.cluster_splits > 1 or shape.workspace_splits > 1


def _has_work(shape: GemmTile, m: int, n: int, k: int, target: Target) -> bool:
    """Whether blocks that share tiles have enough work each, all of them run at once, and they are not too few."""
    blocks = _tiled(shape, m, n, k).blocks
    most = target.machine.blocks_at_once(shape.cluster_splits)
    least = most // _MIN_OCCUPIED if shape.workspace_splits > 1 else 0
    splits = shape.cluster_splits * shape.workspace_splits
    return k >= _MIN_STEPS * shape.block_K * splits and least <= blocks <= most


def _divides(shape: GemmTile, m: int, n: int) -> bool:
    """Whether tiles form whole clusters."""
    along_n, along_m = shape.multicast
    return math.ceil(n / shape.block_N) % along_n == 0 and math.ceil(m / shape.block_M) % along_m == 0


def _tiled(shape: GemmTile, m: int, n: int, k: int) -> TiledGemm:
    multicast_a, multicast_b = shape.multicast
    sizes = (m, n, k, shape.block_M, shape.block_N, shape.block_K)
    return TiledGemm(
        *sizes, multicast_a=multicast_a, multicast_b=multicast_b, cluster_splits=shape.cluster_splits,
        workspace_splits=shape.workspace_splits,
    )  # fmt: skip


def _expected(shape: GemmTile, m: int, n: int, k: int, target: Target) -> float:
    """The expected time of a gemm, in seconds; on a machine without rates, a number that orders tiles."""
    machine = target.machine
    gemm = _tiled(shape, m, n, k)
    if machine.rates is not None and machine.multiprocessors:
        return gemm_seconds(gemm, machine, machine.rates)
    rows, columns, depth = shape.block_M, shape.block_N, shape.block_K
    pairs, loads = rows * columns * depth / _MULTIPLY_ADDS, gemm.loaded_bytes / _LOAD_BYTES
    step = max(pairs, loads) + 0.15 * min(pairs, loads)
    waves = math.ceil(gemm.blocks / (machine.multiprocessors or 100 if target.is_gpu else 1))
    return waves * (gemm.steps * step + rows * columns / _STORE_ELEMENTS) + _BLOCK_START
