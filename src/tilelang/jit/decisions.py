"""The decisions of passes about a kernel, as text for `kernel.explain()`.

Invariant: every line is derived from the program after some pass, or from the notes in the launch plan.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence

from tilelang.errors import Loc, OptionError
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.func import PrimFunc
from tilelang.ir.printer import to_text
from tilelang.ir.stmt import Alloc, CallStmt, For, ForKind, Launch, ParallelLoop, Stmt, Store, TileOp
from tilelang.ir.visit import expressions, loads_of, walk
from tilelang.options import CompileOptions
from tilelang.passes.runner import Snapshot
from tilelang.passes.tile.warn_serialized_loops import SERIAL
from tilelang.saved_schedule import schedule_text
from tilelang.schedule.explain import timeline_text, timelines_svg
from tilelang.schedule.unused_overrides import unused_overrides


def decisions(shots: Sequence[Snapshot], options: CompileOptions) -> str:
    """The decisions about every launch of a program, in order, and the schedule as a text that can be set again.

    Args:
        shots: The program after each pass.
        options: What the user sets, of which the text says what has no effect.
    """
    lines: list[str] = []
    last = shots[-1].func
    for number, launch in enumerate(_launches(last)):
        is_gpu = launch.thread is not None
        about = f"{launch.num_threads} threads{_shared(launch)}" if is_gpu else _of_host(launch)
        lines.append(f"{last.name}, kernel {number + 1}: {about}")
        lines.extend(f"  {line}" for line in dict.fromkeys(_chosen(shots, number)))
        read = (_thread_mapping, _thread_reductions, _access_widths) if is_gpu else (_called, _lanes)
        for look in read:
            lines.extend(f"  {line}" for line in dict.fromkeys(look(shots, number, launch)))
        lines.extend(f"  {_at(made.loc)}T.Pipelined: {timeline_text(made)}" for made in launch.plan.timelines)
        lines.extend(f"  {_at(note.loc)}{note.text}" for note in launch.plan.notes)
    plans = [launch.plan for launch in _launches(last)]
    lines += unused_overrides(options, plans)
    if any(plan.schedule is not None or plan.placements for plan in plans):
        lines.append(f"schedule: {schedule_text([plan.overrides for plan in plans])}")
    return "\n".join(lines)


def write_timelines(func: PrimFunc, path: str | os.PathLike[str]) -> None:
    """Draws the timelines of the pipelined loops of a program into an SVG file.

    Raises:
        OptionError: There are none.
    """
    timelines = [made for stmt in walk(func.body) if isinstance(stmt, Launch) for made in stmt.plan.timelines]
    if not timelines:
        raise OptionError("explain: no loop of this kernel is pipelined, so that there is no timeline to draw")
    with open(path, "w", encoding="utf-8") as file:
        file.write(timelines_svg(timelines))


def _launches(func: PrimFunc) -> list[Launch]:
    """The launches that the user wrote."""
    return [stmt for stmt in walk(func.body) if isinstance(stmt, Launch) and not stmt.plan.generated]


def _shared(launch: Launch) -> str:
    """The shared memory of a block, per buffer."""
    if not launch.plan.shared_bytes:
        return ", no shared memory"
    places = ", ".join(f"'{buffer.name}' at {offset}" for buffer, offset in launch.plan.shared_offsets)
    return f", {launch.plan.shared_bytes} bytes of shared memory: {places}"


def _of_host(launch: Launch) -> str:
    """The grid of a CPU kernel, and the bytes of the tiles of a block."""
    sizes = {s.buffer: _bytes(s.buffer) for s in walk(launch.body) if isinstance(s, Alloc) and s.buffer.rank}
    tiles = ", ".join(f"'{buffer.name}' {size}" for buffer, size in sizes.items())
    grid = " x ".join(to_text(extent) for extent in launch.grid)
    held = f"; the tiles of a block take {sum(sizes.values())} bytes: {tiles}" if sizes else ""
    return f"a grid of {grid}, blocks run on the processor's threads{held}"


def _bytes(buffer: Buffer) -> int:
    size = buffer.dtype.storage_bytes if buffer.view_of is None else 0
    for extent in buffer.static_shape or (0,):
        size *= extent
    return size


def _chosen(shots: Sequence[Snapshot], number: int) -> Iterator[str]:
    """The lowering of each operator."""
    for shot in shots:
        for op in walk(_body(shot, number)):
            if isinstance(op, TileOp) and op.choice:
                yield f"{_at(op.loc)}{op.name} is lowered by {op.choice}"


def _thread_mapping(shots: Sequence[Snapshot], number: int, launch: Launch) -> Iterator[str]:
    """The threads of the user's parallel loops, other than those that run serially."""
    own = {s.loc for s in walk(_body(shots[0], number)) if isinstance(s, ParallelLoop)}
    own -= {note.loc for note in launch.plan.notes if note.text.startswith(SERIAL)}
    for shot in shots:
        if shot.name == "infer_layouts":
            for loop in walk(_body(shot, number)):
                if isinstance(loop, ParallelLoop) and loop.loc in own and loop.layout is not None:
                    each = f"{loop.layout.values} iterations" if loop.layout.values > 1 else "one iteration"
                    yield f"{_at(loop.loc)}T.Parallel: {loop.layout.threads} threads run {each} each"


