"""Calls of Level 2 kernels inside a computation: each stays a call, between the kernels that the compiler makes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilelang.errors import ArgumentError
from tilelang.ir.expr import Expr, Var
from tilelang.ir.visit import substitute, variables_of
from tilelang.jit.kernel import JITKernel
from tilelang.language.extents import difference, folded, shape_text
from tilelang.level1.elements import as_array, as_operand, new_array
from tilelang.level1.graph import Array, KernelCall, KernelResult
from tilelang.level1.promotion import OperandDType
from tilelang.level1.values import TracedArray
from tilelang.runtime.argument_specs import ArgumentSpec, Kind


def call_kernel(kernel: JITKernel, arguments: Sequence[Any]) -> Any:
    """The results of a kernel call in a computation: an array, or a list of arrays.

    Raises:
        ArgumentError: The arguments do not fit the kernel, or it returns nothing.
    """
    signature = kernel.signature
    if not signature.outputs:
        raise ArgumentError(
            f"{signature.name}: a kernel called in a computation returns its results, this one writes into arguments",
            hint="compile it with out_idx=[-1]",
        )
    if len(arguments) != len(signature.inputs):
        raise ArgumentError(
            f"{signature.name}: expected {len(signature.inputs)} arguments ({signature.names(signature.inputs)}), "
            f"got {len(arguments)}",
            hint="results are returned, and cannot be passed inside a computation",
        )
    sizes: dict[Var, Expr] = {}
    given: list[Any] = []
    for index, argument in zip(signature.inputs, arguments, strict=True):
        spec = signature.specs[index]
        given.append(_tensor(signature.name, spec, argument, sizes) if spec.kind is Kind.TENSOR else argument)
    call = KernelCall(kernel, tuple(given))
    results = []
    for position, index in enumerate(signature.outputs):
        param = signature.specs[index].tensor
        shape = [folded(substitute(extent, sizes)) for extent in param.shape]
        result = KernelResult(call, position)
        results.append(new_array(param.name, shape, result, param.dtype, OperandDType(param.dtype)))
    return results[0] if len(results) == 1 else results


def _tensor(kernel: str, spec: ArgumentSpec, argument: object, sizes: dict[Var, Expr]) -> Array:
    """The array that is passed for a tensor; adds the symbolic sizes that it determines.

    Raises:
        ArgumentError: Its shape or dtype is not that of the parameter.
    """
    param = spec.tensor
    array: TracedArray = as_array(as_operand(argument, kernel))
    if array.dtype != param.dtype:
        raise ArgumentError(
            f"{kernel}: '{param.name}' has dtype {array.dtype!s}, expected {param.dtype!s}",
            hint=f'pass {param.name}.astype("{param.dtype!s}")',
        )
    shape = array.node.shape
    for extent, found in zip(param.shape, shape, strict=False):
        if isinstance(extent, Var):
            sizes.setdefault(extent, found)
    known = [substitute(extent, sizes) for extent in param.shape if variables_of(extent) <= sizes.keys()]
    fits = len(known) == len(shape) and all(difference(a, b) == 0 for a, b in zip(known, shape, strict=True))
    if not fits:
        raise ArgumentError(
            f"{kernel}: '{param.name}' has shape {shape_text(shape)}, expected {shape_text(param.shape)}"
        )
    return array.node
