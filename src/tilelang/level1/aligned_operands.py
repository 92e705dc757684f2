"""Pads the rows of gemm operands to multiples of 16 bytes.

Vector accesses and copy engines need aligned rows. An additional kernel copies the operand to padded rows, which costs
about as much as reading it once; the gemm reads each element many times.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from tilelang.ir.expr import Const, Load, Var, const, int_const, select
from tilelang.level1.contraction import contraction, without_widening
from tilelang.level1.deduplicate import with_arrays
from tilelang.level1.fused import FusedKernel
from tilelang.level1.graph import Array, Graph, Map, Parameter, axes_for, define, element

ALIGNMENT_BYTES = 16
_MIN_REUSE = 256  # rows and columns of a gemm: how often each element of the other operand is read


def with_aligned_operands(graph: Graph, kernels: Sequence[FusedKernel]) -> tuple[Graph, list[Array]]:
    """The graph with aligned copies of parameters that large gemms read, and the copies, which must be stored.

    Args:
        graph: The computation.
        kernels: Its kernels.
    """
    copies = {array: _aligned(array) for array in dict.fromkeys(_unaligned(kernels))}
    return (with_arrays(graph, copies), list(copies.values())) if copies else (graph, [])


def _unaligned(kernels: Sequence[FusedKernel]) -> Iterator[Array]:
    """The parameters with unaligned rows that large gemms read."""
    for kernel in kernels:
        for reduction in kernel.reductions:
            product = contraction(reduction)
            if product is None:
                continue
            if any(_extent(kernel, side) < _MIN_REUSE for side in (product.rows, product.columns)):
                continue
            for operand in map(without_widening, (product.a, product.b)):
                if isinstance(operand, Load) and isinstance(operand.buffer, Array) and _is_unaligned(operand.buffer):
                    yield operand.buffer


def _extent(kernel: FusedKernel, axes: Sequence[Var]) -> int:
    """The elements along axes; 0 if they are not known."""
    return math.prod(int_const(kernel.extents[axis]) or 0 for axis in axes)


def _is_unaligned(array: Array) -> bool:
    if not isinstance(array.definition, Parameter) or array.rank < 2 or array.static_shape is None:
        return False
    return array.static_shape[-1] * array.dtype.storage_bytes % ALIGNMENT_BYTES != 0


def _aligned(array: Array) -> Array:
    """A copy of an array with rows padded by zeros."""
    assert array.static_shape is not None
    columns, step = array.static_shape[-1], ALIGNMENT_BYTES // array.dtype.storage_bytes
    shape = (*array.shape[:-1], const(-(-columns // step) * step, array.shape[-1].dtype))
    axes = axes_for(shape)
    value = select(axes[-1] < columns, element(array, axes), Const(0, array.dtype))
    return define(f"{array.name}_aligned", shape, array.dtype, Map(axes, value), loc=array.loc)
