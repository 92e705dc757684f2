"""`@tilelang.compute`: a function on arrays, compiled once for each set of shapes, dtypes and Python values.

The function runs once on arrays without values; what it computes is a graph, from which kernels are made. Invariant:
calls with equal keys (`calls.Binding`) run the same kernels.
"""

from __future__ import annotations

import functools
import inspect
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload

import numpy as np

from tilelang.api import caller, public, strip_frames
from tilelang.errors import Loc, OptionError, StagingTypeError
from tilelang.jit.options import JitOptions
from tilelang.language.parameters import annotations_of
from tilelang.language.types import TensorType
from tilelang.level1.calls import Binding, bind_arguments, results_given, signature_of
from tilelang.level1.graph import Graph
from tilelang.level1.reference import evaluate_graph
from tilelang.level1.structure import Structure
from tilelang.level1.trace import is_tracing, trace
from tilelang.records import record
from tilelang.runtime.arguments import bind
from tilelang.runtime.arrays import ArrayView
from tilelang.targets.target import TargetLike


@record(eq=False)
class _Computation:
    """A function for one set of shapes, dtypes and Python values.

    Attributes:
        graph: What it computes.
        structure: How its result is made of the results of the graph.
        run: Runs it on the arrays of a call, and on those of its results if they are given; gives its results.
    """

    graph: Graph
    structure: Structure
    run: Callable[..., Any]


@public
class ComputeFunction:
    """A function marked `@tilelang.compute`.

    A call takes the arguments of the function: arrays of NumPy, torch, CuPy or JAX, lists, tuples and dicts of them,
    and Python values; it returns what the function returns, with arrays like those that were passed. `out=` is where
    results are written, in the form in which they are returned. Inside another function marked `@tilelang.compute`, a
    call is part of that.

    Attributes:
        function: The user's function.
        signature: Its signature.
        options: What the decorator was given.
    """

    __name__: str

    def __init__(
        self, function: types.FunctionType, options: JitOptions, namespace: Mapping[str, Any] | None = None
    ) -> None:
        self.function, self.options = function, options
        self.signature = inspect.signature(function)
        annotations = annotations_of(function, namespace or {})
        self._types = {name: kind for name, kind in annotations.items() if isinstance(kind, TensorType)}
        self._takes_out = "out" in self.signature.parameters
        self._computations: dict[Any, _Computation] = {}
        functools.update_wrapper(self, function)

    def __repr__(self) -> str:
        return f"<computation {self.__name__}{self.signature}>"

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """Runs the computation, which is compiled on the first call.

        Raises:
            ArgumentError: An argument does not fit; nothing has been run.
            TileLangError: Any of the package's errors that tracing and compiling can meet.
        """
        if is_tracing():
            return self.function(*args, **keywords)
        try:
            return self._run(args, keywords)
        except Exception as error:  # as `public`, without its cost on every call
            strip_frames(error)
            if sys.version_info >= (3, 11):
                raise
            raise error from error.__cause__

    def _run(self, args: Sequence[Any], keywords: dict[str, Any]) -> Any:
        out = None if self._takes_out else keywords.pop("out", None)
        binding = self._bind(args, keywords)
        computation = self._computation(binding)
        given = () if out is None else results_given(self.__name__, out, computation.structure)
        results = computation.run(*binding.arrays, *given)
        if out is not None:
            return out
        return computation.structure.rebuild([results] if len(computation.graph.results) == 1 else results)

    def graph(self, *args: Any, **keywords: Any) -> Graph:
        """What is computed for these arguments; its text has a line for each array.

        Arrays may be given, or stand-ins such as `T.Tensor((1024, 1024), "float16")`; annotated ones may be left out.
        """
        return self._computation(self._bind(args, keywords, may_omit=True)).graph

    def _bind(self, args: Sequence[Any], keywords: Mapping[str, Any], *, may_omit: bool = False) -> Binding:
        return bind_arguments(self.function, self.signature, self._types, args, keywords, may_omit=may_omit)

    def _computation(self, binding: Binding) -> _Computation:
        key = (binding.key, self.options.chosen())
        if key not in self._computations:
            if key[1][1] != "reference":
                raise OptionError(
                    f"{self.__name__}: computations are run by the reference only",
                    hint='write @tilelang.compute(execution_backend="reference")',
                )
            graph, structure = trace(self.__name__, self._loc(), binding.parameters, binding.call)
            self._computations[key] = _Computation(graph, structure, reference_of(graph))
        return self._computations[key]

    def _loc(self) -> Loc:
        code = self.function.__code__
        return Loc(code.co_filename, code.co_firstlineno, function=code.co_name)


def reference_of(graph: Graph) -> Callable[..., Any]:
    """Runs a graph by its meaning in NumPy, on host arrays."""
    signature = signature_of(graph)
    count = len(graph.parameters)

    def run(*arrays: Any) -> Any:
        bound = bind(signature, arrays)
        views = [value.as_numpy() for value in bound.values if isinstance(value, ArrayView)]
        sizes = dict(zip(signature.symbols, bound.symbols, strict=True))
        for view, result in zip(views[count:], evaluate_graph(graph, views[:count], sizes), strict=True):
            np.copyto(view, result)
        return bound.result()

    return run


@overload
def compute(function: Callable[..., Any]) -> Any: ...


@overload
def compute(
    function: None = None,
    *,
    target: TargetLike = None,
    execution_backend: str | None = None,
    verbose: bool | None = None,
    pass_configs: Mapping[str, object] | None = None,
    compile_flags: str | Sequence[str] | None = None,
) -> Callable[[Callable[..., Any]], Any]: ...


@public
def compute(
    function: Callable[..., Any] | None = None,
    *,
    target: TargetLike = None,
    execution_backend: str | None = None,
    verbose: bool | None = None,
    pass_configs: Mapping[str, object] | None = None,
    compile_flags: str | Sequence[str] | None = None,
) -> Any:
    """Makes a function on arrays a computation: `@tilelang.compute`, or with options.

    The function states what is computed, by `tilelang.numpy`; kernels, tiles and threads are the compiler's choice. It
    runs once for each set of shapes, dtypes and Python values, on arrays that have no values yet.

    Args:
        function: The function, where the decorator is used bare.
        target: What to compile for; "auto" or None takes the best target present.
        execution_backend: How kernels run, as for `JITKernel`; "reference" computes by the meaning in NumPy.
        verbose: Print the compiler's command line and log.
        pass_configs: Switches by `PassConfigKey` or its text.
        compile_flags: Appended to the compiler's command line; a text is split as a shell does.

    Raises:
        OptionError: The target, the backend or a key of `pass_configs` is unknown.
        StagingTypeError: What is decorated is no function.

    Example:
        `@tilelang.compute` on `def scaled(x, factor=2.0): return x * factor`, then `y = scaled(x)`
    """
    options = JitOptions(None, target, execution_backend, pass_configs, compile_flags, verbose)
    namespace = caller().f_locals

    @public
    def decorate(function: Callable[..., Any]) -> ComputeFunction:
        if not isinstance(function, types.FunctionType):
            raise StagingTypeError(f"@tilelang.compute needs a function, got {type(function).__name__}")
        return ComputeFunction(function, options, namespace)

    return decorate if function is None else decorate(function)
