import gc

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tilelang.ir.host_memory import array_at


@given(st.lists(st.integers(0, 3), max_size=3), st.data())
def test_an_array_is_found_by_its_address(shape: list[int], data: st.DataObject) -> None:
    whole = np.arange(6**3, dtype=np.int16).reshape(6, 6, 6)
    part = whole[tuple(slice(None, None, data.draw(st.sampled_from([1, 2, -1]))) for _ in shape)]
    part = part[tuple(slice(0, extent) for extent in shape) + (0,) * (3 - len(shape))]
    strides = [stride // 2 for stride in part.strides]
    found = array_at(part.__array_interface__["data"][0], part.shape, part.dtype, strides)
    assert part.tolist() == found.tolist()


def test_strides_are_row_major_without_any() -> None:
    whole = np.arange(12, dtype=np.float32)
    found = array_at(whole.ctypes.data, (3, 4), whole.dtype)
    assert np.array_equal(whole.reshape(3, 4), found)
    found[1, 1] = -1
    assert -1 == whole[5]


def test_the_array_keeps_its_owner_alive() -> None:
    found = array_at((owner := np.arange(4)).ctypes.data, (4,), owner.dtype, owner=owner)
    del owner
    gc.collect()
    assert [0, 1, 2, 3] == found.tolist()
