"""Configurations worth trying for tiled matrix products: tile sizes, stages, threads and, on Hopper, schedules.

Takes the names of tunables, a target and, where they are known, the sizes of the product; gives configurations, those
first that a small model of costs expects most of. Invariant: each gives the tunables that were asked for and no others.

The rows for Hopper are the structures that won on an H200 among kernels that were written by hand: warpgroups that
share tiles of 128 x 256 or 256 x 192 where there are many of them, warpgroups that take turns with tiles where the
results of a tile are a large share of its work, and small tiles with many stages where there are too few tiles for all
multiprocessors. Where even these would be too few, blocks of a cluster share the sums of a tile.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

from tilelang.api import public
from tilelang.errors import OptionError
from tilelang.options import PassConfigKey
from tilelang.records import record
from tilelang.targets.nvidia.machines import Feature
from tilelang.targets.target import Target, TargetLike, parse_target
from tilelang.tune.subject import PASS_CONFIGS, Subject

Switches = dict[str, object]

_STAY: Switches = {PassConfigKey.TL_PERSISTENT.value: True}
_LEAVE: Switches = {PassConfigKey.TL_PERSISTENT.value: False}
_ALONE: Switches = {**_LEAVE, PassConfigKey.TL_CONSUMERS.value: 1}
_FLY: Switches = {PassConfigKey.TL_IN_FLIGHT.value: 1}
_TURNS: Switches = {PassConfigKey.TL_PING_PONG.value: True, **_STAY}
_SHARED: dict[int, Switches] = {n: {PassConfigKey.TL_SPLIT.value: n} for n in (2, 4)}
_ABOVE: Switches = {PassConfigKey.TL_CLUSTER.value: (1, 2)}  # two blocks, one above the other, bring B together
_BESIDE: Switches = {PassConfigKey.TL_CLUSTER.value: (2, 1)}  # two blocks, one beside the other, bring A together
_CHOSEN: Switches = {}  # as the compiler would have it


@record
class Shape:
    """One way to cut a product into tiles.

    Attributes:
        block_M: Rows of the result in a tile.
        block_N: Columns of the result in a tile.
        block_K: How much of the summed dimension is loaded at once.
        num_stages: Versions of the operands' tiles.
        threads: Threads of a block.
        switches: What the compiler is told.
    """

    block_M: int
    block_N: int
    block_K: int
    num_stages: int = 3
    threads: int = 128
    switches: Switches = field(default_factory=dict)

    @property
    def split(self) -> int:
        """How many blocks share the sums of a tile."""
        split = self.switches.get(PassConfigKey.TL_SPLIT.value, 1)
        return split if isinstance(split, int) else 1


_HOPPER: dict[tuple[int, int, int], tuple[Switches, ...]] = {
    (128, 256, 64): (_CHOSEN, _LEAVE, _FLY, {**_LEAVE, **_FLY}, _ABOVE),
    (256, 128, 64): (_CHOSEN, _LEAVE, _FLY),
    (256, 192, 64): (_CHOSEN, _LEAVE, _FLY),
    (192, 192, 64): (_CHOSEN,),
    (192, 128, 64): (_CHOSEN, _TURNS),
    (128, 224, 64): (_CHOSEN,),
    (128, 192, 64): (_CHOSEN, _LEAVE, _TURNS),
    (128, 128, 64): (_CHOSEN, _LEAVE, _TURNS, {**_LEAVE, **_FLY}, {**_TURNS, **_BESIDE}, _SHARED[2], _SHARED[4]),
    (128, 256, 128): (_CHOSEN,),
    (128, 128, 128): (_CHOSEN, _LEAVE),
    (128, 64, 64): (_CHOSEN, _LEAVE),
    (64, 256, 64): (_CHOSEN, _ALONE, _TURNS, _SHARED[4]),
    (64, 192, 64): (_CHOSEN, _ALONE),
    (64, 128, 64): (_CHOSEN, _ALONE, _TURNS, _SHARED[2], _SHARED[4]),
    (64, 128, 128): (_ALONE,),
    (64, 64, 64): (_CHOSEN, _ALONE, _SHARED[2], _SHARED[4]),
    (64, 64, 128): (_ALONE,),
}
_FEW_ROWS = (16, 32)  # of tiles that warpgroups multiply with padding, for products of no more rows
_BESIDE_FEW = ((64, 64), (64, 128), (64, 256), (128, 64), (128, 128), (32, 128), (32, 256))
_AMPERE = tuple(
    Shape(*tile, block_k, stages, threads)
    for tile, threads in (
        ((128, 128), 128), ((128, 256), 256), ((256, 128), 256), ((128, 64), 128), ((64, 128), 128), ((64, 64), 128),
        ((64, 256), 128), ((256, 64), 128),
    )
    for block_k, stages in ((32, 3), (32, 4), (64, 2), (64, 3))
)  # fmt: skip
_TURING = tuple(
    Shape(*tile, 32, stages) for tile in ((128, 128), (64, 128), (128, 64), (64, 64)) for stages in (1, 2)
)
_CPU = tuple(
    Shape(rows, columns, depth, 1)
    for rows, columns in ((32, 64), (64, 64), (64, 128), (128, 64), (128, 128), (64, 256), (128, 256), (256, 256))
    for depth in (32, 128, 256)
)

_FEWEST_SHARED = 4  # steps of a block that shares a tile with others; with fewer, meeting them takes longer

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
        target: What kernels are compiled for; on Hopper configurations also say how warpgroups share the work.
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
    shapes = _shapes(target, M)
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


def _shapes(target: Target, m: int | None) -> list[Shape]:
    if not target.is_gpu:
        return list(_CPU)
    if target.has(Feature.TMA | Feature.WGMMA | Feature.MBARRIER):
        few = [rows for rows in _FEW_ROWS if isinstance(m, int) and m <= rows]
        if few:  # one row of tiles, so that every weight is read once
            return [Shape(few[0], columns, depth, 4, 128) for columns, depth in _BESIDE_FEW]
        return [
            Shape(*tile, 4, 256 if tile[0] >= 128 else 128, switches)
            for tile, ways in _HOPPER.items()
            for switches in ways
        ]
    return list(_AMPERE if target.has(Feature.CP_ASYNC) else _TURING)


def _processors(target: Target) -> int:
    return target.machine.multiprocessors or 100 if target.is_gpu else 1


def _not_too_large(shapes: Sequence[Shape], name: str, size: int) -> list[Shape]:
    """Those whose tiles are not more than half empty, or else the smallest."""
    smallest = min(getattr(shape, name) for shape in shapes)
    return [shape for shape in shapes if getattr(shape, name) <= max(smallest, 2 * size - 1)]


def _is_shared(shape: Shape, m: int, n: int, k: int, target: Target) -> bool:
    """Whether blocks that share a tile have work enough, and all run at once."""
    blocks = math.ceil(m / shape.block_M) * math.ceil(n / shape.block_N) * shape.split
    has_work = k >= _FEWEST_SHARED * shape.block_K * shape.split
    return has_work and blocks <= target.machine.blocks_at_once(shape.split)


def _cycles(shape: Shape, m: int, n: int, k: int, processors: int) -> float:
    """What a product takes, roughly, in cycles of a multiprocessor of Hopper.

    It multiplies 2048 pairs or takes 64 bytes from the L2 cache in a cycle, and some of the latter costs the former, if
    only by the power that both draw; it stores 16 results in a cycle, and a block takes 3000 to get going. Blocks that
    share a tile send each other 32 bytes in a cycle, and take 1500 to meet. Processors that are slower or faster rank
    tiles in much the same way.
    """
    rows, columns, depth = shape.block_M, shape.block_N, shape.block_K
    waves = math.ceil(math.ceil(m / rows) * math.ceil(n / columns) * shape.split / processors)
    pairs, loads = rows * columns * depth / 2048, (rows + columns) * depth * 2 / 64
    step = max(pairs, loads) + 0.15 * min(pairs, loads)
    sent = rows * columns * 4 * (shape.split - 1) / shape.split / 32
    meeting = 1500 if shape.split > 1 else 0
    stored = rows * columns / shape.split / 16
    return waves * (math.ceil(k / depth / shape.split) * step + stored + sent) + meeting + 3000
