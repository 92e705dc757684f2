"""Evaluates a graph in NumPy: the reference that all other ways to run a computation are compared with.

Scalar expressions have the meaning that `ir.evaluate` gives them; sums and products of floats are float64. Arrays are
not rounded to the dtype in which memory would hold them, except for results.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tilelang.dtypes import FLOAT64
from tilelang.errors import ArgumentError, CompilerBug
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Expr, Load, Var
from tilelang.ir.scalar import convert, data_binary
from tilelang.jit.kernel import JITKernel
from tilelang.level1.graph import (
    Array,
    Combiner,
    Graph,
    KernelCall,
    KernelResult,
    Map,
    Parameter,
    Reduction,
    Scan,
    Scatter,
    Sort,
)

MAX_ELEMENTS = 1 << 24
"""How many elements an expression is evaluated for at once."""


def evaluate_graph(graph: Graph, arguments: Sequence[np.ndarray], sizes: Mapping[Var, int]) -> list[np.ndarray]:
    """The results of a computation.

    Args:
        graph: The computation.
        arguments: An array for each parameter.
        sizes: The values of the symbolic sizes.
    """
    run = _Evaluator(arguments, sizes)
    for array in graph.arrays:
        run.define(array)
    return [np.asarray(convert(run.values[array], array.stored_dtype)) for array in graph.results]


class _Evaluator:
    """Computes the values of arrays, each in its `dtype`."""

    def __init__(self, arguments: Sequence[np.ndarray], sizes: Mapping[Var, int]) -> None:
        self._arguments, self._sizes = arguments, sizes
        self._calls: dict[KernelCall, list[Any]] = {}
        self.values: dict[Array, np.ndarray] = {}

    def define(self, array: Array) -> None:
        """Computes an array; those that it reads are known."""
        value = self._value(array)
        shape = self._shape(array.shape)
        assert value.shape == shape, (array.name, value.shape, shape)
        self.values[array] = np.asarray(convert(value, array.dtype)).reshape(shape)

    def _shape(self, extents: Sequence[Expr]) -> tuple[int, ...]:
        return tuple(int(evaluate(extent, self._sizes, exact=True)) for extent in extents)

    def _value(self, array: Array) -> np.ndarray:
        shape = self._shape(array.shape)
        match array.definition:
            case Parameter(position=position):
                return np.asarray(self._arguments[position])
            case Map(axes=axes, body=body):
                return self._body(body, axes, shape)
            case Reduction():
                return self._reduction(array.definition, shape)
            case Scan(axes=axes, along=along, combiner=combiner, body=body):
                values = self._in_float64(self._body(body, axes, shape))
                accumulate = np.add.accumulate if combiner is Combiner.SUM else np.multiply.accumulate
                return np.asarray(accumulate(values, axis=along, dtype=values.dtype))
            case Sort():
                return self._sort(array.definition, shape)
            case Scatter():
                return self._scatter(array.definition, array)
            case KernelResult(call=call, position=position):
                return np.asarray(self._call(call)[position])
        raise CompilerBug(f"reference: unknown definition {type(array.definition).__name__}")

    # -- expressions ----------------------------------------------------------------------------------------
    def _body(self, body: Expr, axes: Sequence[Var], shape: Sequence[int]) -> np.ndarray:
        """An expression for all positions of a shape."""
        if math.prod(shape) == 0:
            return np.zeros(shape, body.dtype.numpy)
        positions = np.meshgrid(*[np.arange(n) for n in shape], indexing="ij", sparse=True) if shape else []
        value = evaluate(body, {**self._sizes, **dict(zip(axes, positions, strict=True))}, load=self._load)
        return np.broadcast_to(np.asarray(convert(value, body.dtype)), shape)

    def _load(self, load: Load, indices: tuple[Any, ...]) -> Any:
        """An element, or 0 out of bounds: such elements are not selected, or undefined."""
        assert isinstance(load.buffer, Array)
        values = self.values[load.buffer]
        if not indices:
            return values[()]
        inside = np.asarray(True)
        for index, extent in zip(indices, values.shape, strict=True):
            inside = inside & (np.asarray(index) >= 0) & (np.asarray(index) < extent)
        zero = np.zeros((), values.dtype)
        if values.size == 0:
            return np.broadcast_to(zero, inside.shape)[()]
        clipped = tuple(np.clip(index, 0, extent - 1) for index, extent in zip(indices, values.shape, strict=True))
        return np.where(inside, values[clipped], zero).astype(values.dtype, copy=False)[()]

    # -- definitions ----------------------------------------------------------------------------------------
    def _reduction(self, reduction: Reduction, shape: tuple[int, ...]) -> np.ndarray:
        extents = self._shape(reduction.extents)
        over = tuple(range(len(shape), len(shape) + len(extents)))
        axes = (*reduction.axes, *reduction.reduced)
        if shape and shape[0] > 1 and math.prod((*shape, *extents)) > MAX_ELEMENTS:
            return np.concatenate([self._rows(reduction, shape, start) for start in range(shape[0])])
        values = self._body(reduction.body, axes, (*shape, *extents))
        neutral = reduction.combiner.neutral(reduction.body.dtype)
        return _combined(reduction.combiner, self._in_float64(values), over, neutral)

    def _rows(self, reduction: Reduction, shape: tuple[int, ...], start: int) -> np.ndarray:
        """The part of a large reduction at one position of the first axis."""
        first, row = reduction.axes[0], Var(reduction.axes[0].name, reduction.axes[0].dtype, index=True)
        part = dataclasses.replace(reduction, axes=(row, *reduction.axes[1:]))
        inner = _Evaluator(self._arguments, {**self._sizes, first: start})
        inner.values = self.values
        return inner._reduction(part, (1, *shape[1:]))

    @staticmethod
    def _in_float64(values: np.ndarray) -> np.ndarray:
        """Floats as float64."""
        is_float = values.dtype.kind not in "biu" and "int" not in values.dtype.name
        return values.astype(FLOAT64.numpy) if is_float else values

    def _sort(self, sort: Sort, shape: tuple[int, ...]) -> np.ndarray:
        extent = self._shape((sort.extent,))[0]
        whole = (*shape[: sort.along], extent, *shape[sort.along + 1 :])
        values = self._body(sort.body, sort.axes, whole)
        keys = self._in_float64(values)
        if sort.descending:
            backwards = np.flip(np.argsort(np.flip(keys, sort.along), axis=sort.along, kind="stable"), sort.along)
            order = extent - 1 - backwards
        else:
            order = np.argsort(keys, axis=sort.along, kind="stable")
        found = order if sort.gives_index else np.take_along_axis(values, order, sort.along)
        return np.take(found, np.arange(shape[sort.along]), axis=sort.along)

    def _scatter(self, scatter: Scatter, array: Array) -> np.ndarray:
        result = np.array(convert(self.values[scatter.base], array.dtype))
        shape = self._shape(scatter.extents)
        updates = np.asarray(convert(self._body(scatter.body, scatter.axes, shape), array.dtype))
        places = [self._body(index, scatter.axes, shape) for index in scatter.indices]
        for position in np.ndindex(*shape):
            place = tuple(int(each[position]) for each in places)
            if all(0 <= n < extent for n, extent in zip(place, result.shape, strict=True)):
                new = updates[position]
                if scatter.combiner is not None:
                    new = data_binary(scatter.combiner.operator, result[place], new, array.dtype)
                result[place] = new
        return result

    def _call(self, call: KernelCall) -> list[Any]:
        """The results of a Level 2 kernel, by the reference interpreter."""
        if call not in self._calls:
            func = call.kernel.prim_func
            kernel = JITKernel(func, None if func.outputs else call.kernel.out_idx, "reference")
            result = kernel(*[self._stored(a) if isinstance(a, Array) else a for a in call.arguments])
            self._calls[call] = list(result) if isinstance(result, list | tuple) else [result]
        return self._calls[call]

    def _stored(self, array: Array) -> np.ndarray:
        """An array as memory holds it."""
        return np.array(convert(self.values[array], array.stored_dtype))


def _combined(combiner: Combiner, values: np.ndarray, axes: tuple[int, ...], neutral: float) -> np.ndarray:
    """A reduction of values along their last axes."""
    outer = values.shape[: axes[0]]
    flat = values.reshape(*outer, math.prod(values.shape[axes[0] :]))
    if combiner.gives_index:
        function: Callable[..., Any] = np.argmax if combiner is Combiner.ARGMAX else np.argmin
        if flat.shape[-1] == 0:
            raise ArgumentError(f"{combiner.value}: an axis has no elements")
        return np.asarray(function(flat, axis=-1))
    if flat.shape[-1] == 0:
        return np.full(outer, neutral, values.dtype)
    ufuncs = {Combiner.SUM: np.add, Combiner.PROD: np.multiply, Combiner.MIN: np.minimum, Combiner.MAX: np.maximum}
    return np.asarray(ufuncs[combiner].reduce(flat, axis=-1, dtype=values.dtype))
