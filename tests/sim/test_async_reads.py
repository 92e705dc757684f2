"""Matrix units read shared memory beside the threads: late, once they may, and whoever is in their way is reported."""

import numpy as np
import pytest

from tilelang.dtypes import SCALARS, as_dtype
from tilelang.errors import DataRace, Deadlock, OutOfBounds, ReadBeforeWrite, SimulationError
from tilelang.ir.expr import Var, const
from tilelang.targets.nvidia.isa.fence import FENCE_PROXY_ASYNC
from tilelang.targets.nvidia.isa.named_barrier import BAR_ARRIVE, BAR_SYNC
from tilelang.targets.nvidia.isa.wgmma import MATRIX_DESCRIPTOR, WGMMA_COMMIT, WGMMA_FENCE, atom_of, wgmma, wgmma_wait

F16, F32 = as_dtype("float16"), as_dtype("float32")
RECORD = wgmma(atom_of(F16, F16, F32, 8))


class Kernel:
    """A warpgroup that multiplies 64 x 16 by 8 x 16 halves, in chunks that are not permuted, and whoever is beside it."""

    def __init__(self, threads, beside=0):
        self.p, self.out = threads, threads.tensor("out", (128, 4))
        self.threads = 128 + beside

    def __enter__(self):
        p = self.p
        self._kernel = p.kernel(1, threads=self.threads)
        self._kernel.__enter__()
        self.tile = p.shared("tile", (1152,), "float16")
        self.sums = p.local("sums", (4,))
        return self

    def __exit__(self, *error):
        return self._kernel.__exit__(*error)

    def fill(self, value=1.0, *, fence=True, count=9):
        """Every thread stores its part of the tile."""
        p = self.p
        with p.serial(0, count) as i:
            p.store(self.tile, (i * 128 + p.thread % 128,), value)
        if fence:
            p.call(FENCE_PROXY_ASYNC)

    def issue(self, first=0):
        p = self.p
        a, b = (Var(name, SCALARS["uint64"]) for name in "ab")
        p.call(MATRIX_DESCRIPTOR, p.at(self.tile, first), 1024, 128, 0, result=a)
        p.call(MATRIX_DESCRIPTOR, p.at(self.tile, 1024), 128, 128, 0, result=b)
        p.call(WGMMA_FENCE)
        p.call(RECORD, p.at(self.sums, 0), a, b, const(0, as_dtype("bool")))
        p.call(WGMMA_COMMIT)

    def store(self):
        p = self.p
        with p.serial(0, 4) as i:
            p.store(self.out, (p.thread, i), p.load(self.sums, i) + 0)

    def run(self, **options):
        out = np.zeros((128, 4), np.float32)
        self.p.simulate(out, arch="sm_90a", **options)
        return out


@pytest.mark.parametrize("lazy", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_a_product_is_there_after_its_wait(threads, lazy, seed):
    with Kernel(threads) as k:
        k.fill()
        threads.sync()
        k.issue()
        threads.call(wgmma_wait(0))
        k.store()
    np.testing.assert_array_equal(np.full((128, 4), 16), k.run(lazy=lazy, seed=seed))


def test_reading_sums_before_the_wait_is_reported(threads):
    with Kernel(threads) as k:
        k.fill()
        threads.sync()
        k.issue()
        k.store()
        threads.call(wgmma_wait(0))
    with pytest.raises(DataRace, match="'sums' are read by thread .* while a wgmma that accumulates in them"):
        k.run()


def test_operands_that_are_rewritten_before_the_wait_are_reported(threads):
    with Kernel(threads) as k:
        k.fill()
        threads.sync()
        k.issue()
        threads.sync()
        k.fill(2.0)
        threads.call(wgmma_wait(0))
    with pytest.raises(DataRace, match=r"tile\[\d+\] is written by thread"):
        k.run()


def test_operands_that_no_barrier_brought_are_reported(threads):
    with Kernel(threads) as k:
        k.fill()
        k.issue()
        threads.call(wgmma_wait(0))
    with pytest.raises((DataRace, ReadBeforeWrite)):
        k.run()


def test_operands_without_a_fence_between_the_proxies_are_reported(threads):
    with Kernel(threads) as k:
        k.fill(fence=False)
        threads.sync()
        k.issue()
        threads.call(wgmma_wait(0))
    with pytest.raises(SimulationError, match="proxy"):
        k.run()


def test_operands_beyond_shared_memory_are_reported(threads):
    with Kernel(threads) as k:
        k.fill()
        threads.sync()
        k.issue(first=640)
        threads.call(wgmma_wait(0))
    with pytest.raises(OutOfBounds, match="'tile': a copy accesses bytes"):
        k.run()


def test_contents_that_nobody_wrote_make_their_rows_undefined(threads):
    with Kernel(threads) as k:
        k.fill(count=8)  # A, but not B
        threads.sync()
        k.issue()
        threads.call(wgmma_wait(0))
        k.store()
    with pytest.raises(ReadBeforeWrite, match="sums"):
        k.run()


@pytest.mark.parametrize("seed", range(4))
def test_one_thread_may_release_a_stage_for_its_warpgroup(threads, seed):
    """Another warp rewrites the operands as soon as the first warp has waited."""
    with Kernel(threads, beside=32) as k:
        with threads.branch(threads.thread < 128):
            k.fill()
            threads.call(BAR_SYNC, 1, 128)
            k.issue()
            threads.call(wgmma_wait(0))
            with threads.branch(threads.thread < 32):
                threads.call(BAR_ARRIVE, 2, 64)
            k.store()
        with threads.branch(threads.thread >= 128):
            threads.call(BAR_SYNC, 2, 64)
            with threads.serial(0, 36) as i:
                threads.store(k.tile, (i * 32 + threads.thread - 128,), 9)
    np.testing.assert_array_equal(np.full((128, 4), 16), k.run(seed=seed))


@pytest.mark.parametrize("seed", range(4))
def test_who_releases_a_stage_before_its_wait_is_reported(threads, seed):
    with Kernel(threads, beside=32) as k:
        with threads.branch(threads.thread < 128):
            k.fill()
            threads.call(BAR_SYNC, 1, 128)
            k.issue()
            with threads.branch(threads.thread < 32):
                threads.call(BAR_ARRIVE, 2, 64)
            threads.call(wgmma_wait(0))
            k.store()
        with threads.branch(threads.thread >= 128):
            threads.call(BAR_SYNC, 2, 64)
            with threads.serial(0, 36) as i:
                threads.store(k.tile, (i * 32 + threads.thread - 128,), 9)
    with pytest.raises((DataRace, ReadBeforeWrite)):
        k.run(seed=seed)


def test_a_warp_that_does_not_come_is_reported(threads):
    with Kernel(threads) as k:
        k.fill()
        threads.sync()
        with threads.branch(threads.thread < 96):
            k.issue()
            threads.call(wgmma_wait(0))
    with pytest.raises(Deadlock) as error:
        k.run()
    assert "wgmma instructions of the other warps of its warpgroup" in str(error.value)
