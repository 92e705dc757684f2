import numpy as np
import pytest
from warp_alone import WarpAlone, run

from tilelang.errors import MisalignedAccess, OutOfBounds, SimulationError
from tilelang.ir.buffer import Scope
from tilelang.isa.simulated import TensorMapView
from tilelang.targets.nvidia.isa.mbarrier import MBARRIER_ARRIVE_EXPECT_TX, MBARRIER_INIT, MBARRIER_WAIT
from tilelang.targets.nvidia.isa.tma import (
    TMA_STORE_COMMIT,
    bulk_load,
    bulk_store,
    tma_load,
    tma_reduce,
    tma_store,
    tma_store_wait,
)
from tilelang.targets.nvidia.isa.tma_meaning import REDUCTIONS, reduces

ONE = np.arange(32) == 0


def tile(dtype="float16", tensor=None, box=(8, 4)):
    """A warp whose first lane is active, a tensor of 6 rows of 16 with its map, and a tile and a barrier."""
    warp = WarpAlone(ONE)
    a = warp.buffer(dtype, np.arange(96) % 50 + 1 if tensor is None else tensor)
    size = a.buffer.dtype.storage_bytes
    view = TensorMapView(a.buffer, (16, 6), (16 * size,), box, 0)
    s = warp.buffer(dtype, np.zeros(np.prod(box)), Scope.SHARED)
    bar = warp.buffer("uint64", np.zeros(1), Scope.BARRIER)
    run(MBARRIER_INIT, warp, bar, 1)
    return warp, a, view, s, bar


@pytest.mark.parametrize("hint", [False, True])
def test_a_load_is_there_once_its_bytes_are_counted(hint):
    warp, a, view, s, bar = tile()
    run(tma_load(2, hint=hint), warp, s, view, bar, 8, 4, *[0] * hint)
    assert not warp.values(s).any()
    run(MBARRIER_ARRIVE_EXPECT_TX, warp, bar, 64)
    run(MBARRIER_WAIT, warp, bar, 0)
    expected = np.zeros((4, 8))
    expected[:2] = warp.values(a).reshape(6, 16)[4:, 8:]  # and zeros below the tensor, which count as well
    np.testing.assert_array_equal(warp.values(s).reshape(4, 8), expected)
    assert ("need_fence", "barriers") in warp.asked


def test_a_load_and_its_map_move_the_same_kind_of_thing():
    warp, a, view, s, bar = tile()
    with pytest.raises(SimulationError, match="has 2 dimensions"):
        run(tma_load(4, pixels=True), warp, s, view, bar, *[0] * 6)
    image = TensorMapView(a.buffer, (8, 2, 3, 2), (16, 32, 96), (8, 4), 0)
    with pytest.raises(SimulationError, match="is one of boxes"):
        run(tma_load(4, pixels=True), warp, s, image, bar, *[0] * 6)
    pixels = TensorMapView(a.buffer, (8, 2, 3, 2), (16, 32, 96), (8, 4), 0, ((0, 0, 1), (0, 0, 1)))
    with pytest.raises(SimulationError, match="is one of pixels"):
        run(tma_load(4), warp, s, pixels, bar, *[0] * 4)
    with pytest.raises(SimulationError, match="pixels lie 0 to 255 elements from base pixels, not 256"):
        run(tma_load(4, pixels=True), warp, s, pixels, bar, 0, 0, 0, 0, 0, 256)


def test_a_multicast_begins_a_copy_in_every_block_of_its_mask():
    warp, _, view, s, bar = tile()
    run(tma_load(2, multicast=True), warp, s, view, bar, 0, 0, 0b1010)
    assert [1, 3] == [rank for name, rank in warp.asked if name == "in_block"]
    assert [0, 0] == [lane for name, lane in warp.asked if name == "transfer"]
    with pytest.raises(SimulationError, match="mask 0x0 names no blocks"):
        run(tma_load(2, multicast=True), warp, s, view, bar, 0, 0, 0)


def test_a_store_leaves_out_what_lies_out_of_bounds():
    warp, a, view, s, _ = tile()
    before = warp.values(a).reshape(6, 16).copy()
    warp.values(s)[:] = -1
    run(tma_store(2), warp, view, s, 8, 4)
    run(TMA_STORE_COMMIT, warp)
    run(tma_store_wait(0, read=False), warp)
    before[4:, 8:] = -1
    np.testing.assert_array_equal(warp.values(a).reshape(6, 16), before)
    for store in (tma_store(2), tma_reduce(2, "add")):
        with pytest.raises(OutOfBounds, match=r"begins at \(-1, 8\); it may end outside of the tensor, but not begin"):
            run(store, warp, view, s, 8, -1)


@pytest.mark.parametrize("dtype,first", [("float16", 3), ("float16", -4), ("float32", 2), ("uint8", 8), ("int64", 1)])
def test_boxes_begin_at_chunks_of_16_bytes(dtype, first):
    warp, _, view, s, bar = tile(dtype, box=(16, 2))
    said = f"begins at element {first} of a row, which is byte {first * view.itemsize} and no multiple of 16"
    with pytest.raises(MisalignedAccess, match=said):
        run(tma_load(2), warp, s, view, bar, first, 0)
    with pytest.raises(MisalignedAccess, match=said):
        run(tma_store(2), warp, view, s, first, 0)


