import numpy as np
import pytest
from device_text import ARCHITECTURES, compile_cuda, cuda_source, needs_cuda_compiler
from warp_alone import WarpAlone, run

from tilelang.errors import SimulationError
from tilelang.ir.buffer import Scope
from tilelang.isa.instruction import Effect
from tilelang.targets.nvidia.isa.async_units import CP_ASYNC
from tilelang.targets.nvidia.isa.mbarrier import (
    FENCE_MBARRIER_INIT,
    MAX_TX_BYTES,
    MBARRIER_ARRIVE,
    MBARRIER_ARRIVE_EXPECT_TX,
    MBARRIER_CP_ASYNC_ARRIVE,
    MBARRIER_CP_ASYNC_ARRIVE_NOINC,
    MBARRIER_EXPECT_TX,
    MBARRIER_INIT,
    MBARRIER_INVAL,
    MBARRIER_TEST_WAIT,
    MBARRIER_WAIT,
    MBarrier,
    signaled,
)
from tilelang.targets.nvidia.isa.types import INTEGERS
from tilelang.targets.nvidia.machines import Feature
from tilelang.targets.target import Target

RECORDS = [
    MBARRIER_INIT,
    MBARRIER_INVAL,
    MBARRIER_ARRIVE,
    MBARRIER_WAIT,
    MBARRIER_TEST_WAIT,
    MBARRIER_CP_ASYNC_ARRIVE_NOINC,
]
COUNTING = [MBARRIER_EXPECT_TX, MBARRIER_ARRIVE_EXPECT_TX, FENCE_MBARRIER_INIT]  # what copy engines need beside
ONE = np.arange(32) == 0


def barriers(count, arrivals):
    """A warp, and barriers that its first lane has initialized."""
    warp = WarpAlone(ONE)
    bar = warp.buffer("uint64", np.zeros(count), Scope.BARRIER)
    for i in range(count):
        run(MBARRIER_INIT, warp, bar + i, arrivals)
    return warp, bar


def passed(warp, bar, parity):
    return run(MBARRIER_TEST_WAIT, warp, bar, parity)[0]


def test_a_fresh_barrier_is_in_phase_zero():
    warp, bar = barriers(1, 2)
    assert (False, True) == (passed(warp, bar, 0), passed(warp, bar, 1))


def test_phases_end_when_all_have_arrived():
    warp, bar = barriers(2, 2)
    for phase in range(4):
        run(MBARRIER_ARRIVE, warp, bar + 1)
        assert not passed(warp, bar + 1, phase % 2)
        run(MBARRIER_ARRIVE, warp, bar + 1)
        assert passed(warp, bar + 1, phase % 2)
        assert not passed(warp, bar, 0), "the other barrier stands still"


def test_every_lane_counts_and_may_name_a_barrier_of_its_own():
    warp, bar = barriers(2, 16)
    warp.active = np.ones(32, bool)
    run(MBARRIER_ARRIVE, warp, bar + np.arange(32) % 2)
    assert passed(warp, bar, 0) and passed(warp, bar + 1, 0)
    warp.active = np.arange(32) < 16
    run(MBARRIER_ARRIVE, warp, bar)
    warp.active = np.ones(32, bool)
    np.testing.assert_array_equal(np.arange(32) % 2 == 1, run(MBARRIER_TEST_WAIT, warp, bar + np.arange(32) % 2, 0))


def test_waiting_goes_on_once_the_phase_is_complete():
    warp, bar = barriers(1, 1)
    wait = MBARRIER_WAIT.simulate(warp, bar, 0)
    asked = next(wait)
    assert not asked.ready()
    assert "the phase of parity 0 of mbarrier 'm[0]'" == asked.what
    assert "in its phase 0 0 of 1 arrivals have come" == asked.detail()
    run(MBARRIER_ARRIVE, warp, bar)
    assert asked.ready()
    assert next(wait, None) is None
    assert ["release", "acquire"] == [name for name, *_ in warp.asked]


def test_bytes_that_were_announced_hold_a_phase_up():
    known = np.zeros(4, np.int64)
    barrier = MBarrier("b", 1, 1, pending_bytes=64)
    barrier.arrive(1, known)
    assert (0, "in its phase 0 1 of 1 arrivals have come, and 64 bytes have not come") == (
        barrier.phase,
        barrier.progress(),
    )
    barrier.pending_bytes = 0
    barrier.advance()
    assert (1, True) == (barrier.phase, barrier.passes(0))


class Transfer:
    """Work that lands when it is asked to."""

    def __init__(self, completed=False):
        self.completed = completed

    def complete(self):
        self.completed = True
        return np.zeros(32, np.int64)


def found(warp, bar):
    return signaled(warp, bar, 0, "copy")


def test_a_phase_waits_for_the_bytes_that_were_announced():
    warp, bar = barriers(1, 1)
    run(MBARRIER_ARRIVE_EXPECT_TX, warp, bar, 96)
    transfers = [Transfer(), Transfer()]
    for transfer, size in zip(transfers, (64, 32), strict=True):
        found(warp, bar).add_transfer(size, transfer)
    assert "in its phase 0 1 of 1 arrivals have come, and 96 bytes have not come (96 are pending)" == (
        found(warp, bar).progress()
    )
    assert not passed(warp, bar, 0), "who only asks learns of it the next time"
    assert all(t.completed for t in transfers) and passed(warp, bar, 0)


