"""Makes one axis of two that are reduced together and are neighbors in memory wherever they are read.

Tiles of the collapsed axis can be long, even where images have rows of 7 elements. The arrays that are read are
reshaped by `T.reshape`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Expr, Load, Var, as_expr, int_const
from tilelang.ir.visit import Rewriter, loads_of, variables_of
from tilelang.language.extents import folded
from tilelang.level1.fused import FusedKernel, FusedReduction
from tilelang.level1.graph import Array, Reshaped, define

Reshape = Callable[[Array, int], Array]
"""From an array and a dimension to the array in which that dimension and the next are one."""


def with_collapsed_axes(kernel: FusedKernel, reshape_array: Reshape) -> FusedKernel:
    """The kernel with as few reduced axes as the arrays that it reads allow.

    Args:
        kernel: What it computes.
        reshaped: Gives the arrays that it reads instead.
    """
    for outer, inner in _neighbors(kernel):
        if _can_merge(kernel, outer, inner):
            return with_collapsed_axes(_collapsed(kernel, outer, inner, reshape_array), reshape_array)
    return kernel


class Reshapes:
    """The arrays of a program in other shapes, each made once."""

    def __init__(self) -> None:
        self._define: dict[tuple[Array, int], Array] = {}

    def __call__(self, array: Array, dim: int) -> Array:
        """See `Reshape`."""
        if (array, dim) not in self._define:
            merged = folded(array.shape[dim] * array.shape[dim + 1])
            shape = (*array.shape[:dim], merged, *array.shape[dim + 2 :])
            self._define[array, dim] = define(
                array.name, shape, array.dtype, Reshaped(array), stored_dtype=array.stored_dtype, loc=array.loc
            )
        return self._define[array, dim]


def _neighbors(kernel: FusedKernel) -> Iterator[tuple[Var, Var]]:
    for reduction in kernel.reductions:
        yield from zip(reduction.reduced, reduction.reduced[1:], strict=False)


def _can_merge(kernel: FusedKernel, outer: Var, inner: Var) -> bool:
    """Whether two axes may become one: everything has both, as neighboring indices that cover two dimensions."""
    both = {outer, inner}
    if any(int_const(kernel.extents[axis]) is None for axis in both):
        return False
    for reduction in kernel.reductions:
        if not both.isdisjoint(reduction.axes):
            return False
        if not both.isdisjoint(reduction.reduced) and not _reduces_as_neighbors(reduction, outer, inner):
            return False
    if any(not both.isdisjoint(output.axes) for output in kernel.outputs):
        return False
    return all(_reads_as_neighbors(kernel, reduction.body, outer, inner) for reduction in kernel.reductions)


def _reduces_as_neighbors(reduction: FusedReduction, outer: Var, inner: Var) -> bool:
    pairs = zip(reduction.reduced, reduction.reduced[1:], strict=False)
    return any(a is outer and b is inner for a, b in pairs) and not reduction.combiner.gives_index


def _reads_as_neighbors(kernel: FusedKernel, body: Expr, outer: Var, inner: Var) -> bool:
    """Whether two axes occur only as neighboring indices of memory."""
    both = {outer, inner}
    for load in loads_of(body):
        if both.isdisjoint(variables_of(load)):
            continue
        dim = _dim_of(load, outer)
        if dim is None or load.buffer in kernel.by_array or load.indices[dim + 1] is not inner:
            return False
        others = (*load.indices[:dim], *load.indices[dim + 2 :])
        sizes = [int_const(size) for size in load.buffer.shape[dim : dim + 2]]
        if any(not both.isdisjoint(variables_of(index)) for index in others):
            return False
        if sizes != [int_const(kernel.extents[outer]), int_const(kernel.extents[inner])]:
            return False
    return both.isdisjoint(variables_of(_WithoutLoads().expr(body)))


def _dim_of(load: Load, outer: Var) -> int | None:
    """The dimension of which an axis is the index, if it is not the last one."""
    return next((n for n, index in enumerate(load.indices[:-1]) if index is outer), None)


class _WithoutLoads(Rewriter):
    def expr(self, node: Expr) -> Expr:
        return as_expr(0) if isinstance(node, Load) else self.rebuild_expr(node)


def _collapsed(kernel: FusedKernel, outer: Var, inner: Var, reshape_array: Reshape) -> FusedKernel:
    merged = Var(inner.name, inner.dtype, index=True)
    extent = folded(kernel.extents[outer] * kernel.extents[inner])
    extents = {merged if axis is inner else axis: size for axis, size in kernel.extents.items() if axis is not outer}
    collapse = _Collapse(outer, merged, reshape_array)
    reductions = tuple(
        dataclasses.replace(
            each,
            reduced=tuple(merged if axis is inner else axis for axis in each.reduced if axis is not outer),
            body=collapse.expr(each.body),
        )
        for each in kernel.reductions
    )
    return dataclasses.replace(kernel, extents={**extents, merged: extent}, reductions=reductions)


class _Collapse(Rewriter):
    def __init__(self, outer: Var, merged: Var, reshape_array: Reshape) -> None:
        self._outer, self._merged, self._reshaped = outer, merged, reshape_array

    def expr(self, node: Expr) -> Expr:
        if not isinstance(node, Load):
            return self.rebuild_expr(node)
        dim = _dim_of(node, self._outer)
        if dim is None:
            return node
        buffer: Buffer = node.buffer
        assert isinstance(buffer, Array)
        indices = (*node.indices[:dim], self._merged, *node.indices[dim + 2 :])
        return Load(self._reshaped(buffer, dim), indices, node.dtype)
