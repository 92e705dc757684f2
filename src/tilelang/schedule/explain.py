"""Explains the schedule of a software pipeline: a timeline of the matrix unit and the warps, as text.

Takes a graph, its schedule and a label for each statement; gives lines. Invariant: a statement has one letter, a
capital if it runs on the matrix unit; what takes less than a column of the timeline stands in the legend only.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilelang.schedule.loop_graph import LoopGraph
from tilelang.schedule.modulo import ModuloSchedule, Span, spans

_COLUMNS = 64


def explained(graph: LoopGraph, schedule: ModuloSchedule, labels: Sequence[str]) -> str:
    """The stages, the cycles of an iteration by the cost model, the busier unit, and the timeline of an iteration."""
    busy = {"the matrix unit": graph.unit_cycles, "the warps": graph.warp_cycles}
    critical = max(busy, key=lambda unit: busy[unit])
    found = spans(graph, schedule.stage, schedule.order)
    end = max(span.end for span in found)
    letters = [_letter(number, work.asynchronous) for number, work in enumerate(graph.work)]
    names = [
        f"{letter} {label}" + (" of the iteration before" if stage else "")
        for letter, label, stage in zip(letters, labels, schedule.stage, strict=True)
    ]
    stages = f"{schedule.stages} stages" if schedule.stages > 1 else "1 stage"
    return "\n".join(
        (
            f"software-pipelined in {stages}: by estimate an iteration takes {schedule.cycles} cycles instead of "
            f"{graph.serial_cycles} with a wait behind each gemm, and keeps {critical} busy for {busy[critical]}",
            f"      matrix unit |{_row(graph, found, letters, end, asynchronous=True)}|",
            f"      warps       |{_row(graph, found, letters, end, asynchronous=False)}|",
            f"      {', '.join(names)}",
        )
    )


def _letter(number: int, asynchronous: bool) -> str:
    letter = chr(ord("a") + number) if number < 26 else "#"
    return letter.upper() if asynchronous else letter


def _row(
    graph: LoopGraph, found: Sequence[Span], letters: Sequence[str], end: int, *, asynchronous: bool
) -> str:
    """The timeline of one unit: the letter of the statement that occupies it, a point where it idles."""
    row = ["."] * _COLUMNS
    for number, span in enumerate(found):
        if graph.work[number].asynchronous is asynchronous:
            first, last = (round(cycle * _COLUMNS / max(end, 1)) for cycle in (span.start, span.end))
            row[first:last] = letters[number] * (last - first)
    return "".join(row)
