"""Messages about layouts: why a fragment or tile has its layout, and conflicts between layouts.

Takes layouts and their reasons, gives one line or one error each, naming the statement that determined the layout.
"""

from __future__ import annotations

from tilelang.errors import LayoutConflict, Note
from tilelang.layout.constraints import Reason, SharedLayout
from tilelang.layout.layout import Layout
from tilelang.layout.solve import Conflict
from tilelang.layout.thread_values import Fragment


def describe_fragment(name: str, layout: Fragment, reason: Reason) -> str:
    """A fragment's distribution, and its reason."""
    copies = f", {layout.replication} copies" if layout.replication > 1 else ""
    count = "1 value" if layout.values == 1 else f"{layout.values} values"
    return f"{name}: {layout.threads} threads hold {count} each{copies}; fixed by {reason}"


def describe_shared_tile(name: str, layout: Layout, reason: Reason) -> str:
    """A shared tile's layout, and its reason."""
    return f"{name}: layout in shared memory {layout!r}; {reason}"


def describe_conversion(name: str, conflict: Conflict, size: int) -> str:
    """A layout conversion, its cost and its reasons."""
    other = "" if conflict.fixed_by is None else f"; its layout is fixed by {conflict.fixed_by}"
    return f"{name}: goes through {size} bytes of shared memory for {conflict.constraint.reason}{other}"


def describe_staging(name: str, times: float, size: int, fixed_by: Reason) -> str:
    """A fragment staged in shared memory for a loop over global memory, and why."""
    return (
        f"{name}: goes through {size} bytes of shared memory, since its layout, fixed by {fixed_by}, "
        f"would move {times:.3g} times the bytes of global memory"
    )


def shared_layout_conflict(request: SharedLayout, fixed: Reason) -> LayoutConflict:
    """The error for a required shared layout that conflicts with a fixed one."""
    name = getattr(request.var, "name", "a tile")
    return LayoutConflict(
        f"'{name}': {request.reason}, and needs another layout in shared memory than {fixed}",
        loc=request.reason.loc,
        notes=(Note(f"the layout of '{name}' is fixed by {fixed.text}", fixed.loc),),
        hint="copy it into a shared tile of its own for one of the two",
    )


def layout_conflict(conflict: Conflict) -> LayoutConflict:
    """The error for two layouts of one fragment that no conversion can reconcile."""
    name = getattr(conflict.constraint.var, "name", "a loop")
    fixed = conflict.fixed_by
    needs = "needs a layout, but none was found" if fixed is None else f"needs another layout than {fixed}"
    return LayoutConflict(
        f"'{name}': {conflict.constraint.reason} {needs}",
        loc=conflict.constraint.reason.loc,
        notes=() if fixed is None else (Note(f"the layout of '{name}' is fixed by {fixed.text}", fixed.loc),),
        hint="copy it into a fragment of its own for one of the two",
    )
