"""Messages about layouts: why a fragment or tile has its layout, and conflicts between layouts.

Takes layouts and their reasons, gives one line or one error each, naming the statement that determined the layout.
"""

from __future__ import annotations

from tilelang.errors import LayoutConflict, Note
from tilelang.layout.constraints import SharedLayout, Why
from tilelang.layout.layout import Layout
from tilelang.layout.solve import Conflict
from tilelang.layout.thread_values import Fragment


def reason(why: Why) -> str:
    """The reason with its line: `T.gemm accumulates in it (line 12)`."""
    return f"{why.text} (line {why.loc.line})" if why.loc.line else why.text


def fragment_line(name: str, layout: Fragment, why: Why) -> str:
    """A fragment's distribution, and its reason."""
    copies = f", {layout.replication} copies" if layout.replication > 1 else ""
    count = "1 value" if layout.values == 1 else f"{layout.values} values"
    return f"{name}: {layout.threads} threads hold {count} each{copies}; fixed by {reason(why)}"


def shared_line(name: str, layout: Layout, why: Why) -> str:
    """A shared tile's layout, and its reason."""
    return f"{name}: layout in shared memory {layout!r}; {reason(why)}"


def conversion_line(name: str, conflict: Conflict, size: int) -> str:
    """A layout conversion, its cost and its reasons."""
    other = "" if conflict.fixed_by is None else f"; its layout is fixed by {reason(conflict.fixed_by)}"
    return f"{name}: goes through {size} bytes of shared memory for {reason(conflict.constraint.why)}{other}"


def staging_line(name: str, times: float, size: int, fixed_by: Why) -> str:
    """A fragment staged in shared memory for a loop over global memory, and why."""
    return (
        f"{name}: goes through {size} bytes of shared memory, since its layout, fixed by {reason(fixed_by)}, "
        f"would move {times:.3g} times the bytes of global memory"
    )


def shared_layout_conflict(request: SharedLayout, fixed: Why) -> LayoutConflict:
    """The error for a required shared layout that conflicts with a fixed one."""
    name = getattr(request.var, "name", "a tile")
    return LayoutConflict(
        f"'{name}': {reason(request.why)}, and needs another layout in shared memory than {reason(fixed)}",
        loc=request.why.loc,
        notes=(Note(f"the layout of '{name}' is fixed by {fixed.text}", fixed.loc),),
        hint="copy it into a shared tile of its own for one of the two",
    )


def layout_conflict(conflict: Conflict) -> LayoutConflict:
    """The error for two layouts of one fragment that no conversion can reconcile."""
    constraint = conflict.constraint
    name = getattr(constraint.var, "name", "a loop")
    fixed = conflict.fixed_by
    return LayoutConflict(
        f"'{name}': {reason(constraint.why)} needs another layout than {'nothing' if fixed is None else reason(fixed)}",
        loc=constraint.why.loc,
        notes=() if fixed is None else (Note(f"the layout of '{name}' is fixed by {fixed.text}", fixed.loc),),
        hint="copy it into a fragment of its own for one of the two",
    )
