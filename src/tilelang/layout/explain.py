"""Why fragments and tiles lie as they do, or cannot lie as they should, in words.

Takes layouts and the reasons for them, gives one line or one error each. Invariant: each names the statement that
decided.
"""

from __future__ import annotations

from tilelang.errors import LayoutConflict, Note
from tilelang.layout.constraints import SharedLayout, Why
from tilelang.layout.layout import Layout
from tilelang.layout.solve import Conflict
from tilelang.layout.thread_values import Fragment


def place(why: Why) -> str:
    """Who asks and where: `T.gemm accumulates in it (line 12)`."""
    return f"{why.text} (line {why.loc.line})" if why.loc.line else why.text


def fragment_line(name: str, layout: Fragment, why: Why) -> str:
    """How a fragment is spread, and who decided it."""
    copies = f", {layout.replication} copies" if layout.replication > 1 else ""
    count = "1 value" if layout.values == 1 else f"{layout.values} values"
    return f"{name}: {layout.threads} threads hold {count} each{copies}; fixed by {place(why)}"


def shared_line(name: str, layout: Layout, why: Why) -> str:
    """How a shared tile lies, and who decided it."""
    return f"{name}: lies in shared memory as {layout!r}; {place(why)}"


def conversion_line(name: str, conflict: Conflict, size: int) -> str:
    """What a conversion costs, and between which statements it stands."""
    other = "" if conflict.fixed_by is None else f"; its layout is fixed by {place(conflict.fixed_by)}"
    return f"{name}: goes through {size} bytes of shared memory for {place(conflict.constraint.why)}{other}"


def detour_line(name: str, times: float, size: int, fixed_by: Why) -> str:
    """Why a fragment is brought to shared memory for a loop over global memory."""
    return (
        f"{name}: goes through {size} bytes of shared memory, since its layout, fixed by {place(fixed_by)}, would move "
        f"{times:.3g} times the bytes of global memory"
    )


def unmet(request: SharedLayout, standing: Why) -> LayoutConflict:
    """The error for a layout in shared memory that an instruction cannot have, as it is fixed already."""
    name = getattr(request.var, "name", "a tile")
    return LayoutConflict(
        f"'{name}': {place(request.why)}, and needs another layout in shared memory than {place(standing)}",
        loc=request.why.loc,
        notes=(Note(f"the layout of '{name}' is fixed by {standing.text}", standing.loc),),
        hint="copy it into a shared tile of its own for one of the two",
    )


def unsolvable(conflict: Conflict) -> LayoutConflict:
    """The error for two layouts of one thing that no copy can part."""
    constraint = conflict.constraint
    name = getattr(constraint.var, "name", "a loop")
    fixed = conflict.fixed_by
    return LayoutConflict(
        f"'{name}': {place(constraint.why)} needs another layout than {'nothing' if fixed is None else place(fixed)}",
        loc=constraint.why.loc,
        notes=() if fixed is None else (Note(f"the layout of '{name}' is fixed by {fixed.text}", fixed.loc),),
        hint="copy it into a fragment of its own for one of the two",
    )
