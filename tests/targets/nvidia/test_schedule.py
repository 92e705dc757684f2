"""Schedules count their threads and say what they are."""

import pytest

from tilelang.dtypes import INT32, SCALARS
from tilelang.errors import CompilerBug
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Var, const
from tilelang.ir.launch import LaunchPlan, WarpSchedule
from tilelang.ir.stmt import Launch, Seq
from tilelang.saved_schedule import ScheduleOverrides
from tilelang.schedule.modulo import ModuloSchedule
from tilelang.targets.nvidia.schedule import Schedule, schedule_of


def loops(in_flight):
    """The schedules of a loop that is one gemm."""
    return ((Var("k", INT32), ModuloSchedule((0,), (0,), 512, in_flight)),)


def test_consumers_are_whole_warpgroups_and_producers_come_on_top():
    schedule = Schedule(consumers=2, stages=4, producer_threads=128)
    assert (256, 384) == (schedule.consumer_threads, schedule.threads)
    assert 256 == schedule.tile_threads
    assert 128 == Schedule(consumers=2, stages=4, ping_pong=True).tile_threads


def test_a_schedule_says_what_it_is():
    plain = str(Schedule(consumers=1, stages=3))
    assert "1 consumer warpgroup, a producer of 32 threads, 3 stages" == plain
    full = str(
        Schedule(2, 4, 2, 128, (240, 24), persistent=True, panel=(16, "row"), epilogue_parts=True, loops=loops(1))
    )
    for part in ("2 consumer warpgroups", "240 registers", "in panels of 16 (row)", "1 gemm in flight", "2 stages of tiles"):
        assert part in full
    two = str(Schedule(1, 2, blocks_per_sm=2))
    assert "1 consumer warpgroup, a producer of 32 threads, 2 stages, 2 blocks at once on a multiprocessor" == two
    assert str(Schedule(2, 4, ping_pong=True)).startswith("2 consumer warpgroups in ping-pong, ")


def test_a_schedule_shows_its_multicast():
    tile = Buffer("A_s", (const(64, INT32),), SCALARS["float16"], Scope.SHARED)
    schedule = Schedule(1, 3, cluster=(2, 4, 1), multicast=((tile, (1,)),))
    assert 8 == schedule.cluster_size
    assert str(schedule).endswith("3 stages, clusters of 2 x 4 blocks, 'A_s' loaded by multicast among 4 blocks")
    assert str(Schedule(1, 3, cluster=(1, 1, 2))).endswith("clusters of 1 x 1 x 2 blocks")


class OfAnotherTarget(WarpSchedule):
    def overrides(self):
        return ScheduleOverrides()


def test_a_launch_has_the_schedule_that_its_plan_holds():
    schedule = Schedule(1, 3)
    for held in (None, schedule):
        assert schedule_of(Launch((), (), (128, 1, 1), Seq(()), plan=LaunchPlan(schedule=held))) is held
    with pytest.raises(CompilerBug, match="a schedule of another target"):
        schedule_of(Launch((), (), (128, 1, 1), Seq(()), plan=LaunchPlan(schedule=OfAnotherTarget())))


def test_gemms_in_flight_and_statements_in_another_order_are_schedules_of_loops():
    flying, reordered, none = (Schedule(1, 3, loops=made) for made in (loops(1), loops(0), ()))
    assert (1, 0, 0) == (flying.mma_in_flight, reordered.mma_in_flight, none.mma_in_flight)
    assert (False, True, False) == (flying.reorders, reordered.reorders, none.reorders)
    assert 1 == flying.overrides().mma_in_flight


def test_a_user_can_set_what_a_schedule_is():
    made = Schedule(2, 4, persistent=True, epilogue_parts=2, registers=(240, 24), cluster=(2, 1, 1))
    assert made.overrides() == ScheduleOverrides(
        persistent=True, consumers=2, stages=4, epilogue_parts=2, mma_in_flight=0, ping_pong=False, cluster=(2, 1, 1),
        split_k=1, registers=(240, 24),
    )  # fmt: skip
    assert made.overrides().blocks_per_sm is None and 2 == Schedule(1, 1, blocks_per_sm=2).overrides().blocks_per_sm
    assert Schedule(2, 4, ping_pong=True).overrides().consumers is None  # it would have them share a tile
    shared = Schedule(3, 4, ordered_issue=True).overrides()
    assert (3, True) == (shared.consumers, shared.ping_pong)
    assert Schedule(1, 4, split_k=2).overrides().cluster is None  # blocks that split a reduction are a cluster
