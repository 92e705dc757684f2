"""Places that users give to the statements of a loop, in runs, and to what statements become."""

import pytest
from placed_gemms import placed_gemms
from specialized import launch_of

from tilelang.ir.sequences import effectful
from tilelang.ir.stmt import PipelineSpec
from tilelang.saved_schedule import Placement
from tilelang.schedule.load_groups import pipelined_loops
from tilelang.transforms.statement_places import by_hand, divided, placed_at, runs


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (PipelineSpec(3), None),
        (PipelineSpec(3, (0, 1), (0, 1)), Placement((0, 1), (0, 1))),
        (PipelineSpec(3, (1, 0), (2, 3)), Placement((0, 1), (1, 0))),
        (PipelineSpec(3, (0, 1), (0, -1)), None),
        (PipelineSpec(3, (0,), (0,)), None),
    ],
)
def test_a_placement_by_hand_names_every_statement(spec, expected):
    assert expected == by_hand(spec, 2)


def test_what_has_one_place_keeps_the_order_of_the_program():
    assert Placement((0, 1, 0, 0), (2, 1, 3, 0)) == placed_at([(0, 5), (1, 2), (0, 5), (0, 1)])


def test_parts_of_a_statement_have_its_place():
    spec = PipelineSpec(2, (0, 2, 1), (0, 0, 1))
    assert PipelineSpec(2, (0, 1, 3, 4, 5, 2), (0, 0, 0, 0, 0, 1)) == divided(spec, (2, 3, 1))
    assert spec is divided(spec, (1, 1, 1))
    assert PipelineSpec(2, (0,), (0,)) == divided(PipelineSpec(2, (0,), (0,)), (2, 1))  # does not fit


@pytest.mark.parametrize(
    ("order", "stage", "expected"),
    [
        ([0, 1, 2, 3, 4, 5, 6], [0, 1, 1, 1, 0, 1, 1], [None, 0, 0, 0, None, 0, 0]),
        ([0, 1, 2, 4, 5, 6, 3], [0, 1, 1, 1, 0, 1, 2], [None, 0, 0, 2, None, 2, 1]),
        ([0, 2, 3, 5, 1, 4, 6], [0, 0, 0, 0, 0, 0, 0], [None, 0, 0, 1, None, 0, 1]),
    ],
)
def test_a_run_has_one_stage_and_the_order_of_the_program_but_for_loads(order, stage, expected):
    (loop,) = pipelined_loops(launch_of(placed_gemms()).body)
    assert expected == runs(Placement(tuple(stage), tuple(order)), effectful(loop.body))
