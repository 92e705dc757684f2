"""Schedules as values that users set: field by field, or as a text that `kernel.explain()` prints for a whole program.

Takes values of `pass_configs`, gives `ScheduleOverrides`; and the way back, from what compilers chose to the text.
Invariant: a text that was printed is read as what it was printed from. The text is a JSON list with an object for each
launch, whose keys are fields of `ScheduleOverrides`.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import Any

from tilelang.errors import nearest
from tilelang.records import record


@record(slots=True)
class Placement:
    """Stage and order of the statements of a loop, one entry per effectful statement.

    Attributes:
        stage: A statement of stage s runs iteration i at time i + s.
        order: The position among the statements of one time.
    """

    stage: tuple[int, ...]
    order: tuple[int, ...]

    @property
    def last(self) -> int:
        """The highest stage."""
        return max(self.stage, default=0)

    @property
    def sequence(self) -> tuple[int, ...]:
        """The numbers of the statements in the order in which those of one time run."""
        return tuple(sorted(range(len(self.order)), key=lambda number: self.order[number]))

    def __str__(self) -> str:
        """As the arguments of `T.Pipelined`."""
        return f"order={list(self.order)}, stage={list(self.stage)}"


def in_sequence(stage: Sequence[int], sequence: Sequence[int]) -> Placement:
    """The placement in which the statements of one time run in this order."""
    order = [0] * len(sequence)
    for position, number in enumerate(sequence):
        order[number] = position
    return Placement(tuple(stage), tuple(order))


@record(slots=True)
class ScheduleOverrides:
    """The part of a launch's schedule that a user sets; None leaves the choice to the compiler.

    Attributes:
        specialized: Whether warps may be specialized at all.
        persistent: Whether blocks loop over the tiles of the grid (`tl.persistent`).
        consumers: Consumer warp groups (`tl.consumers`).
        stages: Stages of pipelined loops (`tl.stages`).
        epilogue_parts: Whether the epilogue stores asynchronously through shared memory, or in how many parts
            (`tl.staged`).
        mma_in_flight: Gemms that still run when the next one is issued (`tl.in_flight`).
        ping_pong: Whether two consumer warp groups each compute every other tile; where they share tiles, whether they
            issue the gemms of software-pipelined loops one after another (`tl.ping_pong`).
        cluster: Blocks of a cluster along the dimensions of the grid (`tl.cluster`).
        split_k: Blocks of a cluster that split the reduction of a tile (`tl.split`).
        registers: Registers of a consumer's and of a producer's thread; a target refuses those that it cannot give.
        loops: The placement of the statements of each pipelined loop, in program order; None for a loop that runs as it
            is written. In loops of consumers the loads of the producer do not count as statements.
        workspace_split: Blocks that split the reduction of a tile and store their sums, which a second launch adds up
            (`tl.workspace_split`).
        last_wave: The same for the tiles alone that are left behind whole waves (`tl.last_wave`).
        blocks_per_sm: Blocks for which a multiprocessor has shared memory and registers at once.
    """

    specialized: bool = True
    persistent: bool | None = None
    consumers: int | None = None
    stages: int | None = None
    epilogue_parts: bool | int | None = None
    mma_in_flight: int | None = None
    ping_pong: bool | None = None
    cluster: tuple[int, int, int] | None = None
    split_k: int | None = None
    registers: tuple[int, int] | None = None
    loops: tuple[Placement | None, ...] | None = None
    workspace_split: int | None = None
    last_wave: int | None = None
    blocks_per_sm: int | None = None


def fields_set(overrides: ScheduleOverrides) -> dict[str, object]:
    """What a user sets, but for whether warps are specialized."""
    values = {each.name: getattr(overrides, each.name) for each in dataclasses.fields(overrides)}
    return {name: value for name, value in values.items() if name != "specialized" and value is not None}


# -- values that users write ----------------------------------------------------------------------------------------
@record(slots=True)
class Kind:
    """The values that a field may hold.

    Attributes:
        read: A user's value as that of the field; raises `ValueError` for one that means nothing, with the reason if
            `expected` does not tell it.
        expected: What it expects, in a few words.
        example: Such a value.
    """

    read: Callable[[object], Any]
    expected: str
    example: str


MAX_CONSUMERS = 4  # warp groups
MAX_CLUSTER = 8  # blocks that a cluster may have on all GPUs
MAX_EPILOGUE_PARTS = 8


def _boolean(value: object) -> bool:
    if not isinstance(value, int) or value not in (0, 1):
        raise ValueError
    return bool(value)


def integer(low: int, high: int) -> Kind:
    """The numbers in a range."""

    def read(value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise ValueError
        return value

    return Kind(read, f"an integer from {low} to {high}", str(min(high, 2)))


def _parts(value: object) -> int:
    if not isinstance(value, int) or not 0 <= value <= MAX_EPILOGUE_PARTS:
        raise ValueError
    return value


def _extents(value: object) -> tuple[int, int, int]:
    sides = tuple(value) if isinstance(value, tuple | list) else (value,)
    if 1 <= len(sides) <= 3 and all(type(side) is int and side >= 1 for side in sides):
        x, y, z = (*sides, 1, 1)[:3]
        if x * y * z <= MAX_CLUSTER:
            return x, y, z
    raise ValueError


def _registers(value: object) -> tuple[int, int]:
    if isinstance(value, tuple | list) and len(value) == 2 and all(type(count) is int and count > 0 for count in value):
        return value[0], value[1]
    raise ValueError


def _placements(value: object) -> tuple[Placement | None, ...]:
    if not isinstance(value, list):
        raise ValueError
    return tuple(None if each is None else _placement(each) for each in value)


def _placement(value: object) -> Placement:
    if not isinstance(value, dict) or set(value) != {"order", "stage"}:
        raise ValueError
    order, stage = value["order"], value["stage"]
    for name, entries in value.items():
        if not isinstance(entries, list) or any(type(each) is not int or each < 0 for each in entries):
            raise ValueError(f"{name!r} of a loop is {json.dumps(entries):.60}, expected a list of integers from 0")
    if len(order) != len(stage):
        raise ValueError(
            f"'order' has {len(order)} entries and 'stage' has {len(stage)}, expected one of each for every statement"
        )
    twice = next((each for number, each in enumerate(order) if each in order[:number]), None)
    if twice is not None:
        raise ValueError(f"'order' has {twice} twice, expected another position for each of {len(order)} statements")
    return Placement(tuple(stage), tuple(order))


BOOLEAN = Kind(_boolean, "True or False", "True")
KINDS = MappingProxyType(
    {
        "specialized": BOOLEAN,
        "persistent": BOOLEAN,
        "consumers": integer(1, MAX_CONSUMERS),
        "stages": integer(1, 64),
        "epilogue_parts": Kind(_parts, f"True, False or a number of parts up to {MAX_EPILOGUE_PARTS}", "2"),
        "mma_in_flight": integer(0, 1),
        "ping_pong": BOOLEAN,
        "cluster": Kind(_extents, f"the extents of a cluster of at most {MAX_CLUSTER} blocks", "(2, 1)"),
        "split_k": integer(1, MAX_CLUSTER),
        "workspace_split": integer(1, 64),
        "last_wave": integer(1, 64),
        "blocks_per_sm": integer(1, 2),
        "registers": Kind(_registers, "two numbers of registers", "[240, 24]"),
        "loops": Kind(
            _placements,
            "a list with an object for each pipelined loop, or null for one in program order",
            '[{"order": [0, 1], "stage": [0, 1]}]',
        ),
    }
)
"""The values that each field of `ScheduleOverrides` may hold."""


# -- the text of a whole program ------------------------------------------------------------------------------------
def schedule_text(launches: Sequence[ScheduleOverrides]) -> str:
    """The text of the schedules of a program's launches."""
    return json.dumps([_as_json(each) for each in launches])


