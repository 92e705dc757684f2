"""What the passes decided about a kernel, as text.

Takes the program after each pass, gives lines. Invariant: nothing is decided here; every line is read off the program
or the notes that passes left in a launch's plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tilelang.errors import Loc
from tilelang.ir.stmt import Launch, TileOp
from tilelang.ir.visit import walk
from tilelang.passes.runner import Snapshot


def decisions(shots: Sequence[Snapshot]) -> str:
    """The decisions about every launch of a program, in order."""
    lines: list[str] = []
    last = shots[-1].func
    for number, launch in enumerate(s for s in walk(last.body) if isinstance(s, Launch)):
        lines.append(f"{last.name}, kernel {number + 1}: {launch.num_threads} threads{_shared(launch)}")
        lines.extend(f"  {line}" for line in dict.fromkeys(_chosen(shots, number)))
        lines.extend(f"  {_at(note.loc)}{note.text}" for note in launch.plan.notes)
    return "\n".join(lines)


def _shared(launch: Launch) -> str:
    """The shared memory of a block, by buffers."""
    if not launch.plan.shared_bytes:
        return ", no shared memory"
    places = ", ".join(f"'{buffer.name}' at {offset}" for buffer, offset in launch.plan.shared_offsets)
    return f", {launch.plan.shared_bytes} bytes of shared memory: {places}"


def _chosen(shots: Sequence[Snapshot], number: int) -> Iterator[str]:
    """How each operator is done, as the pass that chooses left it."""
    for shot in shots:
        launches = [s for s in walk(shot.func.body) if isinstance(s, Launch)]
        if number < len(launches):
            for op in walk(launches[number].body):
                if isinstance(op, TileOp) and op.choice:
                    yield f"{_at(op.loc)}{op.name} is done by {op.choice}"


def _at(loc: Loc | None) -> str:
    return f"line {loc.line}: " if loc is not None and loc.line else ""
