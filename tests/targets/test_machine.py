import enum

import pytest

from tilelang.targets.machine import NOTHING, CommonFeature, Machine


class Unit(enum.Flag):
    MATRIX = enum.auto()
    COPY = enum.auto()


class Other(enum.Flag):
    MATRIX = enum.auto()


def test_a_machine_has_features_of_its_own_vendor_alone() -> None:
    machine = Machine("m", Unit.MATRIX)
    assert machine.has(NOTHING) and machine.has(Unit(0)) and machine.has(Unit.MATRIX)
    assert Machine("f", Unit.MATRIX, CommonFeature.REDUCE_LANES).has(CommonFeature.REDUCE_LANES)
    assert not machine.has(CommonFeature.REDUCE_LANES)
    assert not machine.has(Unit.COPY) and not machine.has(Unit.MATRIX | Unit.COPY) and not machine.has(Other.MATRIX)
    assert Machine("n").has(NOTHING) and not Machine("n").has(Unit.MATRIX)


def test_clusters_lie_within_groups_of_multiprocessors() -> None:
    machine = Machine("m", groups=(5, 4))
    assert (9, 9, 8, 8, 0) == (machine.multiprocessors, *(machine.blocks_at_once(cluster) for cluster in (1, 2, 4, 8)))
    assert 0 == Machine("m").multiprocessors


def test_blocks_at_once_share_the_memory_of_a_multiprocessor() -> None:
    machine = Machine("m", shared_bytes=100, shared_per_multiprocessor=120, reserved_shared=10)
    assert [100, 50, 30] == [machine.shared_of_block(blocks) for blocks in (1, 2, 3)]


@pytest.mark.parametrize("width", [1, 2, 4, 6, 8, 12, 16, 32])
def test_phases_have_each_lane_once(width: int) -> None:
    machine = Machine("one", warp_size=32, shared_banks=32, bank_bytes=4)
    assert list(range(32)) == [lane for phase in machine.phases("load", width).lanes for lane in phase]
