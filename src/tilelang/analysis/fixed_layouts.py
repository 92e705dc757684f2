"""Layouts of shared tiles that are fixed before lowerings are chosen.

Takes a launch, gives the layouts of `T.annotate_layout`; for tiles with views, the layouts that follow for the views,
and row-major order if the user gave none. Invariant: `choose_lowerings` and `infer_layouts` use the same result; all
views of a byte have the same address for it.
"""

from __future__ import annotations

import numpy as np

from tilelang.errors import Note, ProgramValueError
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.stmt import Alloc, Launch
from tilelang.ir.visit import walk
from tilelang.layout.layout import Layout
from tilelang.layout.shared_memory import offsets, row_major


def fixed_layouts(launch: Launch) -> dict[Buffer, Layout]:
    """Shared buffers whose layout no operator may choose, with that layout.

    Raises:
        ProgramValueError: A layout splits elements of a view, or the layouts of two views disagree.
    """
    found = {buffer: layout for buffer, layout in launch.hints.layouts if isinstance(layout, Layout)}
    for names in _names(launch):
        said = next((name for name in names if name in found), None)
        for name in names:
            if name.static_shape is None:
                continue
            if said is None:
                found[name] = row_major(name.static_shape)
            elif name is not said:
                found[name] = _as_named(said, found[said], name, found.get(name))
    return found


def viewed_tiles(launch: Launch) -> frozenset[Buffer]:
    """The shared buffers that have views, and the views."""
    return frozenset(name for names in _names(launch) for name in names)


def _names(launch: Launch) -> list[list[Buffer]]:
    """Each shared buffer that has views, followed by its views."""
    names: dict[Buffer, list[Buffer]] = {}
    for stmt in walk(launch.body):
        if isinstance(stmt, Alloc) and stmt.buffer.scope is Scope.SHARED:
            names.setdefault(stmt.buffer.storage, []).append(stmt.buffer)
    return [group for group in names.values() if any(name.view_of is not None for name in group)]


def _as_named(said: Buffer, layout: Layout, name: Buffer, other: Layout | None) -> Layout:
    """The layout of a view that corresponds to the layout of another one."""
    shapes = said.static_shape, name.static_shape
    assert shapes[0] is not None
    assert shapes[1] is not None
    old, new = said.dtype.storage_bytes, name.dtype.storage_bytes
    problem = f"takes elements of '{name.name}' apart, which names the same bytes as {name.dtype!s}"
    try:
        whole = layout.expand(shapes[0][: len(shapes[0]) - len(layout.shape)])
        follows = whole.reshape(shapes[1], old, new)
        places = offsets(follows).reshape(-1, max(old // new, 1)) * new
        if not np.array_equal(places[:, 0], offsets(whole).reshape(-1, max(new // old, 1))[:, 0] * old):
            raise ProgramValueError(problem)  # a row of the layout ends inside of an element
    except ProgramValueError:
        raise _refused(said, name, problem, "annotate a layout that keeps as many bytes together") from None
    if other is not None and not np.array_equal(offsets(other), offsets(follows)):
        raise _refused(said, name, f"is not the one of '{name.name}', which names the same bytes", "annotate one name")
    return follows


def _refused(said: Buffer, name: Buffer, problem: str, hint: str) -> ProgramValueError:
    note = (Note(f"'{name.name}' is named here", name.loc),) if name.loc.file else ()
    text = f"T.annotate_layout: the layout of '{said.name}' {problem}"
    return ProgramValueError(text, loc=said.loc if said.loc.file else None, notes=note, hint=hint)
