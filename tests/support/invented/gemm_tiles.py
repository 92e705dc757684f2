"""Tiles of gemms that are worth trying on the machine."""

from __future__ import annotations

from tilelang.targets.gemm_tile import GemmTile
from tilelang.targets.machine import Machine


def gemm_tiles(machine: Machine, rows: int | None) -> list[GemmTile]:
    """Tiles of whole instructions for four waves."""
    del machine, rows
    return [GemmTile(size, size, 32, 1, 256) for size in (64, 128)]
