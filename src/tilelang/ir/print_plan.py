"""Decisions about a launch as comments of the printed program.

Launches have schedule, shared memory and tensor maps; buffers have versions, layouts and offsets; parallel loops have
the threads of their iterations. Reasons are in the notes of the plan, by `kernel.explain()`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Expr, as_expr
from tilelang.ir.launch import LaunchPlan, TensorMap
from tilelang.ir.print_expr import ExprPrinter
from tilelang.layout.digits import Mode
from tilelang.layout.layout import Layout
from tilelang.layout.thread_values import Fragment

Text = Callable[[Expr], str]
"""Prints an expression."""


def launch_comments(plan: LaunchPlan, text: Text) -> list[str]:
    """One comment per decision about the launch."""
    lines = [] if plan.schedule is None else [f"schedule: {plan.schedule}"]
    if plan.prefetch_loops:
        lines.append("pipelines prefetch by parallel loops")
    if plan.shared_bytes:
        lines.append(f"{plan.shared_bytes} bytes of shared memory")
    if plan.dynamic_shared_bytes is not None:
        lines.append(f"{text(plan.dynamic_shared_bytes)} bytes of shared memory at the launch")
    return lines + [_tensor_map(each, text) for each in plan.tensor_maps]


def _tensor_map(tensor_map: TensorMap, text: Text) -> str:
    """A map as `A_map: boxes of 64 x 8 elements of 256 x 256 of 'A', swizzled within 128 bytes`; innermost first."""
    what = "pixels" if tensor_map.pixels else "boxes"
    swizzled = f", swizzled within {tensor_map.swizzle} bytes" if tensor_map.swizzle else ""
    rounded = ", rounded" if tensor_map.rounds else ""
    box, dims = " x ".join(map(str, tensor_map.box)), " x ".join(map(text, tensor_map.dims))
    return f"{tensor_map.var.name}: {what} of {box} elements of {dims} of '{tensor_map.tensor.name}'{swizzled}{rounded}"


def buffer_comments(plan: LaunchPlan, text: Text) -> Mapping[Buffer, Sequence[str]]:
    """The comments of each buffer of a launch."""
    found: dict[Buffer, list[str]] = {}
    for buffer in plan.uniform:
        found.setdefault(buffer, []).append("the same in all threads")
    for buffer, count in plan.versions:
        found.setdefault(buffer, []).append(f"{count} version{'s' if count > 1 else ''}")
    for buffer, fragment in plan.fragments:
        found.setdefault(buffer, []).append(thread_mapping("hold", "value", fragment))
    for buffer, layout in plan.shared_layouts:
        found.setdefault(buffer, []).append(shared_layout_text(layout))
    for buffer, offset in plan.shared_offsets:
        found.setdefault(buffer, []).append(f"at byte {offset}")
    for buffer, place in plan.dynamic_shared_offsets:
        found.setdefault(buffer, []).append(f"at byte {text(place)}")
    return found


def thread_mapping(verb: str, what: str, layout: Fragment) -> str:
    """The mapping of threads to values or iterations: digits as size:stride, least significant first."""
    one = layout.threads == 1
    who = f"1 thread {verb}s" if one else f"{layout.threads} threads {verb}"
    count = f"{layout.values} {what}{'s' if layout.values > 1 else ''}{'' if one else ' each'}"
    return f"{who} {count}: thread {_digits(layout.thread)}, value {_digits(layout.value)}"


def _digits(modes: Iterable[Mode]) -> str:
    shown = " ".join(f"{mode.size}:({','.join(map(str, mode.stride))})" for mode in modes)
    return shown or "1"


def shared_layout_text(layout: Layout) -> str:
    """The layout of a shared tile, as `layout [_i, _j] -> [...]`."""
    printer = ExprPrinter()
    try:
        names, places = layout.get_forward_vars(), layout.get_forward_index()
        here, there = (", ".join(printer.expr(as_expr(each)) for each in part) for part in (names, places))
    except Exception:  # an index function with Python branches or table lookups
        return f"layout {layout!r}"
    return f"layout [{here}] -> [{there}]"
