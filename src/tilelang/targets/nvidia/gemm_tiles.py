"""Tiles of gemms that are worth trying on NVIDIA's GPUs, and schedules of them on Hopper.

The rows for Hopper are the structures that won on an H200 among kernels that were written by hand: warpgroups that
share tiles of 128 x 256 or 256 x 192 where there are many of them, warpgroups that take turns with tiles where the
results of a tile are a large share of its work, and small tiles with many stages where there are too few tiles for all
multiprocessors. Where even these would be too few, blocks of a cluster share the sums of a tile.
"""

from __future__ import annotations

from tilelang.options import PassConfigKey
from tilelang.targets.gemm_tile import GemmTile
from tilelang.targets.machine import Machine
from tilelang.targets.nvidia.machines import Feature

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
    """Tiles worth trying for a gemm of so many rows, if that is known."""
    if machine.has(Feature.TMA | Feature.WGMMA | Feature.MBARRIER):
        few = [most for most in _FEW_ROWS if isinstance(rows, int) and rows <= most]
        if few:  # one row of tiles, so that every weight is read once
            return [GemmTile(few[0], columns, depth, 4, 128) for columns, depth in _BESIDE_FEW]
        return [
            GemmTile(*tile, 4, 256 if tile[0] >= 128 else 128, switches)
            for tile, ways in _HOPPER.items()
            for switches in ways
        ]
    return list(_AMPERE if machine.has(Feature.CP_ASYNC) else _TURING)
