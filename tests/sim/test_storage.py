"""Bytes with flags, and the lanes that access them."""

import numpy as np

from tilelang.sim.storage import Footprint, Storage, active_lanes
from tilelang.targets.nvidia.isa.async_units import CP_ASYNC


class Lanes:
    def __init__(self, lanes):
        self.lane, self.lanes = np.arange(64), lanes


def test_all_bytes_of_an_argument_are_defined_until_some_are_not():
    storage = Storage(np.zeros(4, np.uint8))
    assert storage.flags is None
    flags = storage.track_contents()
    assert flags.all()
    assert storage.track_contents() is flags


def test_a_block_begins_with_undefined_bytes():
    storage = Storage(np.zeros(4, np.uint8))
    storage.undefine()
    assert [0, 0, 0, 0] == storage.flags.tolist()


def test_the_active_lanes_are_all_or_some():
    assert list(range(64)) == active_lanes(Lanes(None)).tolist()
    assert [3, 5] == active_lanes(Lanes(np.array([3, 5]))).tolist()


def test_footprints_do_not_share_their_lists():
    one, other = Footprint(CP_ASYNC), Footprint(CP_ASYNC)
    one.reads.append(None)
    assert [] == other.reads == other.writes