def test_waits_count_the_newest_groups_of_a_thread():
    warp, a, view, s, _ = tile()
    old = warp.values(a).copy()
    run(tma_store(2), warp, view, s, 0, 0)
    run(TMA_STORE_COMMIT, warp)
    run(tma_store_wait(0), warp)
    np.testing.assert_array_equal(warp.values(a), old)  # read, and not written yet
    warp.values(s)[:] = 99
    run(tma_store(2), warp, view, s, 8, 0)
    run(TMA_STORE_COMMIT, warp)
    run(tma_store_wait(1, read=False), warp)
    assert (warp.values(a).reshape(6, 16)[:4, :8] == 0).all(), "what was read, not what was written there afterwards"
    assert (warp.values(a).reshape(6, 16)[:4, 8:] != 99).all()
    run(tma_store_wait(0, read=False), warp)
    assert (warp.values(a).reshape(6, 16)[:4, 8:] == 99).all()


def test_what_is_in_no_group_is_not_waited_for():
    warp, a, view, s, _ = tile()
    old = warp.values(a).copy()
    run(tma_store(2), warp, view, s, 0, 0)
    run(tma_store_wait(0, read=False), warp)
    np.testing.assert_array_equal(warp.values(a), old)


REDUCE_OPERATORS = {
    "add": lambda a, b: a + b,
    "min": np.minimum,
    "max": np.maximum,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
}


@pytest.mark.parametrize("dtype", ["int32", "uint64", "float16", "bfloat16", "float32"])
@pytest.mark.parametrize("op", REDUCTIONS)
def test_a_reduction_folds_elements_of_the_maps_dtype(op, dtype):
    warp, a, view, s, _ = tile(dtype)
    old = warp.values(a).reshape(6, 16).copy()
    moved = (np.arange(32) * 7 % 40).astype(old.dtype)
    warp.values(s)[:] = moved
    if not reduces(op, view.tensor.dtype):
        with pytest.raises(SimulationError, match=f"no reduction by '{op}' of {dtype}"):
            run(tma_reduce(2, op), warp, view, s, 8, 4)
        return
    run(tma_reduce(2, op), warp, view, s, 8, 4)
    run(TMA_STORE_COMMIT, warp)
    run(tma_store_wait(0, read=False), warp)
    old[4:, 8:] = REDUCE_OPERATORS[op](old[4:, 8:], moved.reshape(4, 8)[:2])
    np.testing.assert_array_equal(warp.values(a).reshape(6, 16), old)


def test_what_reduces_what():
    rows = {op: [d for d in ("int32", "int64", "float16", "bfloat16", "float32", "uint8") if reduces(op, d)] for op in
            REDUCTIONS}  # fmt: skip
    assert ["int32", "int64", "float16", "bfloat16", "float32"] == rows["add"]
    assert ["int32", "int64", "float16", "bfloat16"] == rows["max"]
    assert ["int32", "int64"] == rows["xor"]


def test_runs_of_bytes_go_both_ways():
    warp = WarpAlone(ONE)
    a, b = warp.buffer("float32", np.arange(16)), warp.buffer("float32", np.zeros(16))
    s, bar = warp.buffer("float32", np.zeros(8), Scope.SHARED), warp.buffer("uint64", np.zeros(1), Scope.BARRIER)
    run(MBARRIER_INIT, warp, bar, 1)
    run(MBARRIER_ARRIVE_EXPECT_TX, warp, bar, 32)
    run(bulk_load(), warp, s, a + 4, 32, bar)
    run(MBARRIER_WAIT, warp, bar, 0)
    run(bulk_store(), warp, b + 8, s, 32)
    run(TMA_STORE_COMMIT, warp)
    run(tma_store_wait(0, read=False), warp)
    assert [0] * 8 + list(range(4, 12)) == warp.values(b).tolist()


def test_misuse_is_an_error():
    warp, a, view, s, bar = tile(box=(16, 16))
    with pytest.raises(SimulationError, match="the map of 'm' has 2 dimensions"):
        run(tma_load(3), warp, s, view, bar, 0, 0, 0)
    with pytest.raises(MisalignedAccess, match="byte 32 of shared memory, which is no multiple of 128"):
        run(tma_load(2), warp, s + 16, view, bar, 0, 0)
    with pytest.raises(SimulationError, match="coordinate 4294967296 does not fit 32 bits"):
        run(tma_load(2), warp, s, view, bar, 1 << 32, 0)
    with pytest.raises(MisalignedAccess, match="the number of bytes is 24, which is no multiple of 16"):
        run(bulk_load(), warp, s, a, 24, bar)
    with pytest.raises(MisalignedAccess, match="the place in 'm' is 2, which is no multiple of 16"):
        run(bulk_store(), warp, a + 1, s, 16)
    with pytest.raises(SimulationError, match="cp.async.bulk: -16 bytes"):
        run(bulk_load(), warp, s, a, -16, bar)
