"""The CUDA record: ways to do tile operators, and passes from tile level to the program of one thread."""

from tilelang.ir.func import Level
from tilelang.ops.catalogue import TILE_OPS
from tilelang.targets.nvidia.backend import BACKEND, LOWERINGS


def test_the_record_serves_cuda_targets() -> None:
    assert "cuda" == BACKEND.kind
    assert ["drop_optional", "grow_fragments", "check_program"] == [p.name for p in BACKEND.passes[:3]]


def test_passes_lead_from_tiles_to_threads() -> None:
    assert (Level.TILE, Level.THREAD) == (BACKEND.passes[0].reads, BACKEND.passes[-1].writes)
    for before, after in zip(BACKEND.passes, BACKEND.passes[1:], strict=False):
        assert before.writes is after.reads


def test_ways_are_listed_for_operators_under_names_of_their_own() -> None:
    assert set(LOWERINGS) <= set(TILE_OPS)
    for ways in LOWERINGS.values():
        names = [way.name for way in ways]
        assert len(names) == len(set(names))
