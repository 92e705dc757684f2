"""Candidate tiles of gemms for the tuner on AMD's GPUs.

On CDNA the tiles are those of published kernels for MI300 and MI350: 256 x 256 by eight waves, 128 x 128 by four waves,
and smaller ones where these would not occupy all compute units. On RDNA a wave has
half the lanes and as many registers in each, so that tiles are half as large.
"""

from __future__ import annotations

from tilelang.targets.amd.machines import CDNA_WAVE, Feature
from tilelang.targets.gemm_tile import GemmTile
from tilelang.targets.machine import Machine

_CDNA = tuple(
    GemmTile(*tile, block_k, 2, threads)
    for tile, threads in (
        ((256, 256), 512), ((256, 128), 256), ((128, 256), 256), ((128, 128), 256), ((128, 64), 256), ((64, 128), 256),
        ((64, 64), 256),
    )
    for block_k in (32, 64)
)  # fmt: skip
_WIDE_LDS = tuple(
    GemmTile(*tile, depth, 2, 512) for tile, depth in (((256, 256), 64), ((256, 256), 128), ((256, 192), 64))
)
_RDNA = tuple(
    GemmTile(*tile, block_k, 2, threads)
    for tile, threads in (((128, 128), 128), ((128, 64), 128), ((64, 128), 128), ((64, 64), 128), ((32, 64), 64))
    for block_k in (32, 64)
)
_FEW_ROWS = (16, 32)  # tile rows of gemms of no more rows
_COLUMNS_AND_DEPTH_OF_FEW_ROWS = ((64, 64), (64, 128), (128, 64), (128, 128))


def gemm_tiles(machine: Machine, rows: int | None) -> list[GemmTile]:
    """Candidate tiles for a gemm; `rows` is its M, None if unknown."""
    few = [most for most in _FEW_ROWS if rows is not None and rows <= most]
    if few:  # one row of tiles, so that every weight is read once
        threads = 4 * machine.warp_size
        return [GemmTile(few[0], columns, depth, 2, threads) for columns, depth in _COLUMNS_AND_DEPTH_OF_FEW_ROWS]
    if machine.warp_size != CDNA_WAVE:
        return list(_RDNA)
    return [*_WIDE_LDS, *_CDNA] if machine.has(Feature.DIRECT_TO_LDS_WIDE) else list(_CDNA)
