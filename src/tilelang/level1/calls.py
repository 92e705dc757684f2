"""What a call of a function marked `@tilelang.compute` passes: which arguments are arrays, and which are Python values.

Takes the arguments of a call, gives a `Binding`: the arrays in order, and a key that is equal for calls of one graph.
Parameters annotated with `T.Tensor` have the shape of the annotation, whose symbolic sizes stay open; others have the
shape of the argument.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilelang.dtypes import DType
from tilelang.errors import ArgumentError, ProgramValueError
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Expr, Var, as_expr, int_const
from tilelang.ir.func import PrimFunc, TensorParam
from tilelang.ir.stmt import Seq
from tilelang.ir.visit import variables_of
from tilelang.jit.signature import bind_call, is_array, key_of_value
from tilelang.language.extents import shape_text
from tilelang.language.types import TensorType
from tilelang.level1.graph import Array, Graph
from tilelang.level1.structure import Structure, flatten
from tilelang.level1.trace import ParameterSpec
from tilelang.records import record
from tilelang.runtime.arrays import borrow
from tilelang.runtime.parameters import Signature


@record(eq=False)
class Binding:
    """The arguments of a call.

    Attributes:
        key: Equal for calls that have the same graph.
        parameters: The arrays as parameters of that graph, in order.
        arrays: What the call passes for them; stand-ins where nothing is run.
        call: Calls the function with other arrays in their place.
    """

    key: tuple[Any, ...]
    parameters: tuple[ParameterSpec, ...]
    arrays: tuple[Any, ...]
    call: Callable[[Sequence[Any]], Any]

    def described(self) -> dict[str, str]:
        """The arguments as texts: arrays by dtype and shape, other values as in Python."""
        texts = {each.name: f"{each.dtype!s} [{', '.join(map(str, each.shape))}]" for each in self.parameters}
        values = [part for part in self.key if isinstance(part, tuple) and len(part) == 2]
        return texts | {str(name): _value_text(value) for name, value in values}


def _value_text(key: Any) -> str:
    """The text of the value that a key (`key_of_value`) is made of."""
    match key:
        case ("dtype", name):
            return repr(name)
        case (type() as kind, *items) if issubclass(kind, list | tuple):
            inner = ", ".join(map(_value_text, items))
            return f"[{inner}]" if issubclass(kind, list) else f"({inner}{',' * (len(items) == 1)})"
        case (type() as kind, *items) if kind is dict:
            return "{" + ", ".join(f"{name}: {_value_text(value)}" for name, value in items) + "}"
        case (type() as kind, str(digits)) if issubclass(kind, float):
            return repr(float.fromhex(digits))
        case (type(), value):
            return repr(value)
    return repr(key)


def bind_arguments(
    function: Callable[..., Any],
    signature: inspect.Signature,
    types: Mapping[str, TensorType],
    args: Sequence[Any],
    keywords: Mapping[str, Any],
    *,
    may_omit: bool = False,
) -> Binding:
    """Sorts the arguments of a call.

    Args:
        function: The user's function.
        signature: Its signature.
        types: The annotations of parameters that are tensors, by name.
        args: Positional arguments.
        keywords: Arguments by name.
        may_omit: Whether parameters that are annotated as tensors may be left out.

    Raises:
        ArgumentError: The call does not fit the signature, or a dtype is not supported.
    """
    name = function.__name__
    if may_omit:
        given = bind_call(name, signature, args, keywords, partial=True)
        keywords = {**keywords, **{each: kind for each, kind in types.items() if each not in given}}
    values = bind_call(name, signature, args, keywords)
    classifier = _ArgumentClassifier(name, types)
    parts = {parameter: classifier.classify(parameter, value) for parameter, value in values.items()}

    def call(arrays: Sequence[Any]) -> Any:
        filled = {parameter: fill(arrays) for parameter, fill in parts.items()}
        bound = inspect.BoundArguments(signature, filled)
        return function(*bound.args, **bound.kwargs)

    return Binding(tuple(classifier.key), tuple(classifier.parameters), tuple(classifier.arrays), call)


class _ArgumentClassifier:
    """Collects the arrays among the arguments of a call."""

    def __init__(self, name: str, types: Mapping[str, TensorType]) -> None:
        self._name, self._types = name, types
        self.key: list[Any] = []
        self.parameters: list[ParameterSpec] = []
        self.arrays: list[Any] = []

    def classify(self, parameter: str, value: Any) -> Callable[[Sequence[Any]], Any]:
        """Records an argument; gives the function that rebuilds it from the arrays of a call."""
        leaves, structure = flatten(value)
        if not any(_is_tensor(leaf) for leaf in leaves):
            self.key.append((parameter, key_of_value(value)))
            return lambda arrays: value
        places: list[tuple[int | None, Any]] = []
        for path, leaf in zip(structure.paths(parameter), leaves, strict=True):
            places.append((len(self.arrays), None) if _is_tensor(leaf) else (None, leaf))
            self.key.append(self._array(path, leaf) if _is_tensor(leaf) else (path, key_of_value(leaf)))
        self.key.append(structure)
        return lambda arrays: structure.rebuild([leaf if n is None else arrays[n] for n, leaf in places])

    def _array(self, path: str, value: Any) -> tuple[Any, ...]:
        """Records an array; gives its part of the key."""
        kind = self._types.get(path)
        shape, dtype = (kind.shape, kind.dtype) if kind is not None else self._shape_and_dtype(path, value)
        name = "".join(letter if letter.isalnum() else "_" for letter in path.replace("]", "").replace("'", ""))
        self.parameters.append(ParameterSpec(name, shape, dtype))
        self.arrays.append(value)
        return (path, None if kind is not None else tuple(map(str, shape)), str(dtype))

    def _shape_and_dtype(self, path: str, value: Any) -> tuple[tuple[Expr, ...], DType]:
        if isinstance(value, TensorType):
            return value.shape, value.dtype
        view = borrow(value)
        if view is None or view.dtype is None:
            text = type(value).__name__ if view is None else f"dtype {view.dtype_text}"
            raise ArgumentError(f"{self._name}: '{path}' has no supported dtype, got {text}")
        return tuple(as_expr(extent) for extent in view.shape), view.dtype


def _is_tensor(value: Any) -> bool:
    return isinstance(value, TensorType) or is_array(value)


def signature_of(graph: Graph) -> Signature:
    """What a call of a graph must pass: its parameters; results are allocated and returned, if they are not passed."""
    count = len(graph.parameters)
    names = [*(array.name for array in graph.parameters), *(f"out{n}" for n in range(len(graph.results)))]
    arrays = zip(names, (*graph.parameters, *graph.results), strict=True)
    params = tuple(TensorParam(Buffer(name, a.shape, a.stored_dtype, Scope.GLOBAL)) for name, a in arrays)
    outputs = tuple(range(count, len(params)))
    return Signature.of(PrimFunc(graph.name, params, Seq(()), symbols=graph.symbols, outputs=outputs, loc=graph.loc))


def too_few_elements(graph: Graph, arrays: Sequence[Any]) -> ProgramValueError | None:
    """The error of a call that makes a symbolic extent too small; None for other calls."""
    sizes: dict[Var, int] = {}
    for parameter, array in zip(graph.parameters, arrays, strict=False):
        view = borrow(array)
        if view is not None and len(view.shape) == parameter.rank:
            pairs = zip(parameter.shape, view.shape, strict=True)
            sizes.update({extent: size for extent, size in pairs if isinstance(extent, Var)})
    for each in graph.required:
        if variables_of(each.extent) <= sizes.keys() and evaluate(each.extent, sizes) < each.least:
            return ProgramValueError(each.message, loc=each.loc, hint=each.hint)
    return None


def output_arrays(graph: Graph, out: Any, structure: Structure) -> list[Any]:
    """The arrays of `out=`, in the order of results.

    Raises:
        ArgumentError: They are not made like the result of the function, or one has another shape or dtype.
    """
    leaves, given = flatten(out)
    paths = structure.paths("out")
    if given.paths("out") != paths:
        raise ArgumentError(
            f"{graph.name}: out is {_structure_text(given)}, but the function returns {_structure_text(structure)}",
            loc=graph.loc,
            hint="pass arrays in the form in which they are returned",
        )
    for path, leaf, result in zip(paths, leaves, graph.results, strict=True):
        _check_output(graph, path, leaf, result)
    return leaves


def _check_output(graph: Graph, path: str, leaf: Any, result: Array) -> None:
    """Refuses an array of another dtype or shape, as far as that is known without the sizes of the call."""
    view = borrow(leaf)
    if view is None:
        raise ArgumentError(f"{graph.name}: '{path}' is {type(leaf).__name__}, not an array", loc=graph.loc)
    if view.dtype != result.stored_dtype:
        raise ArgumentError(
            f"{graph.name}: '{path}' has dtype {view.dtype_text}, but the result is {result.stored_dtype!s}",
            loc=graph.loc,
            hint=f"pass an array of {result.stored_dtype!s}, or convert the result by x.astype(...) in the function",
        )
    wanted = [int_const(extent) for extent in result.shape]
    if len(view.shape) != result.rank or any(n not in (None, m) for n, m in zip(wanted, view.shape, strict=True)):
        raise ArgumentError(
            f"{graph.name}: '{path}' has shape {shape_text(view.shape)}, but the result has {shape_text(result.shape)}",
            loc=graph.loc,
        )


def _structure_text(structure: Structure) -> str:
    if structure.kind is None:
        return "an array"
    if issubclass(structure.kind, dict):
        return f"a dict with {', '.join(repr(key) for key in structure.keys)}"
    return f"a {structure.kind.__name__} of {len(structure.parts)}"
