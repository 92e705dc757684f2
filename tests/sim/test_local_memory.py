"""Registers: every lane has its own, and knows what it has not written."""

import numpy as np
import pytest

from tilelang.dtypes import INT32, as_dtype
from tilelang.errors import NOWHERE, Loc, OutOfBounds, ReadBeforeWrite
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import const
from tilelang.sim.local_memory import Registers

LANES = 32
LANE = np.arange(LANES)


class Lanes:
    """A warp of which only some lanes may be active."""

    loc, counters, footprint = NOWHERE, None, None
    fences, completing = 0, False
    size, lane = LANES, LANE
    threads = LANE + 64

    def __init__(self, mask=None):
        self.mask = np.ones(LANES, bool) if mask is None else mask
        self.lanes = None if self.mask.all() else np.flatnonzero(self.mask)

    def changed(self):
        pass


ALL, EVEN = Lanes(), Lanes(LANE % 2 == 0)


def registers(*shape, dtype="float32", scope=Scope.LOCAL, of=None, loc=NOWHERE):
    extents, view_of = tuple(const(e, INT32) for e in shape), None if of is None else of.buffer
    buffer = Buffer("r", extents, as_dtype(dtype), scope, view_of=view_of, loc=loc)
    return Registers(buffer, LANES, of)


def test_each_lane_reads_what_it_wrote():
    cells = registers(4)
    cells.write(ALL, 2, LANE * 1.0)
    values, defined = cells.read(ALL, 2)
    np.testing.assert_array_equal(values, LANE)
    assert defined is None


def test_lanes_may_index_differently():
    cells = registers(4)
    cells.write(ALL, LANE % 4, LANE)
    cells.write(ALL, (LANE + 1) % 4, -LANE)
    np.testing.assert_array_equal(cells.read(ALL, LANE % 4)[0], LANE)
    np.testing.assert_array_equal(cells.read(ALL, (LANE + 1) % 4)[0], -LANE)


def test_vectors_are_neighbors():
    cells = registers(8)
    cells.write(ALL, 0, np.arange(8 * LANES).reshape(LANES, 8), 8)
    np.testing.assert_array_equal(cells.read(ALL, 4, 2)[0], np.arange(8 * LANES).reshape(LANES, 8)[:, 4:6])
    shifted = cells.read(ALL, LANE % 3, 4)[0]
    assert [LANE[5] * 8 + 2 + n for n in range(4)] == shifted[5].tolist()


def test_only_active_lanes_write():
    cells = registers(2)
    cells.write(ALL, 0, 1.0)
    cells.write(EVEN, 0, LANE + 10.0)
    cells.write(EVEN, LANE * 0, LANE + 10.0)
    np.testing.assert_array_equal(cells.read(ALL, 0)[0], np.where(LANE % 2 == 0, LANE + 10, 1))


@pytest.mark.parametrize(
    ("loc", "hint"),
    [
        (Loc("kernel.py", 3), "write all of it first, for example with T.clear(r)"),
        (NOWHERE, "write all of the tile first, for example with T.clear(tile)"),
    ],
    ids=["of the user", "of the compiler"],
)
def test_reading_what_a_lane_never_wrote_is_an_error(loc, hint):
    cells = registers(2, 3, loc=loc)
    cells.write(EVEN, 4, 1.0)
    assert 1 == cells.read(EVEN, 4)[0][0]
    with pytest.raises(ReadBeforeWrite) as error:
        cells.read(ALL, 4)
    assert "r[1, 1] of thread 65 is read before anything was written there" == error.value.message
    assert hint == error.value.hint


def test_the_undefined_element_of_a_vector_is_named():
    cells = registers(4)
    cells.write(ALL, 0, np.zeros((LANES, 2)), 2)
    with pytest.raises(ReadBeforeWrite, match=r"r\[2\] of thread 64"):
        cells.read(ALL, 0, 4)
    values, defined = cells.read(ALL, 0, 4, moving=True)
    assert [True, True, False, False] == defined[0].tolist()


def test_a_scalar_says_how_to_give_it_a_value():
    with pytest.raises(ReadBeforeWrite) as error:
        registers(scope=Scope.VAR).read(ALL, 0)
    assert "give it a first value: r = T.alloc_var(dtype, init=0)" == error.value.hint


def test_an_allocation_forgets_for_the_lanes_that_make_it():
    cells = registers(1)
    cells.write(ALL, 0, 1.0)
    cells.forget(EVEN)
    assert cells.read(Lanes(LANE % 2 == 1), 0)[1] is None
    with pytest.raises(ReadBeforeWrite):
        cells.read(EVEN, 0)


def test_moved_contents_stay_undefined():
    cells = registers(2)
    cells.write(ALL, 0, 1.0, defined=LANE % 2 == 0)
    assert cells.read(EVEN, 0)[1] is None
    with pytest.raises(ReadBeforeWrite):
        cells.read(ALL, 0)


@pytest.mark.parametrize("index", [4, -1, LANE])
def test_an_index_outside_is_an_error(index):
    cells = registers(4)
    with pytest.raises(OutOfBounds, match="accesses index .* of dimension 0, which has extent 4"):
        cells.offset(ALL, (index,), 1)


def test_inactive_lanes_may_have_any_index():
    cells = registers(4)
    few = Lanes(LANE < 4)
    assert LANE is not None and (cells.offset(few, (LANE,), 1) == LANE).all()
    cells.write(few, LANE, 1.0)
    assert 4 == cells.read(few, LANE)[0][:4].sum()


def test_a_vector_must_end_inside():
    cells = registers(4)
    assert 2 == cells.offset(ALL, (2,), 2)
    with pytest.raises(OutOfBounds, match="accesses 2 elements at 3, but it has 4"):
        cells.offset(ALL, (3,), 2)


def test_a_view_names_the_same_bytes():
    cells = registers(4, dtype="float16")
    view = registers(2, dtype="uint32", of=cells)
    cells.write(ALL, 0, np.ones((LANES, 2)), 2)
    assert 0x3C003C00 == view.read(ALL, 0)[0][0]
    with pytest.raises(ReadBeforeWrite):
        view.read(ALL, 1)


def test_an_update_gives_the_old_values():
    cells = registers(1)
    cells.write(ALL, 0, LANE * 1.0)
    old = cells.update(ALL, np.zeros(LANES, int), lambda old, lanes: old + 1)
    np.testing.assert_array_equal(old, LANE)
    np.testing.assert_array_equal(cells.read(ALL, 0)[0], LANE + 1)


def test_elements_of_a_vector_dtype_have_their_lanes_side_by_side():
    cells = registers(3, dtype="float32x4")
    assert 4 == cells.offset(ALL, (1,), 4)
    cells.write(ALL, 4, np.arange(4 * LANES).reshape(LANES, 4), 4)
    assert [4, 5, 6, 7] == cells.read(ALL, 4, 4)[0][1].tolist()
