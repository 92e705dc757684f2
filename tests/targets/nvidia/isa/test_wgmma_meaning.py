"""What products of a warpgroup mean: four warps without a block, whose shared memory is an array of bytes."""

import numpy as np
import pytest
from warp_alone import WarpAlone

from tilelang.dtypes import as_dtype
from tilelang.errors import BarrierDivergence, SimulationError
from tilelang.ir.buffer import Scope
from tilelang.targets.nvidia.isa import wgmma_meaning
from tilelang.targets.nvidia.isa.matrix_descriptor import encode
from tilelang.targets.nvidia.isa.wgmma import MATRIX_DESCRIPTOR, WGMMA_COMMIT, WGMMA_FENCE, atom_of, wgmma, wgmma_wait

F16, F32, TF32 = map(as_dtype, ("float16", "float32", "tfloat32"))
ATOM = atom_of(F16, F16, F32, 8)


class _Reading:
    def __init__(self, warp, starts, size):
        self._warp, self._at = warp, starts[..., None] + np.arange(size)

    def fetch(self):
        self._warp.fetched += 1
        return self._warp.memory[self._at], self._warp.written[self._at], np.zeros(32, np.int64)

    def drop(self):
        self._warp.dropped += 1


class OneOfFour(WarpAlone):
    """A warp whose registers are its lanes' own, and whose shared memory is that of its warpgroup."""

    def __init__(self, index, memory, states):
        super().__init__()
        self.index, self.memory, self._states = index, memory, states
        self.written = np.ones(memory.size, bool)
        self.fences, self.fetched, self.dropped = 0, 0, 0
        self._known = {}

    def registers(self, dtype, values):
        pointer = self.buffer(dtype, values.reshape(-1), Scope.LOCAL)
        self._known[pointer.buffer] = np.ones(values.shape, bool)
        return pointer

    def _rows(self, pointer, count):
        return slice(int(pointer.offset[0]), int(pointer.offset[0]) + count)

    def read_raw(self, pointer, count=1, *, where=None):
        rows = self._rows(pointer, count)
        return self.values(pointer).reshape(32, -1)[:, rows], self._known[pointer.buffer][:, rows]

    def write(self, pointer, values, *, where=None, defined=None):
        rows = self._rows(pointer, values.shape[1])
        self.values(pointer).reshape(32, -1)[:, rows] = values
        self._known[pointer.buffer][:, rows] = True if defined is None else defined

    def known(self, pointer):
        return self._known[pointer.buffer]

    def async_read(self, starts, size, *, agent, unused=None):
        assert agent == ("wgmma", 0)
        return _Reading(self, starts, size)

    def defer(self, unit, work, touch=None):
        self._open.append(work)

    def fence_registers(self):
        self.fences += 1

    def is_fenced(self, pointer):
        return self.fences > 0

    def shared_address(self, pointer):
        return 2 * pointer.offset


def lanes(matrix, layout, rank):
    """The elements that the lanes of a warp hold."""
    return matrix[tuple(np.moveaxis(layout.table[32 * rank : 32 * rank + 32], -1, 0))]


class Four:
    """A warpgroup: A in 64 rows of 32 bytes at byte 0, B in 8 rows at byte 2048, not permuted, two chunks per row."""

    def __init__(self, seed=0):
        rng = np.random.default_rng(seed)
        self.a, self.b = (rng.integers(-3, 4, (rows, 16)).astype(np.float16) for rows in (64, 8))
        self.c = rng.integers(-3, 4, (64, 8)).astype(np.float32)
        self.memory = np.zeros(4096, np.uint8)
        for matrix, start in ((self.a, 0), (self.b, 2048)):
            chunks = np.ascontiguousarray(matrix).view(np.uint8).reshape(-1, 2, 16).transpose(1, 0, 2)
            self.memory[start : start + matrix.nbytes] = chunks.reshape(-1)
        states = {}
        self.warps = [OneOfFour(rank, self.memory, states) for rank in range(4)]
        self.of_a, self.of_b = encode(0, 1024, 128, 0), encode(2048, 128, 128, 0)
        self.sums = [w.registers(F32, lanes(self.c, ATOM.c, rank)) for rank, w in enumerate(self.warps)]

    def issue(self, rank, record=wgmma(ATOM), a=None, keep=True, fence=True, sums=None):
        warp = self.warps[rank]
        if fence:
            WGMMA_FENCE.simulate(warp)
        a = self.of_a if a is None else a
        record.simulate(warp, self.sums[rank] if sums is None else sums, a, self.of_b, keep)

    def commit(self, rank):
        WGMMA_COMMIT.simulate(self.warps[rank])

    def wait(self, rank, pending=0):
        """Whether a warp may go on; it does if so."""
        for wait in wgmma_wait(pending).simulate(self.warps[rank]):
            if not wait.ready():
                return False
        return True

    def check(self, expected):
        for rank, warp in enumerate(self.warps):
            values = warp.values(self.sums[rank]).reshape(32, -1)
            np.testing.assert_array_equal(values, lanes(expected, ATOM.c, rank))

    @property
    def product(self):
        return self.a.astype(np.float32) @ self.b.astype(np.float32).T


