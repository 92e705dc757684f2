"""The HTML representation of a kernel: parameters, launches, resource usage."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from tilelang.ir.func import ScalarParam
from tilelang.ir.printer import to_text
from tilelang.ir.stmt import Launch
from tilelang.ir.visit import walk

if TYPE_CHECKING:
    from tilelang.jit.kernel import JITKernel


def html_of(kernel: JITKernel) -> str:
    """The kernel as tables."""
    outputs = set(kernel.signature.outputs)
    parameters = [
        (
            param.name,
            str(param.dtype if isinstance(param, ScalarParam) else param.buffer.dtype),
            "" if isinstance(param, ScalarParam) else " x ".join(map(to_text, param.buffer.shape)),
            "returned" if number in outputs else "",
        )
        for number, param in enumerate(kernel.prim_func.params)
    ]
    launches = [
        (str(number + 1), " x ".join(map(to_text, launch.grid)) or "1", " x ".join(_sides(launch.threads)))
        for number, launch in enumerate(s for s in walk(kernel.prim_func.body) if isinstance(s, Launch))
    ]
    used = [
        (name, str(u.n_regs), str(u.shared_bytes), str(u.local_bytes)) for name, u in kernel.resource_usage.items()
    ]
    parts = [
        f"<b>{escape(kernel.prim_func.name)}</b> for {escape(str(kernel.target))} ({escape(kernel.execution_backend)})",
        _table(("parameter", "dtype", "shape", ""), parameters),
        _table(("launch", "grid", "threads of a block"), launches),
        _table(("kernel", "registers of a thread", "shared bytes", "local bytes of a thread"), used) if used else "",
    ]
    return "<div>" + "".join(parts) + "</div>"


def _sides(threads: Sequence[int]) -> list[str]:
    """Extents without trailing ones."""
    last = max((n for n, extent in enumerate(threads) if extent != 1), default=0)
    return [str(extent) for extent in threads[: last + 1]]


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(text)}</th>" for text in heads)
    body = "".join("<tr>" + "".join(f"<td>{escape(text)}</td>" for text in row) + "</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"
