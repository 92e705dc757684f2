import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from warp_alone import FULL, WarpAlone, run

from tilelang.dtypes import SCALARS, as_dtype
from tilelang.errors import CompilerBug, NoLowering
from tilelang.targets.gpu.isa.warp import ACTIVE_MASK, ALL, ANY, BALLOT, ELECT, MATCH_ALL, MATCH_ANY, redux, shuffle

LANES = np.arange(32)
INT32 = as_dtype("int32")


@pytest.mark.parametrize("name", list(SCALARS))
def test_every_dtype_can_be_exchanged(name):
    dtype = SCALARS[name]
    values = (LANES % 2).astype(dtype.numpy)
    actual = run(shuffle("xor", dtype), WarpAlone(), FULL, values, 1, 32)
    assert dtype.numpy == actual.dtype
    assert values[LANES ^ 1].tobytes() == actual.tobytes()


@given(st.sampled_from([1, 2, 4, 8, 16, 32]), st.integers(0, 31))
def test_lanes_stay_in_their_segment(width, offset):
    first = LANES // width * width
    expected = {
        "idx": first + offset % width,
        "up": np.where(LANES - offset >= first, LANES - offset, LANES),
        "down": np.where(LANES + offset < first + width, LANES + offset, LANES),
    }
    for mode, lanes in expected.items():
        assert lanes.tolist() == run(shuffle(mode, INT32), WarpAlone(), FULL, LANES, offset, width).tolist()
    if offset < width:
        assert (LANES ^ offset).tolist() == run(shuffle("xor", INT32), WarpAlone(), FULL, LANES, offset, width).tolist()


def test_the_value_of_an_inactive_lane_is_unknown():
    warp = WarpAlone(LANES < 16)
    actual = run(shuffle("down", as_dtype("float32")), warp, 0xFFFF, LANES.astype(np.float32), 8, 32)
    assert list(range(8, 16)) == actual[:8].tolist()
    assert np.isnan(actual[8:16]).all()


def test_votes_count_the_lanes_of_the_mask_alone():
    warp, yes = WarpAlone(LANES < 8), LANES % 2 == 0
    assert 0x55 == run(BALLOT, warp, 0xFF, yes)[0]
    assert (True, False) == (run(ANY, warp, 0xFF, yes)[0], run(ALL, warp, 0xFF, yes)[0])
    assert run(ALL, warp, 0xFF, LANES < 8)[0]
    assert 0xFF == run(ACTIVE_MASK, warp)[0]


def test_matches_compare_bits():
    values = np.where(LANES < 4, 0.0, -0.0).astype(np.float32)
    assert [0xF, 0xFFFFFFF0] == run(MATCH_ANY, WarpAlone(), FULL, values)[[0, 31]].tolist()
    assert 0 == run(MATCH_ALL, WarpAlone(), FULL, values)[0]
    assert FULL == run(MATCH_ALL, WarpAlone(), FULL, np.float32(3))[0]


def test_one_lane_is_elected():
    elected = run(ELECT, WarpAlone(LANES >= 5), FULL & ~31)
    assert [5] == np.flatnonzero(elected).tolist()


@pytest.mark.parametrize("name", ["int32", "uint32"])
@pytest.mark.parametrize("op", ["add", "min", "max", "and", "or", "xor"])
def test_reductions_are_the_same_in_all_lanes_of_the_mask(op, name):
    values = np.random.default_rng(1).integers(0, 2**32, 32, dtype=np.uint64).astype(np.uint32).view(name)
    reductions = {
        "add": np.add,
        "min": np.minimum,
        "max": np.maximum,
        "and": np.bitwise_and,
        "or": np.bitwise_or,
        "xor": np.bitwise_xor,
    }
    expected = reductions[op].reduce(values[:8], dtype=values.dtype)
    actual = run(redux(op, as_dtype(name)), WarpAlone(LANES < 8), 0xFF, values)
    assert [expected] * 8 == actual[:8].tolist()


@pytest.mark.parametrize("op", ["min", "max"])
def test_reductions_of_floats_order_signs_and_keep_nan(op):
    numbers = np.array([-0.0, 0.0, 1e-45, -1e-45, np.inf, -np.inf, 3.5, -7.25], np.float32)
    for values in (numbers, numbers[:2], numbers[2:4], np.append(numbers, np.float32(np.nan))):
        lanes = np.resize(values, 32)
        expected = getattr(np, f"{op}imum").reduce(values)
        np.testing.assert_array_equal(np.full(32, expected), run(redux(op, as_dtype("float32")), WarpAlone(), FULL, lanes))


def test_unsupported_instructions_are_refused_with_a_hint():
    with pytest.raises(NoLowering, match="no mode 'left'"):
        shuffle("left", INT32)
    with pytest.raises(NoLowering, match="wider than one register"):
        shuffle("xor", as_dtype("float32x2"))
    with pytest.raises(NoLowering, match="no instruction for 'add' on float32"):
        redux("add", as_dtype("float32"))


def test_lanes_of_a_wide_warp_exchange_values_and_vote():
    warp, lanes = WarpAlone(size=64), np.arange(64)
    everyone = 2**64 - 1
    np.testing.assert_array_equal(63 - lanes, run(shuffle("xor", INT32), warp, everyone, lanes.astype(np.int32), 63, 64))
    np.testing.assert_array_equal(lanes // 16 * 16, run(shuffle("idx", INT32), warp, everyone, lanes.astype(np.int32), 0, 16))
    assert run(ANY, warp, everyone, lanes == 40).all() and not run(ALL, warp, everyone, lanes != 40).any()
    assert [0] == np.flatnonzero(run(ELECT, warp, everyone)).tolist()
    with pytest.raises(CompilerBug, match="a mask of 64 lanes does not fit uint32"):
        run(BALLOT, warp, everyone, lanes > 0)
