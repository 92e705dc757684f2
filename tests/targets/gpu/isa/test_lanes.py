import numpy as np
import pytest
from warp_alone import FULL, WarpAlone

from tilelang.dtypes import SCALARS, as_dtype
from tilelang.errors import SimulationError
from tilelang.targets.gpu.isa.lanes import integers, masks_of, participants, spread, uniform, unknown


def test_arguments_become_one_value_per_lane():
    assert [5] * 32 == spread(WarpAlone(), 5).tolist()
    assert [5] * 64 == spread(WarpAlone(size=64), 5).tolist()
    assert np.int64 == integers(WarpAlone(), np.arange(32, dtype=np.int8)).dtype


@pytest.mark.parametrize(("size", "mask"), [(32, 0x80000009), (64, 0x8000000000000009)])
def test_a_mask_has_one_bit_per_lane(size, mask):
    lanes = np.zeros(size, bool)
    lanes[[0, 3, -1]] = True
    assert mask == masks_of(lanes)
    assert [mask, 0] == masks_of(np.stack([lanes, lanes & False])).tolist()


def test_participants_are_active_lanes_of_the_mask():
    active = np.arange(32) < 16
    warp = WarpAlone(active)
    lanes = participants(warp, np.where(np.arange(32) < 8, 0xFF, 0xFF00), "it")
    assert (0xFF, 0xFF00) == (masks_of(lanes[0]), masks_of(lanes[8]))
    assert [("converge", "it")] == warp.asked


@pytest.mark.parametrize("mask", [2**64 - 2**32, np.full(64, -(2**32), np.int64)])
def test_the_upper_lanes_of_a_wide_warp_participate(mask):
    warp = WarpAlone(np.arange(64) >= 32, size=64)
    assert 2**64 - 2**32 == masks_of(participants(warp, mask, "it")[40])


def test_a_lane_outside_its_own_mask_is_an_error():
    with pytest.raises(SimulationError) as caught:
        participants(WarpAlone(), 0xFFFFFFFE, "__shfl_sync")
    assert (
        "__shfl_sync: lane 0 executes it with the mask 0xfffffffe, which does not include that lane" == caught.value.message
    )
    assert "include every lane that executes it in the mask" == caught.value.hint


def test_uniform_values_are_checked():
    warp = WarpAlone(np.arange(32) < 4)
    assert 7 == uniform(warp, np.where(np.arange(32) < 4, 7, 9), "bar.sync")
    with pytest.raises(SimulationError, match="bar.sync: lanes of a warp disagree"):
        uniform(warp, np.arange(32), "bar.sync")
    assert FULL == masks_of(WarpAlone().active)


@pytest.mark.parametrize("name", list(SCALARS))
def test_unknown_values_have_the_given_dtype(name):
    dtype = as_dtype(name)
    value = unknown(dtype)
    assert dtype.numpy == np.asarray(value).dtype
    if dtype.is_float and np.isnan(np.float32(np.asarray(np.nan).astype(dtype.numpy))):  # not all floats have a NaN
        assert np.isnan(np.float32(value))
