"""Schedules as texts that are read back as what they were written from."""

import json
import re

import pytest

from tilelang.saved_schedule import Placement, ScheduleOverrides, in_sequence, read_schedules, schedule_text

LOOP = Placement((0, 0, 1), (0, 2, 1))


def test_a_placement_has_its_statements_in_the_order_in_which_they_run() -> None:
    assert LOOP == in_sequence((0, 0, 1), (0, 2, 1))
    assert (0, 2, 1) == LOOP.sequence
    assert 1 == LOOP.last
    assert "order=[0, 2, 1], stage=[0, 0, 1]" == str(LOOP)


@pytest.mark.parametrize(
    "schedule",
    [
        ScheduleOverrides(),
        ScheduleOverrides(specialized=False, loops=(None, LOOP)),
        ScheduleOverrides(True, True, 2, 4, 2, 0, False, (2, 1, 1), 1, (240, 24), ()),
    ],
)
def test_a_text_is_read_as_what_it_was_written_from(schedule: ScheduleOverrides) -> None:
    assert (schedule, ScheduleOverrides()) == read_schedules(schedule_text([schedule, ScheduleOverrides()]))


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (3, "it is no text; json.dumps makes one of a list of dicts"),
        ("{}", "it is no list of JSON objects, one for each kernel"),
        ("[1]", "it is no list of JSON objects, one for each kernel"),
        ("[", "it is no JSON: Expecting value: line 1 column 2 (char 1)"),
        ('[{"consumer": 2}]', "there is no 'consumer'; did you mean 'consumers'?"),
        ('[{"xyz": 2}]', "there is no 'xyz'"),
        ('[{"stages": "4"}]', "'stages' is \"4\", expected an integer from 1 to 64"),
        ('[{"epilogue_parts": 9}]', "'epilogue_parts' is 9, expected True, False or a number of parts up to 8"),
        ('[{"registers": [240]}]', "'registers' is [240], expected two numbers of registers"),
        ('[{"registers": [240, 0]}]', "'registers' is [240, 0], expected two numbers of registers"),
    ],
)
def test_what_is_no_schedule_is_refused_with_the_reason(given: object, reason: str) -> None:
    with pytest.raises(ValueError) as caught:
        read_schedules(given)
    assert reason == str(caught.value)


@pytest.mark.parametrize(
    ("loop", "reason"),
    [
        ({"order": [0]}, """'loops' is [{"order": [0]}], expected a list with an object for each pipelined loop"""),
        ({"order": [0, 1], "stage": [0]}, "'order' has 2 entries and 'stage' has 1"),
        ({"order": [0, 0], "stage": [0, 0]}, "'order' has 0 twice, expected another position for each of 2 statements"),
        ({"order": [0, -1], "stage": [0, 0]}, "'order' of a loop is [0, -1], expected a list of integers from 0"),
        ({"order": 0, "stage": [0, 0]}, "'order' of a loop is 0, expected a list of integers from 0"),
        ({"order": [0, 1], "stage": ["0", 1]}, """'stage' of a loop is ["0", 1], expected a list of integers from 0"""),
    ],
)
def test_what_is_no_placement_is_refused(loop: object, reason: str) -> None:
    with pytest.raises(ValueError, match=re.escape(reason)):
        read_schedules(json.dumps([{"loops": [loop]}]))
