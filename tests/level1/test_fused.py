"""Which axes a kernel divides among blocks, and which it loops over."""

import level1_programs as graphs

from tilelang.ir.expr import Var
from tilelang.level1.fuse import fused_kernels


def names(axes: tuple[Var, ...]) -> str:
    return " ".join(axis.name for axis in axes)


def test_the_axes_of_attention() -> None:
    (kernel,) = fused_kernels(graphs.attention((2, 3, 40, 72, 32)))
    assert ("j", "b h i c", "b h i") == (names(kernel.streamed), names(kernel.parallel), names(kernel.grid))
    assert ["largest", "total", "o"] == [r.array.name for r in kernel.accumulated]
    assert ["scores", "largest"] == [r.array.name for r in kernel.reads(kernel.reductions[2].body)]


def test_elementwise_kernels_stream_nothing() -> None:
    g = graphs.Builder()
    x = g.parameter("x", (5, 6))
    (kernel,) = fused_kernels(g.graph("double", g.map("y", (5, 6), lambda i, j: graphs.at(x, i, j) * 2.0)))
    assert ("", "i j", ()) == (names(kernel.streamed), names(kernel.grid), kernel.accumulated)