def _thread_reductions(shots: Sequence[Snapshot], number: int, launch: Launch) -> Iterator[str]:
    """Describe how threads combine partial results of reductions."""
    counts: dict[Loc, Counter[str]] = {}
    for stmt in walk(launch.body):
        if isinstance(stmt, CallStmt) and stmt.routine.name.startswith(("shuffle_xor", "redux_")):
            how = "shuffle" if stmt.routine.name.startswith("shuffle") else "redux.sync instruction"
            counts.setdefault(stmt.loc, Counter())[how] += 1
    through = {s.loc for s in walk(launch.body) if isinstance(s, Alloc) and s.buffer.scope is Scope.SHARED}
    for loc, steps in counts.items():
        memory = ", and warps through shared memory" if loc in through else ""
        means = " and ".join(f"{count} {how}{'s' if count > 1 else ''}" for how, count in steps.items())
        yield f"{_at(loc)}threads combine partial results by {means}{memory}"


def _access_widths(shots: Sequence[Snapshot], number: int, launch: Launch) -> Iterator[str]:
    """Bytes per access of a thread, per tensor and line."""
    widths: dict[tuple[Loc, str, str], int] = {}
    for stmt in walk(launch.body):
        loads = [e for root in expressions(stmt) for e in loads_of(root)]
        found = [("loads", load.buffer, load.dtype.storage_bytes) for load in loads]
        if isinstance(stmt, Store):
            found.append(("stores", stmt.buffer, stmt.value.dtype.storage_bytes))
        elif isinstance(stmt, CallStmt) and stmt.result is not None:
            found += [("loads", region.buffer, stmt.result.dtype.storage_bytes) for region in stmt.reads]
        for what, buffer, size in found:
            if buffer.scope is Scope.GLOBAL:
                key = (stmt.loc, what, buffer.name)
                widths[key] = max(size, widths.get(key, 0))
    for (loc, what, name), size in widths.items():
        yield f"{_at(loc)}a thread {what} '{name}' by {size} byte{'s' if size > 1 else ''} at a time"


def _called(shots: Sequence[Snapshot], number: int, launch: Launch) -> Iterator[str]:
    """Calls of functions of the generated source, such as gemms."""
    for stmt in walk(launch.body):
        if isinstance(stmt, CallStmt):
            yield f"{_at(stmt.loc)}the source calls its function '{stmt.routine.name}'"


def _lanes(shots: Sequence[Snapshot], number: int, launch: Launch) -> Iterator[str]:
    """Which innermost loops are vectorized, and what they reduce."""
    for loop in walk(launch.body):
        if not isinstance(loop, For):
            continue
        inside = [s for s in walk(loop.body) if isinstance(s, For | CallStmt)]
        if loop.kind is ForKind.VECTORIZED:
            operators = dict.fromkeys(r.op for r in loop.reductions)
            what = f", and reduces by {', '.join(operators)}" if operators else ""
            yield f"{_at(loop.loc)}the loop over {loop.var.name} runs as SIMD lanes{what}"
        elif not inside and loop.kind is ForKind.SERIAL:
            yield f"{_at(loop.loc)}the loop over {loop.var.name} runs one iteration at a time"


def _body(shot: Snapshot, number: int) -> Stmt:
    """The body of one launch; of the program if there are no launches yet."""
    launches = _launches(shot.func)
    return launches[number].body if number < len(launches) else shot.func.body


def _at(loc: Loc | None) -> str:
    return f"line {loc.line}: " if loc is not None and loc.line else ""
