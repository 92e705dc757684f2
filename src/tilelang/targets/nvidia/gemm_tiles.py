"""Candidate tiles of gemms for the tuner on NVIDIA's GPUs, with candidate schedules on Hopper.

The rows for Hopper are the fastest configurations of hand-written kernels on an H200: cooperative consumer warpgroups
on tiles of 128 x 256 or 256 x 192 where there are many of them, ping-pong where the epilogue is a large part of a
tile's time, small tiles with many stages where there are too few tiles for all multiprocessors, and blocks that split
the reduction of a tile where even these would be too few.
"""

from __future__ import annotations

from tilelang.options import PassConfigKey
from tilelang.targets.gemm_tile import GemmTile
from tilelang.targets.machine import Machine
from tilelang.targets.nvidia.machines import Feature

PassConfigs = dict[str, object]

_PERSISTENT: PassConfigs = {PassConfigKey.TL_PERSISTENT.value: True}
_NON_PERSISTENT: PassConfigs = {PassConfigKey.TL_PERSISTENT.value: False}
_ONE_CONSUMER: PassConfigs = {**_NON_PERSISTENT, PassConfigKey.TL_CONSUMERS.value: 1}
_ASYNC_MMA: PassConfigs = {PassConfigKey.TL_IN_FLIGHT.value: 1}
_PING_PONG: PassConfigs = {PassConfigKey.TL_PING_PONG.value: True, **_PERSISTENT}
_MULTICAST_B: PassConfigs = {PassConfigKey.TL_CLUSTER.value: (1, 2)}  # to two blocks along M
_MULTICAST_A: PassConfigs = {PassConfigKey.TL_CLUSTER.value: (2, 1)}  # to two blocks along N
_DEFAULT: PassConfigs = {}  # what the compiler chooses

CLUSTER_SPLITS = (2, 4, 8)
"""Blocks of a cluster that may split the reduction of a tile."""

WORKSPACE_SPLITS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
"""Blocks that may do so and store their sums."""

_HOPPER: dict[tuple[int, int, int], tuple[PassConfigs, ...]] = {
    (128, 256, 64): (_DEFAULT, _NON_PERSISTENT, _ASYNC_MMA, {**_NON_PERSISTENT, **_ASYNC_MMA}, _MULTICAST_B),
    (128, 224, 64): (_DEFAULT,),
    (256, 128, 64): (_DEFAULT, _NON_PERSISTENT, _ASYNC_MMA),
    (256, 192, 64): (_DEFAULT, _NON_PERSISTENT, _ASYNC_MMA),
    (192, 192, 64): (_DEFAULT,),
    (192, 128, 64): (_DEFAULT, _PING_PONG),
    (192, 96, 64): (_DEFAULT,),
    (128, 192, 64): (_DEFAULT, _NON_PERSISTENT, _PING_PONG),
    (128, 160, 64): (_DEFAULT,),
    (128, 128, 64): (
        _DEFAULT, _NON_PERSISTENT, _PING_PONG, {**_NON_PERSISTENT, **_ASYNC_MMA}, _MULTICAST_B,
        {**_PING_PONG, **_MULTICAST_A},
    ),
    (128, 256, 128): (_DEFAULT,),
    (128, 128, 128): (_DEFAULT, _NON_PERSISTENT),
    (128, 96, 64): (_DEFAULT,),
    (128, 64, 64): (_DEFAULT, _NON_PERSISTENT),
    (64, 256, 64): (_DEFAULT, _ONE_CONSUMER, _PING_PONG),
    (64, 192, 64): (_DEFAULT, _ONE_CONSUMER),
    (64, 128, 64): (_DEFAULT, _ONE_CONSUMER, _PING_PONG),
    (64, 128, 128): (_ONE_CONSUMER,),
    (64, 64, 64): (_DEFAULT, _ONE_CONSUMER),
    (64, 64, 128): (_ONE_CONSUMER,),
}  # fmt: skip
# Tiles whose reduction may be split, with the most blocks of a cluster that leave shared memory to the operands
_SPLIT: dict[tuple[int, int, int], int] = {
    (256, 128, 64): 2, (128, 256, 64): 2, (128, 128, 64): 4, (128, 64, 64): 8, (64, 256, 64): 4, (64, 128, 64): 8,
    (64, 64, 64): 8, (64, 64, 128): 8, (64, 32, 128): 8,
}  # fmt: skip
_FEW_ROWS = (16, 32)  # tile rows that wgmma pads to 64, for gemms of no more rows
_COLUMNS_AND_DEPTH_OF_FEW_ROWS = ((64, 64), (64, 128), (64, 256), (128, 64), (128, 128), (32, 128), (32, 256))
_AMPERE = tuple(
    GemmTile(*tile, block_k, stages, threads)
    for tile, threads in (
        ((128, 128), 128), ((128, 256), 256), ((256, 128), 256), ((128, 64), 128), ((64, 128), 128), ((64, 64), 128),
        ((64, 256), 128), ((256, 64), 128),
    )
    for block_k, stages in ((32, 3), (32, 4), (64, 2), (64, 3))
)  # fmt: skip
_TURING = tuple(
    GemmTile(*tile, 32, stages) for tile in ((128, 128), (64, 128), (128, 64), (64, 64)) for stages in (1, 2)
)


def gemm_tiles(machine: Machine, rows: int | None) -> list[GemmTile]:
    """Candidate tiles for a gemm; `rows` is its M, None if unknown."""
    if machine.has(Feature.TMA | Feature.WGMMA | Feature.MBARRIER):
        few = [most for most in _FEW_ROWS if isinstance(rows, int) and rows <= most]
        if few:  # one row of tiles, so that every weight is read once
            return [GemmTile(few[0], columns, depth, 4, 128) for columns, depth in _COLUMNS_AND_DEPTH_OF_FEW_ROWS]
        configs = {tile: [*candidates, *_splits(tile)] for tile, candidates in _HOPPER.items()}
        configs |= {tile: _splits(tile) for tile in _SPLIT if tile not in _HOPPER}
        return [
            GemmTile(*tile, 4, 256 if tile[0] >= 128 else 128, pass_configs)
            for tile, candidates in configs.items()
            for pass_configs in candidates
        ]
    return list(_AMPERE if machine.has(Feature.CP_ASYNC) else _TURING)


def _splits(tile: tuple[int, int, int]) -> list[PassConfigs]:
    """The ways to split the reduction of a tile."""
    most = _SPLIT.get(tile, 0)
    in_clusters: list[PassConfigs] = [{PassConfigKey.TL_SPLIT.value: n} for n in CLUSTER_SPLITS if n <= most]
    return in_clusters + [{PassConfigKey.TL_WORKSPACE_SPLIT.value: n} for n in WORKSPACE_SPLITS if most]
