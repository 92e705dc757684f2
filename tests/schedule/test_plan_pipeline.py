"""The pipelined loops of a launch are planned by what a target's planner says, or by a saved schedule."""

import dataclasses
import json

import pytest
from lazy_copies import AllAsynchronous

import tilelang.language as T
from tilelang.errors import ProgramError
from tilelang.ir.stmt import For, ForKind, Launch
from tilelang.ir.visit import walk
from tilelang.lowering.chunks import ChunkPlan
from tilelang.ops.copy import Copy
from tilelang.options import CompileOptions
from tilelang.passes.base import PassContext
from tilelang.saved_schedule import Placement
from tilelang.schedule.loop_graph import Work
from tilelang.schedule.placement_legality import placement_override
from tilelang.schedule.plan_pipeline import LoopPlanner, PlannedLoop, plan_pipeline
from tilelang.targets.target import Target

AHEAD = Placement((0, 1), (0, 1))  # the copy an iteration before its reader


class Planner(LoopPlanner):
    """Lets copies run ahead, unless it refuses to."""

    refusal = ""

    def __init__(self, launch, domain, context):
        super().__init__()

    def plan(self, loop, outside, given):
        override = placement_override(loop, outside, given)
        chosen = (None, self.refusal) if self.refusal else (AHEAD, "")
        return PlannedLoop(loop, (), *(override or chosen))


class Refusing(Planner):
    refusal = "it is Sunday"


class Costing(Planner):
    awaits_other_copies = True

    def work(self, stmt):
        return Work(100)


@T.prim_func
def sums(A: T.Tensor((16, 16), "float32"), C: T.Tensor((4, 16), "float32")):
    with T.Kernel(1, threads=32):
        first = T.alloc_shared((4, 16), "float32")
        tile = T.alloc_shared((4, 16), "float32")
        total = T.alloc_fragment((4, 16), "float32")
        T.copy(A[0, 0], first)
        T.copy(first, total)
        for k in T.Pipelined(4, num_stages=2):
            T.copy(A[k * 4, 0], tile)
            for i, j in T.Parallel(4, 16):
                total[i, j] += tile[i, j]
        T.copy(total, C)


def planned(planner, **configs):
    """The loop and the launch after the pass, with all copies from global to shared memory asynchronous."""
    func = dataclasses.replace(sums, body=AllAsynchronous().visit(sums.body))
    options = CompileOptions.from_user({f"tl.{name}": value for name, value in configs.items()})
    made = plan_pipeline(planner).run(func, PassContext(options, Target("cuda", "sm_80")))
    (launch,) = (s for s in walk(made.body) if isinstance(s, Launch))
    (loop,) = (s for s in walk(launch.body) if isinstance(s, For))
    return loop, launch


def asynchronous(stmt):
    return [s.dst.buffer.name for s in walk(stmt) if isinstance(s, Copy) and isinstance(s.plan, ChunkPlan)]


def test_a_loop_gets_the_placement_of_the_planner():
    loop, launch = planned(Planner)
    assert (ForKind.PIPELINED, (0, 1), (0, 1)) == (loop.kind, loop.pipeline.stage, loop.pipeline.order)
    assert (AHEAD,) == launch.plan.placements
    assert ["tile"] == asynchronous(launch)


def test_copies_elsewhere_stay_asynchronous_only_where_they_are_awaited():
    assert ["first", "tile"] == asynchronous(planned(Costing)[1])


def test_a_loop_without_a_placement_is_serial_and_the_note_says_why():
    loop, launch = planned(Refusing)
    assert (ForKind.SERIAL, None) == (loop.kind, loop.pipeline)
    assert ["T.Pipelined: the loop stays serial: it is Sunday"] == [note.text for note in launch.plan.notes]
    assert [] == asynchronous(launch)


def test_a_timeline_needs_the_costs_of_statements():
    assert () == planned(Planner)[1].plan.timelines
    (timeline,) = planned(Costing)[1].plan.timelines
    assert "copies run 1 iteration ahead: by estimate an iteration keeps the warps busy for 100 cycles" == timeline.title


def saved(*loops):
    return json.dumps([{"loops": loops}])


def test_a_saved_schedule_beats_the_planner():
    far = {"order": [0, 1], "stage": [0, 3]}
    assert (0, 3) == planned(Planner, schedule=saved(far))[0].pipeline.stage
    assert (0, 3) == planned(Refusing, schedule=saved(far))[0].pipeline.stage
    assert planned(Planner, schedule=saved(None))[0].kind is ForKind.SERIAL


@pytest.mark.parametrize(
    ("loops", "message"),
    [
        ([None, None], "'tl.schedule' places 2 loops, but the kernel has 1 pipelined loop"),
        ([{"order": [0], "stage": [0]}], "the loop has 2 statements, not 1"),
        (
            [{"order": [0, 1], "stage": [1, 0]}],
            "'tile' would be used before it is filled; order=[0, 1], stage=[0, 1] is the nearest that can be",
        ),
    ],
)
def test_a_saved_schedule_that_cannot_be_is_refused(loops, message):
    with pytest.raises(ProgramError) as raised:
        planned(Planner, schedule=saved(*loops))
    assert message in str(raised.value)
