"""Split-K: splits the reductions of a kernel with too few blocks, and combines the parts in a second kernel.

Takes a graph and one of its kernels, gives a graph in which the reductions of the kernel's first pass are made of
partial ones over ranges of the streamed axis. Parts that a loop rescales are rescaled by the same factor when combined,
so that attention with one query becomes a kernel over ranges of keys and one that combines their results (split-KV).
"""

from __future__ import annotations

from collections.abc import Sequence

from tilelang.dtypes import INT32
from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Expr, Load, Var, as_expr, binary, int_const
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.visit import Rewriter
from tilelang.level1.data_passes import Accumulation, data_passes
from tilelang.level1.deduplicate import with_arrays
from tilelang.level1.fused import ZERO, FusedKernel, FusedReduction
from tilelang.level1.graph import Array, Graph, Map, Reduction, define, element
from tilelang.records import record

GRANULE = 256  # the length of a range is a multiple of it, hence of every tile


@record(eq=False)
class Split:
    """A graph in which reductions are split.

    Attributes:
        graph: It has the same results.
        partial: The partial reductions, which must be stored.
    """

    graph: Graph
    partial: tuple[Array, ...]


def can_split(kernel: FusedKernel, parts: int) -> bool:
    """Whether the first pass of a kernel can be split along its last streamed axis, into 2 to `parts` ranges."""
    if not kernel.streamed or kernel.sequences or any(r.combiner.gives_index for r in kernel.reductions):
        return False
    extent = int_const(kernel.extents[kernel.streamed[-1]])
    return extent is not None and _length(extent, parts) < extent


