"""The GPU's passes follow one another from the tile level to the thread level."""

from tilelang.ir.func import Level
from tilelang.targets.nvidia.backend import BACKEND


def test_levels_follow_one_another():
    level = Level.TILE
    for step in BACKEND.passes:
        assert level is step.reads, step.name
        level = step.writes
    assert Level.THREAD is level
