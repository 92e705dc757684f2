import numpy as np
import pytest
from warp_alone import WarpAlone, run

from tilelang.dtypes import SCALARS, as_dtype
from tilelang.errors import NoLowering
from tilelang.targets.nvidia.isa.atomic import OPERATIONS, atomic, atomic_add_vector

LANES = np.arange(32)
INT32 = as_dtype("int32")


@pytest.mark.parametrize("name", list(SCALARS))
def test_every_dtype_can_be_changed_by_all_lanes_in_turn(name):
    dtype, warp = SCALARS[name], WarpAlone(LANES < 3)
    memory = warp.buffer(name, [1] if name != "float4_e2m1fn" else [0.5])
    one = np.full(32, 1).astype(dtype.numpy)
    previous = run(atomic("add", dtype), warp, memory, one)
    if not dtype.is_bool and name not in ("float8_e8m0fnu", "float4_e2m1fn"):
        assert ([1, 2, 3], 4) == (previous[:3].astype(int).tolist(), int(warp.values(memory)[0]))
    assert dtype.numpy == previous.dtype


@pytest.mark.parametrize(
    ("op", "expected"),
    [("add", 496 + 5), ("min", 0), ("max", 31), ("or", 31), ("and", 0), ("xor", 5), ("exchange", 31)],
)
def test_operations_leave_what_one_lane_after_the_other_leaves(op, expected):
    warp = WarpAlone()
    memory = warp.buffer("int32", [5])
    run(atomic(op, INT32), warp, memory, LANES.astype(np.int32))
    assert expected == warp.values(memory)[0]


def test_only_the_first_lane_that_sees_the_expected_bits_swaps():
    warp = WarpAlone()
    memory = warp.buffer("float32", [0.0])
    previous = run(atomic("cas", as_dtype("float32")), warp, memory, np.float32(-0.0), LANES.astype(np.float32))
    assert (0.0, 0.0) == (warp.values(memory)[0], previous[0])
    run(atomic("cas", as_dtype("float32")), warp, memory, np.float32(0), LANES.astype(np.float32) + 1)
    assert 1.0 == warp.values(memory)[0]


def test_maxima_take_nan_over_numbers():
    warp = WarpAlone(LANES < 2)
    memory = warp.buffer("float16", [3])
    run(atomic("max", as_dtype("float16")), warp, memory, np.where(LANES == 0, np.nan, 9).astype(np.float16))
    assert np.isnan(warp.values(memory)[0])


def test_loads_and_stores_move_one_element():
    warp = WarpAlone(LANES < 4)
    memory = warp.buffer("int64", np.zeros(4))
    assert run(atomic("store", as_dtype("int64"), "release"), warp, memory + LANES, LANES) is None
    assert [0, 1, 2, 3] == run(atomic("load", as_dtype("int64"), "acquire"), warp, memory + LANES)[:4].tolist()
    assert [("fence",), ("fence",)] == warp.asked


@pytest.mark.parametrize(
    ("order", "fences"), [("relaxed", 0), ("acquire", 1), ("release", 1), ("acq_rel", 2), ("seq_cst", 2)]
)
def test_stronger_orders_are_fences_around_the_operation(order, fences):
    warp = WarpAlone()
    run(atomic("add", INT32, order), warp, warp.buffer("int32", [0]), 1)
    assert [("fence",)] * fences == warp.asked


@pytest.mark.parametrize("name", ["float32x2", "float32x4", "float16x2", "bfloat16x4", "float16x8"])
def test_vectors_add_lane_by_lane(name):
    dtype, warp = as_dtype(name), WarpAlone(LANES < 2)
    memory = warp.buffer(name.rsplit("x", 1)[0], np.arange(dtype.lanes))
    values = np.broadcast_to(np.arange(dtype.lanes) * 2, (32, dtype.lanes)).astype(dtype.numpy)
    run(atomic_add_vector(dtype), warp, memory, values)
    assert (np.arange(dtype.lanes) * 5).tolist() == warp.values(memory).astype(int).tolist()


def test_what_does_not_exist_is_refused_by_name():
    with pytest.raises(NoLowering, match="atomic nand: no such operation"):
        atomic("nand", INT32)
    with pytest.raises(NoLowering, match="atomic or: needs integers, got float32"):
        atomic("or", as_dtype("float32"))
    with pytest.raises(NoLowering, match="no memory order 'weak'"):
        atomic("add", INT32, "weak")
    with pytest.raises(NoLowering, match="no scope 'cluster'"):
        atomic("add", INT32, scope="cluster")
    with pytest.raises(NoLowering, match="float16x2 is a vector"):
        atomic("add", as_dtype("float16x2"))
    with pytest.raises(NoLowering, match="no instruction for int32x2"):
        atomic_add_vector(as_dtype("int32x2"))
    assert {"add", "cas", "load"} <= set(OPERATIONS)