def test_bytes_may_come_before_they_are_announced():
    warp, bar = barriers(1, 1)
    found(warp, bar).add_transfer(64, Transfer(completed=True))
    assert "0 of 1 arrivals have come, and 64 bytes that none announced" in found(warp, bar).progress()
    run(MBARRIER_EXPECT_TX, warp, bar, 64)
    assert not passed(warp, bar, 0)
    run(MBARRIER_ARRIVE, warp, bar)
    assert passed(warp, bar, 0)


def test_work_of_later_phases_stays_under_way():
    warp, bar = barriers(1, 1)
    first, second = Transfer(), Transfer()
    run(MBARRIER_ARRIVE_EXPECT_TX, warp, bar, 64)
    found(warp, bar).add_transfer(64, first)
    found(warp, bar).add_transfer(64, second)
    run(MBARRIER_WAIT, warp, bar, 0)
    assert (True, False) == (first.completed, second.completed)


@pytest.mark.parametrize("announced", [48, 80])
def test_other_bytes_than_were_announced_complete_no_phase(announced):
    warp, bar = barriers(1, 1)
    transfer = Transfer()
    run(MBARRIER_ARRIVE_EXPECT_TX, warp, bar, announced)
    found(warp, bar).add_transfer(64, transfer)
    assert not next(MBARRIER_WAIT.simulate(warp, bar, 0)).ready()
    assert not transfer.completed


def test_a_phase_counts_no_more_arrivals_and_bytes_than_it_can():
    warp, bar = barriers(1, 1)
    run(MBARRIER_ARRIVE_EXPECT_TX, warp, bar, 64)
    with pytest.raises(SimulationError, match=r"one arrival too many at 'm\[0\]'"):
        run(MBARRIER_ARRIVE, warp, bar)
    with pytest.raises(SimulationError, match="counts up to 1048575 bytes, but there are 1048639"):
        run(MBARRIER_EXPECT_TX, warp, bar, MAX_TX_BYTES)
    with pytest.raises(SimulationError, match="-16 bytes, but a barrier counts 0 to 1048575"):
        run(MBARRIER_EXPECT_TX, warp, bar, -16)


def test_engines_learn_of_a_barrier_by_a_fence():
    warp, bar = barriers(1, 1)
    run(FENCE_MBARRIER_INIT, warp)
    found(warp, bar)
    assert [("fence_proxy", "barriers"), ("need_fence", "barriers")] == warp.asked


def test_arrivals_of_copies_come_when_the_copies_have_landed():
    warp, bar = barriers(1, 1)
    completed = []
    warp.defer(CP_ASYNC, lambda: completed.append(True))
    run(MBARRIER_CP_ASYNC_ARRIVE_NOINC, warp, bar)
    assert not completed and not passed(warp, bar, 0)
    run(MBARRIER_WAIT, warp, bar, 0)
    assert completed and passed(warp, bar, 0)


def test_arrivals_of_copies_that_do_not_complete_a_phase_take_their_time():
    warp, bar = barriers(1, 2)
    warp.defer(CP_ASYNC, lambda: pytest.fail("nobody can see it yet"))
    run(MBARRIER_CP_ASYNC_ARRIVE_NOINC, warp, bar)
    assert not next(MBARRIER_WAIT.simulate(warp, bar, 0)).ready()


def test_a_phase_that_waits_for_copies_beside_its_arrivals_needs_both():
    warp, bar = barriers(1, 1)
    completed = []
    warp.defer(CP_ASYNC, lambda: completed.append(True))
    run(MBARRIER_CP_ASYNC_ARRIVE, warp, bar)
    assert not next(MBARRIER_WAIT.simulate(warp, bar, 0)).ready() and not completed
    run(MBARRIER_ARRIVE, warp, bar)
    run(MBARRIER_WAIT, warp, bar, 0)
    assert completed and passed(warp, bar, 0)


def test_misuse_is_an_error():
    warp, bar = barriers(1, 1)
    with pytest.raises(SimulationError, match="mbarrier.try_wait: 2 is no parity"):
        run(MBARRIER_WAIT, warp, bar, 2)
    with pytest.raises(SimulationError, match="mbarrier.init: 0 arrivals"):
        run(MBARRIER_INIT, warp, bar, 0)
    run(MBARRIER_INVAL, warp, bar)
    with pytest.raises(SimulationError, match=r"mbarrier.arrive: 'm\[0\]' is no barrier"):
        run(MBARRIER_ARRIVE, warp, bar)


def test_those_that_meet_others_say_so():
    assert [record for record in RECORDS if not record.effect] == [MBARRIER_INIT, MBARRIER_INVAL]
    assert all(record.effect in (Effect.NONE, Effect.SYNC_SOME) for record in RECORDS)
    assert (Effect.SYNC_SOME, Effect.FENCE) == (MBARRIER_ARRIVE_EXPECT_TX.effect, FENCE_MBARRIER_INIT.effect)


@needs_cuda_compiler
@pytest.mark.parametrize("architecture", [a for a in ARCHITECTURES if Target("cuda", a).has(MBARRIER_INIT.needs)])
def test_every_text_compiles(architecture):
    records = [*RECORDS, *COUNTING] if Target("cuda", architecture).has(Feature.TMA) else RECORDS
    lines = [record.texts["cuda"].format("bar", "1") for record in records if record.result is None]
    lines.append(f"*out = {MBARRIER_TEST_WAIT.texts['cuda'].format('bar', '0')}")
    body = " ".join(f"{line};" for line in lines)
    source = f'extern "C" __global__ void k(bool* out) {{ __shared__ uint64_t bar[1]; {body} }}'
    assert compile_cuda(cuda_source([INTEGERS, *[record.helpers["cuda"] for record in records]], [source]), architecture)
