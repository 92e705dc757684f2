"""Explains the schedule of a software pipeline: a timeline of the units and the warps, as text or as a picture.

Takes a graph, its schedule and a label for each statement; gives a `Timeline`, its lines, and SVG. Invariant: a
statement has one letter, a capital if the warps go on meanwhile; of the text, what takes less than a column stands in
the legend only, but for copies.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence

from tilelang.errors import NOWHERE, Loc
from tilelang.ir.timeline import Timeline, TimelineSpan
from tilelang.records import record
from tilelang.schedule.loop_graph import LoopGraph, Work
from tilelang.schedule.modulo import ModuloSchedule, spans

_COLUMNS = 64  # of the text
_COPIES, _MATRIX_UNIT, _WARPS, _PRODUCER = "copies", "matrix unit", "warps", "producer"
_ANOTHER_TILE = "~"  # the letter of what other consumers do meanwhile
_LEFT, _WIDTH, _ROW, _TEXT = 100, 800, 28, 16  # of the picture, in pixels
_TITLE = 120  # characters of a line of its title


@record(slots=True)
class ProducerLoad:
    """A tile that a producer loads for a loop of consumers.

    Attributes:
        label: The statement.
        readers: The numbers of the statements that read the tile, after which its memory is filled again.
        cycles: For which the load keeps the way to shared memory busy.
        latency: Cycles after which the tile is there.
        versions: How many iterations ahead it is loaded.
    """

    label: str
    readers: frozenset[int]
    cycles: int
    latency: int
    versions: int


def program_order(graph: LoopGraph) -> ModuloSchedule:
    """The schedule of a loop that runs as it is written, with a wait behind each asynchronous statement."""
    count = len(graph.work)
    return ModuloSchedule((0,) * count, tuple(range(count)), graph.serial_cycles)


def timeline(
    graph: LoopGraph,
    schedule: ModuloSchedule,
    labels: Sequence[str],
    loc: Loc = NOWHERE,
    loads: Sequence[ProducerLoad] = (),
    partitions: Sequence[str] = (_WARPS,),
) -> Timeline:
    """The timeline of an iteration, with the stages, the cycles by the cost model, and the busiest unit.

    Args:
        graph: The graph of the loop.
        schedule: When its statements run.
        labels: A label for each statement.
        loc: The loop.
        loads: What a producer loads for it.
        partitions: The names of the warps that run it, and of those that compute another tile meanwhile.
    """
    found = spans(graph, schedule.stage, schedule.order)
    end = max(span.end for span in found)
    copies = any(work.prefetched for work in graph.work)
    units = (_COPIES, _WARPS) if copies else (*([_PRODUCER] if loads else []), _MATRIX_UNIT, *partitions)
    title = _title_of_copies(schedule) if copies else _title(graph, schedule, sum(load.cycles for load in loads))
    last = max(schedule.stage)
    made = []
    timed = [*zip(found, schedule.stage, strict=True)]
    for number, (span, work, label) in enumerate(zip(found, graph.work, labels, strict=True)):
        when = schedule.stage[number]
        suffix = " of the iteration before" if when else ""
        if copies:
            suffix = f" ({_ahead(last - when)})" if last > when else ""
        unit = _unit(work) if copies or work.asynchronous else partitions[0]
        made.append(TimelineSpan(unit, _letter(number, work), label + suffix, span.start, span.end))
    made += _loads(loads, [(when * end + span.start, when * end + span.end) for span, when in timed], end)
    made += [TimelineSpan(unit, _ANOTHER_TILE, "another tile, or a wait for it", 0, end) for unit in partitions[1:]]
    return Timeline(title, units, tuple(made), end, loc)


def _loads(loads: Sequence[ProducerLoad], times: Sequence[tuple[int, int]], end: int) -> list[TimelineSpan]:
    """When a producer loads tiles: one after another, as soon as the last reader of an iteration is done.

    Args:
        loads: The loads.
        times: When the statements of an iteration begin and end.
        end: The cycles from one iteration to the next.
    """
    made, free = list[TimelineSpan](), 0
    for number, load in enumerate(loads, len(times)):
        reads = [times[reader] for reader in load.readers]
        start = max([free, *(last for _, last in reads)])
        free = start + load.cycles
        left = load.versions * end - start + min((first for first, _ in reads), default=0)
        label = f"{load.label} ({_ahead(load.versions)}, there after {load.latency} of {left} cycles)"
        begin, letter = start % max(end, 1), _letter(number, Work(0, prefetched=True))
        made.append(TimelineSpan(_PRODUCER, letter, label, begin, min(begin + load.cycles, end)))
        if begin + load.cycles > end:  # the rest is at the beginning of the next iteration
            made.append(TimelineSpan(_PRODUCER, letter, label, 0, min(begin + load.cycles - end, begin)))
    return made


def _title(graph: LoopGraph, schedule: ModuloSchedule, loading: int) -> str:
    busy = {"the matrix unit": graph.unit_cycles, "the warps": graph.warp_cycles, "the producer": loading}
    critical = max(busy, key=lambda unit: busy[unit])
    if schedule.in_flight or schedule == program_order(graph):
        flying = f", with {schedule.in_flight} gemm in flight" if schedule.in_flight else ""
        takes = f"takes {schedule.cycles} cycles, and " if flying or len(graph.work) > 1 else ""
        keeps = f"keeps {critical} busy for {busy[critical]} cycles"
        return f"in program order{flying}: by estimate an iteration {takes}{keeps}"
    stages = f"{schedule.stages} stages" if schedule.stages > 1 else "1 stage"
    return (
        f"software-pipelined in {stages}: by estimate an iteration takes {schedule.cycles} cycles instead of "
        f"{graph.serial_cycles} with a wait behind each gemm, and keeps {critical} busy for {busy[critical]}"
    )


def _title_of_copies(schedule: ModuloSchedule) -> str:
    return (
        f"copies run {_ahead(max(schedule.stage))}: by estimate an iteration keeps the warps busy for "
        f"{schedule.cycles} cycles"
    )


def _ahead(count: int) -> str:
    return f"{count} iteration{'s' if count > 1 else ''} ahead"


def _unit(work: Work) -> str:
    return _COPIES if work.prefetched else _MATRIX_UNIT if work.asynchronous else _WARPS


def _letter(number: int, work: Work) -> str:
    letter = chr(ord("a") + number) if number < 26 else "#"
    return letter.upper() if work.asynchronous or work.prefetched else letter


# -- as text --------------------------------------------------------------------------------------------------------
def timeline_text(made: Timeline) -> str:
    """The title, a line for each unit, and the legend."""
    width = max(map(len, made.units))
    rows = [f"      {unit.ljust(width)} |{_row(made, unit)}|" for unit in made.units]
    legend = ", ".join(dict.fromkeys(f"{span.letter} {span.label}" for span in made.spans))
    return "\n".join((made.title, *rows, f"      {legend}"))


def _row(made: Timeline, unit: str) -> str:
    """The letters of the statements that occupy a unit, a point where it idles."""
    row = ["."] * _COLUMNS
    for span in made.spans:
        if span.unit == unit:
            first, last = (round(cycle * _COLUMNS / max(made.cycles, 1)) for cycle in (span.start, span.end))
            if unit == _COPIES:  # of which only the issue is shown
                first = next((n for n in range(min(first, _COLUMNS - 1), _COLUMNS) if row[n] == "."), _COLUMNS)
                last = min(first + 1, _COLUMNS)
            row[first:last] = span.letter * (last - first)
    return "".join(row)


# -- as a picture ---------------------------------------------------------------------------------------------------
def timelines_svg(timelines: Sequence[Timeline]) -> str:
    """The text of an SVG file with all timelines, one below the other."""
    lines, top = list[str](), 0
    for made in timelines:
        drawn, height = _timeline_svg(made)
        lines += [f'<g transform="translate(0,{top})">', *drawn, "</g>"]
        top += height
    size = f'width="{_LEFT + _WIDTH + 20}" height="{top}"'
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="monospace">', *lines, "</svg>", ""])


def _timeline_svg(made: Timeline) -> tuple[list[str], int]:
    """The elements of one timeline, and its height."""
    place = f"line {made.loc.line}: " if made.loc.line else ""
    titles = textwrap.wrap(place + made.title, _TITLE)
    lines = [
        f'<text x="8" y="{(n + 1) * _TEXT}" font-size="12">{_escaped(title)}</text>' for n, title in enumerate(titles)
    ]
    top, scale = (len(titles) + 1) * _TEXT, _WIDTH / max(made.cycles, 1)
    for row, unit in enumerate(made.units):
        y = top + row * _ROW
        lines.append(f'<text x="8" y="{y + _TEXT}" font-size="12">{_escaped(unit)}</text>')
        lines.append(f'<rect x="{_LEFT}" y="{y}" width="{_WIDTH}" height="{_ROW - 4}" fill="none" stroke="gray"/>')
        lines += (line for n, span in enumerate(made.spans) if span.unit == unit for line in _bar(n, span, y, scale))
    y = top + len(made.units) * _ROW + 12
    step = _tick(made.cycles)
    for cycle in range(0, made.cycles + 1, step):
        lines.append(f'<text x="{_LEFT + cycle * scale:.0f}" y="{y}" font-size="10">{cycle}</text>')
    for span in made.spans:
        y += _TEXT
        text = f"{span.letter} {span.label}: cycles {span.start} to {span.end}"
        lines.append(f'<text x="{_LEFT}" y="{y}" font-size="12">{_escaped(text)}</text>')
    return lines, y + 2 * _TEXT


def _escaped(text: str) -> str:
    from html import escape  # noqa: PLC0415  it loads a table of entities, which only pictures need

    return escape(text)


def _bar(number: int, span: TimelineSpan, y: int, scale: float) -> list[str]:
    """A statement on its unit."""
    x, width = _LEFT + span.start * scale, max((span.end - span.start) * scale, 2)
    return [
        f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{_ROW - 4}" fill="hsl({number * 67 % 360},70%,80%)" '
        f'stroke="gray"><title>{_escaped(span.label)}</title></rect>',
        f'<text x="{x + width / 2:.1f}" y="{y + _TEXT}" font-size="12" text-anchor="middle">{span.letter}</text>',
    ]


def _tick(cycles: int) -> int:
    """A round number of cycles that divides a timeline into about eight parts."""
    exact = max(cycles, 8) / 8
    power = 10 ** math.floor(math.log10(exact))
    return int(next(power * factor for factor in (1, 2, 5, 10) if power * factor >= exact))