def _as_json(schedule: ScheduleOverrides) -> dict[str, object]:
    values = {each.name: getattr(schedule, each.name) for each in dataclasses.fields(schedule)}
    if schedule.loops is not None:
        values["loops"] = [
            None if loop is None else {"order": loop.order, "stage": loop.stage} for loop in schedule.loops
        ]
    return {name: value for name, value in values.items() if value is not None}


def read_schedules(text: object) -> tuple[ScheduleOverrides, ...]:
    """The schedules of a program's launches.

    Raises:
        ValueError: The text is none of `schedule_text`; with the reason.
    """
    if not isinstance(text, str):
        raise ValueError("it is no text; json.dumps makes one of a list of dicts")
    try:
        launches = json.loads(text)
    except ValueError as error:
        raise ValueError(f"it is no JSON: {error}") from None
    if not isinstance(launches, list) or not all(isinstance(each, dict) for each in launches):
        raise ValueError("it is no list of JSON objects, one for each kernel")
    return tuple(_read_launch(each) for each in launches)


def _read_launch(launch: dict[str, object]) -> ScheduleOverrides:
    values = {}
    for name, value in launch.items():
        if name not in KINDS:
            near = nearest(name, KINDS, 0.5)
            raise ValueError(f"there is no {name!r}" + (f"; did you mean {near!r}?" if near else ""))
        try:
            values[name] = KINDS[name].read(value)
        except ValueError as error:
            expected = f"{name!r} is {json.dumps(value):.60}, expected {KINDS[name].expected}"
            raise ValueError(str(error) or expected) from None
    return ScheduleOverrides(**values)