def _length(extent: int, parts: int) -> int:
    """The elements of a range."""
    granules = -(-extent // GRANULE)
    return -(-granules // parts) * GRANULE


def split(graph: Graph, kernel: FusedKernel, parts: int) -> Split:
    """The graph with the first pass of a kernel split.

    Args:
        graph: The computation.
        kernel: One of its kernels, for which `can_split` holds.
        parts: Into how many ranges, or fewer.
    """
    return _Splitter(kernel, parts).split(graph)


class _Splitter(Rewriter):
    """Rewrites bodies of a kernel to read the elements of one range."""

    def __init__(self, kernel: FusedKernel, parts: int) -> None:
        self._kernel, self._axis = kernel, kernel.streamed[-1]
        extent = int_const(kernel.extents[self._axis])
        assert extent is not None
        self._extent = extent
        self._length = _length(extent, parts)
        self._parts = -(-extent // self._length)
        self._number = Var("part", INT32, index=True)
        self._inner = Var(self._axis.name, INT32, index=True)
        self._place: Expr = self._number * self._length + self._inner
        rest = self._extent - self._number * self._length
        whole = self._parts * self._length == self._extent
        self._range: Expr = as_expr(self._length) if whole else binary(BinaryOp.MIN, as_expr(self._length), rest)
        self._partial: dict[Buffer, Array] = {}  # the partial reduction of an array of the kernel
        self._within: dict[Buffer, Array] = {}  # the same for reductions that have the streamed axis

    def split(self, graph: Graph) -> Split:
        """The graph, split."""
        first = data_passes(self._kernel)[0]
        combined: dict[Array, Array] = {}
        for reduction in self._kernel.reductions:
            if self._axis in set(reduction.axes):
                self._within[reduction.array] = self._inner_reduction(reduction)
        for accumulation in first.accumulations:
            self._partial[accumulation.reduction.array] = self._part_of(accumulation)
        for accumulation in first.accumulations:
            array = accumulation.reduction.array
            combined[array] = self._combined(accumulation, combined)
        new = with_arrays(graph, combined)
        return Split(new, tuple(self._partial.values()))

    def expr(self, node: Expr) -> Expr:
        """An expression over one range."""
        if node is self._axis:
            return self._place
        if isinstance(node, Load):
            reduction = self._kernel.by_array.get(node.buffer)  # type: ignore[call-overload]
            if reduction is not None:
                return self._read(reduction)
        return self.rebuild_expr(node)

    def _read(self, reduction: FusedReduction) -> Expr:
        """A read of a reduction of the kernel, in its range if it has one."""
        array = reduction.array
        if array in self._within:
            axes = [axis if axis is not self._axis else self._inner for axis in reduction.axes]
            return element(self._within[array], [self._number, *axes])
        if array in self._partial:
            return element(self._partial[array], [self._number, *reduction.axes])
        return element(array, _full(array, reduction.axes))

    def _extents(self, axes: Sequence[Var]) -> list[Expr]:
        return [self._kernel.extents[axis] for axis in axes]

    def _inner_reduction(self, reduction: FusedReduction) -> Array:
        """A reduction that an iteration computes, with the streamed axis restricted to a range."""
        own = [axis if axis is not self._axis else self._inner for axis in reduction.axes]
        shape = [self._range if axis is self._inner else self._kernel.extents[axis] for axis in own]
        definition = Reduction(
            (self._number, *own), reduction.reduced, tuple(self._extents(reduction.reduced)), reduction.combiner,
            self.expr(reduction.body),
        )  # fmt: skip
        array = reduction.array
        return define(array.name, (self._parts, *shape), array.dtype, definition, loc=array.loc)

    def _part_of(self, accumulation: Accumulation) -> Array:
        """A reduction over one range."""
        reduction, array = accumulation.reduction, accumulation.reduction.array
        others = tuple(axis for axis in reduction.reduced if axis is not self._axis)
        definition = Reduction(
            (self._number, *reduction.axes), (*others, self._inner), (*self._extents(others), self._range),
            reduction.combiner, self.expr(accumulation.body),
        )  # fmt: skip
        shape = (as_expr(self._parts), *self._extents(reduction.axes))
        return define(f"{array.name}_part", shape, reduction.body.dtype, definition, loc=array.loc)

    def _combined(self, accumulation: Accumulation, combined: dict[Array, Array]) -> Array:
        """The reduction of the parts, which replaces the original."""
        reduction, array = accumulation.reduction, accumulation.reduction.array
        part = Var("part", INT32, index=True)
        value: Expr = element(self._partial[array], [part, *reduction.axes])
        if accumulation.form is not None:
            before = {other: Buffer(other.name, other.shape, other.dtype, other.scope) for other in self._partial}
            factor = accumulation.form.rescale(before)
            if factor is not None:
                value = binary(BinaryOp.MUL, value, _AtParts(self, part, before, combined).expr(factor))
        definition = Reduction(reduction.axes, (part,), (as_expr(self._parts),), reduction.combiner, value)
        name = f"{array.name}_sum" if accumulation.final(value) is not value else array.name
        total = define(name, self._extents(reduction.axes), value.dtype, definition, loc=array.loc)
        result = _AtParts(self, part, {}, combined).expr(accumulation.final(element(total, reduction.axes)))
        indices = _full(array, reduction.axes)
        own = tuple(index if isinstance(index, Var) else Var("unit", INT32, index=True) for index in indices)
        return define(
            array.name, array.shape, array.dtype, Map(own, result), stored_dtype=array.stored_dtype, loc=array.loc
        )


class _AtParts(Rewriter):
    """Replaces reads of running values: those before an iteration by parts, others by combined arrays."""

    def __init__(
        self, splitter: _Splitter, part: Var, before: dict[Buffer, Buffer], combined: dict[Array, Array]
    ) -> None:
        self._splitter, self._number, self._combined = splitter, part, combined
        self._before = {marker: array for array, marker in before.items()}

    def expr(self, node: Expr) -> Expr:
        if not isinstance(node, Load):
            return self.rebuild_expr(node)
        kernel, buffer = self._splitter._kernel, node.buffer
        earlier = self._before.get(buffer)
        if earlier is not None:
            axes = kernel.by_array[earlier].axes  # type: ignore[index]
            return element(self._splitter._partial[earlier], [self._number, *axes])
        reduction = kernel.by_array.get(buffer)  # type: ignore[call-overload]
        if reduction is not None:
            array = self._combined.get(reduction.array, reduction.array)
            return element(array, _full(array, reduction.axes))
        return self.rebuild_expr(node)


def _full(array: Array, axes: Sequence[Var]) -> list[Expr]:
    """The indices of an array for the axes of a fused reduction, which has none for dimensions of extent 1."""
    own = iter(axes)
    return [ZERO if int_const(extent) == 1 else next(own) for extent in array.shape]
