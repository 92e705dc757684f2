"""Timelines of pipelined loops: who does what when in an iteration, as the cost model sees it.

Written by the passes that schedule loops, read by what explains them.
"""

from __future__ import annotations

from tilelang.errors import NOWHERE, Loc
from tilelang.records import record


@record(slots=True)
class TimelineSpan:
    """When a statement occupies a unit.

    Attributes:
        unit: The name of the unit.
        letter: Stands for the statement where there is little space.
        label: The statement.
        start: In cycles from the beginning of an iteration of the pipelined loop.
        end: The first cycle after it; the same as `start` for a statement that takes none.
    """

    unit: str
    letter: str
    label: str
    start: int
    end: int


@record(slots=True)
class Timeline:
    """An iteration of a pipelined loop.

    Attributes:
        title: How the loop is pipelined, and what limits it.
        units: The names of the units, in the order in which they are shown.
        spans: When they are busy, by statements in program order.
        cycles: Of an iteration.
        loc: The loop.
    """

    title: str
    units: tuple[str, ...]
    spans: tuple[TimelineSpan, ...]
    cycles: int
    loc: Loc = NOWHERE