def test_sums_change_when_all_have_issued_and_each_has_waited():
    four = Four()
    for rank in range(3):
        four.issue(rank)
        four.commit(rank)
    assert not four.wait(0)
    four.issue(3)
    assert not four.wait(0)
    four.commit(3)
    four.check(four.c)
    for rank in (2, 0, 1, 3):
        assert four.wait(rank)
    four.check(four.c + four.product)


def test_shared_operands_are_read_once_for_all():
    four = Four()
    for rank in range(4):
        four.issue(rank)
        four.commit(rank)
    assert four.wait(2)
    four.memory[:] = 0xFF  # the stage is used again, which one warp may allow for all
    assert all(four.wait(rank) for rank in (0, 1, 3))
    four.check(four.c + four.product)
    assert [(0, 2), (0, 2), (2, 0), (0, 2)] == [(warp.fetched, warp.dropped) for warp in four.warps]


def test_waits_may_leave_groups_under_way():
    four = Four()
    for rank in range(4):
        for _ in range(2):
            four.issue(rank)
            four.commit(rank)
    assert all(four.wait(rank, 1) for rank in range(4))
    four.check(four.c + four.product)
    assert all(four.wait(rank) for rank in range(4))
    four.check(four.c + 2 * four.product)


def test_old_sums_need_not_be_there():
    four = Four()
    for rank, warp in enumerate(four.warps):
        warp.known(four.sums[rank])[:] = False
        four.issue(rank, keep=False)
        four.commit(rank)
    assert all(four.wait(rank) for rank in range(4))
    four.check(four.product)
    assert all(warp.known(four.sums[rank]).all() for rank, warp in enumerate(four.warps))


def test_a_may_be_in_registers():
    four = Four()
    for rank, warp in enumerate(four.warps):
        held = warp.registers(F16, lanes(four.a, ATOM.a, rank))
        four.issue(rank, wgmma(ATOM, a_in_registers=True), held)
        four.commit(rank)
    assert all(four.wait(rank) for rank in range(4))
    four.check(four.c + four.product)


def test_undefined_padding_makes_its_column_undefined_and_nothing_else():
    four = Four()
    for rank, warp in enumerate(four.warps):
        warp.written[2048 + 3 * 16 + 4] = False  # of row 3 of B
        four.issue(rank)
        four.commit(rank)
    assert all(four.wait(rank) for rank in range(4))
    known = np.ones((64, 8), bool)
    known[:, 3] = False
    for rank, warp in enumerate(four.warps):
        np.testing.assert_array_equal(warp.known(four.sums[rank]), lanes(known, ATOM.c, rank))


@pytest.mark.parametrize("change", [{"a": encode(16, 1024, 128, 0)}, {"keep": False}])
def test_warps_that_do_not_agree_are_told(change):
    four = Four()
    four.issue(0)
    with pytest.raises(BarrierDivergence, match="warp 1 multiplies .* but warp 0 of its warpgroup"):
        four.issue(1, **change)


def test_products_need_a_fence():
    with pytest.raises(SimulationError, match="nothing orders it after") as error:
        Four().issue(0, fence=False)
    assert "wgmma.fence" in error.value.hint


def test_sums_under_way_belong_to_products_of_one_shape():
    four = Four()
    four.issue(0)
    four.issue(0)  # the same sums again
    other = wgmma(atom_of(F16, F16, F32, 16))
    wide = four.warps[0].registers(F32, np.zeros((32, 8), np.float32))
    four.issue(0, other, sums=wide)
    with pytest.raises(SimulationError, match="that another pending wgmma accumulates in"):
        four.issue(0, sums=wide)


def test_tf32_operands_lose_their_lowest_bits():
    atom = atom_of(TF32, TF32, F32, 8)
    four = Four()
    four.memory[:] = np.full(1024, np.float32(1) + np.float32(2) ** -12).view(np.uint8)
    for rank in range(4):
        four.issue(rank, wgmma(atom), keep=False)
        four.commit(rank)
    assert all(four.wait(rank) for rank in range(4))
    four.check(np.full((64, 8), 8, np.float32))


def test_a_descriptor_tells_where_its_matrix_lies():
    warp = OneOfFour(0, np.zeros(64, np.uint8), {})
    tile = warp.buffer("float16", np.zeros(4096), Scope.SHARED)
    found = MATRIX_DESCRIPTOR.simulate(warp, tile + 512, 4096, 1024, 1)
    assert [encode(1024, 4096, 1024, 128)] == np.unique(found).tolist()
    with pytest.raises(SimulationError, match="no multiple of 16"):
        MATRIX_DESCRIPTOR.simulate(warp, tile + 4, 0, 1024, 1)


def test_a_warpgroup_is_four_warps():
    assert 4 == wgmma_meaning.WARPS
