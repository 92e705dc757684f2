"""Makes one axis of two that are reduced together and are neighbors in memory wherever they are read.

A tile of the one axis is as long as a block needs it, also where images have rows of 7 elements. The arrays that are
read get another shape, by `T.reshape`.
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


def with_collapsed_axes(kernel: FusedKernel, reshaped: Reshape) -> FusedKernel:
    """The kernel with as few reduced axes as the arrays that it reads allow.

    Args:
        kernel: What it computes.
        reshaped: Gives the arrays that it reads instead.
    """
    for outer, inner in _neighbors(kernel):
        if _can_merge(kernel, outer, inner):
            return with_collapsed_axes(_collapsed(kernel, outer, inner, reshaped), reshaped)
    return kernel


class Reshapes:
    """The arrays of a program in other shapes, each made once."""

    def __init__(self) -> None:
        self._made: dict[tuple[Array, int], Array] = {}

    def __call__(self, array: Array, dim: int) -> Array:
        """See `Reshape`."""
        if (array, dim) not in self._made:
            shape = (*array.shape[:dim], _product(*array.shape[dim : dim + 2]), *array.shape[dim + 2 :])
            self._made[array, dim] = define(
                array.name, shape, array.dtype, Reshaped(array), stored_dtype=array.stored_dtype, loc=array.loc
            )
        return self._made[array, dim]


def _product(a: Expr, b: Expr) -> Expr:
    """The product of two constants."""
    return folded(a * b)


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
    """The dimension of which an axis is the index, if there is another one behind it."""
    return next((n for n, index in enumerate(load.indices[:-1]) if index is outer), None)


class _WithoutLoads(Rewriter):
    def expr(self, node: Expr) -> Expr:
        return as_expr(0) if isinstance(node, Load) else self.rebuild_expr(node)


def _collapsed(kernel: FusedKernel, outer: Var, inner: Var, reshaped: Reshape) -> FusedKernel:
    merged = Var(inner.name, inner.dtype, index=True)
    extent = _product(kernel.extents[outer], kernel.extents[inner])
    extents = {merged if axis is inner else axis: size for axis, size in kernel.extents.items() if axis is not outer}
    collapse = _Collapse(outer, merged, reshaped)
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
    def __init__(self, outer: Var, merged: Var, reshaped: Reshape) -> None:
        self._outer, self._merged, self._reshaped = outer, merged, reshaped

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
