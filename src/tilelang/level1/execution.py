"""Runs a graph: in NumPy, as one compiled program, or as several with the user's kernels between them."""

from __future__ import annotations

import dataclasses
import itertools
import linecache
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tilelang.api import public
from tilelang.ir.func import PrimFunc, TensorParam
from tilelang.ir.stmt import Seq
from tilelang.jit.func_options import options_of
from tilelang.jit.kernel import JITKernel
from tilelang.jit.options import JitOptions
from tilelang.jit.prediction import predicted
from tilelang.jit.program import lowered as lower_to_threads
from tilelang.level1.calls import signature_of, too_few_elements
from tilelang.level1.graph import Array, Graph, KernelResult
from tilelang.level1.lower import Lowered
from tilelang.level1.reference import evaluate_graph
from tilelang.level1.split_calls import Segment, split_at_calls
from tilelang.options import PassConfigKey
from tilelang.performance.prediction import Prediction
from tilelang.runtime.arguments import Devices, bind
from tilelang.runtime.arrays import ArrayView
from tilelang.runtime.parameters import Signature
from tilelang.targets.target import Target

_PROGRAMS = itertools.count(1)
_SHARING = {key.value for key in (PassConfigKey.TL_SPLIT, PassConfigKey.TL_WORKSPACE_SPLIT, PassConfigKey.TL_CLUSTER)}


def load_program(text: str) -> dict[str, Any]:
    """The names of a module of this text, whose lines errors can show."""
    file = f"<tilelang program {next(_PROGRAMS)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names: dict[str, Any] = {"__name__": file}
    exec(compile(text, file, "exec"), names)
    return names


def compile_lowered(graph: Graph, lowered: Lowered, options: JitOptions) -> JITKernel:
    """The kernel of a lowered graph: it takes the parameters of the graph, and returns its results."""
    func = program_of(lowered.text, lowered.entry)
    known = dataclasses.replace(func, name=graph.name, loc=graph.loc)  # messages are about the user's function
    return options_for(graph, lowered, options).compile(known)


def program_of(text: str, entry: str) -> PrimFunc:
    """The Level 2 program of a module's text, staged by the function of this name in it."""
    func: PrimFunc = load_program(text)[entry].get_tir()
    return func


def options_for(graph: Graph, lowered: Lowered, options: JitOptions) -> JitOptions:
    """The options of its kernel: the user's, which override those that the program text sets."""
    count = len(graph.parameters)
    outputs = list(range(count, count + len(graph.results)))
    return dataclasses.replace(options, out_idx=outputs, pass_configs=pass_configs_of(lowered, options))


def pass_configs_of(lowered: Lowered, options: JitOptions) -> dict[str, object]:
    """The `pass_configs` of tilings, overridden by the user's; if those say how blocks share tiles, tilings do not."""
    own = {str(getattr(key, "value", key)): value for key, value in (options.pass_configs or {}).items()}
    chosen = {name: value for tiling in lowered.tilings for name, value in tiling.pass_configs.items()}
    if not _SHARING.isdisjoint(own):
        chosen = {name: value for name, value in chosen.items() if name not in _SHARING}
    return {**chosen, **own}


def predict_program(lowered: Lowered, target: Target, options: JitOptions) -> Prediction:
    """The predicted time of a Level 2 program; it is lowered for that, but not compiled.

    Raises:
        OptionError: The model has no figures of the machine.
        ProgramValueError: A size is symbolic.
    """
    func = program_of(lowered.text, lowered.entry)
    compile_options = options_of(func, pass_configs_of(lowered, options), options.compile_flags)
    return predicted(lower_to_threads(func, target, compile_options), target, compile_options)


@public
class KernelSequence:
    """A compiled computation that calls Level 2 kernels: they run between the kernels that are made of the rest.

    It takes the arrays among the arguments of the computation in order, and returns those of the result, or writes them
    into arrays that are passed after those.

    Attributes:
        target: What it is compiled for.
        kernels: All kernels in the order in which they run, those that the computation calls among them.
    """

    def __init__(self, graph: Graph, lowered: Lowered, target: Target, options: JitOptions) -> None:
        self.target = target
        self._graph = graph
        self._steps = _steps(graph, lowered, options)
        called = [(kernel, part.call.kernel if part.call else None) for part, kernel in self._steps]
        self.kernels = tuple(kernel for pair in called for kernel in pair if kernel is not None)
        inputs = tuple(TensorParam(array) for array in graph.parameters)
        self._inputs = Signature.of(PrimFunc(graph.name, inputs, Seq(()), symbols=graph.symbols, loc=graph.loc))
        self._accepted: set[Any] = set()  # shapes and dtypes of arrays that were checked

    def __repr__(self) -> str:
        return f"KernelSequence({self._graph.name}, target={str(self.target)!r})"

    def __call__(self, *arrays: Any) -> Any:
        """Runs the kernels.

        Raises:
            ArgumentError: An argument does not fit; nothing has been run.
        """
        count = len(self._graph.parameters)
        self._check(arrays[:count])
        values = dict(zip(self._graph.parameters, arrays, strict=False))
        for part, kernel in self._steps[:-1]:
            _run_part(part, kernel, values)
        part, kernel = self._steps[-1]
        assert kernel is not None
        return kernel(*[values[array] for array in part.inputs], *arrays[count:])

    def _check(self, arrays: Sequence[Any]) -> None:
        key = tuple((getattr(array, "shape", None), str(getattr(array, "dtype", None))) for array in arrays)
        if key not in self._accepted:
            devices = Devices(self.target.arch, lambda address: 0, lambda: 0) if self.target.is_gpu else None
            bind(self._inputs, arrays, devices)
            self._accepted.add(key)

    def get_kernel_source(self) -> str:
        """The generated code of all kernels, one after the other."""
        return "\n".join(kernel.get_kernel_source() for kernel in self.kernels)


def arrays_of_parts(
    graph: Graph, lowered: Lowered, options: JitOptions, arrays: Sequence[Any]
) -> Iterator[tuple[Graph, list[Any]]]:
    """The graph of each part that has a program, and what it takes in a call with these arrays."""
    values = dict(zip(graph.parameters, arrays, strict=True))
    for part, kernel in _steps(graph, lowered, options):
        if kernel is not None:
            yield part.graph, [values[array] for array in part.inputs]
        _run_part(part, kernel, values)


def _steps(graph: Graph, lowered: Lowered, options: JitOptions) -> list[tuple[Segment, JITKernel | None]]:
    """The parts of a graph with the kernels of their programs, if they have any."""
    programs = iter(lowered.parts)
    return [
        (part, compile_lowered(part.graph, next(programs), options) if part.outputs else None)
        for part in split_at_calls(graph)
    ]


def _run_part(part: Segment, kernel: JITKernel | None, values: dict[Array, Any]) -> None:
    """Runs a part and the call after it, and adds their results to the values."""
    if kernel is not None:
        results = kernel(*[values[array] for array in part.inputs])
        values.update(zip(part.outputs, _as_list(results), strict=True))
    if part.call is not None:
        passed = [values[each] if isinstance(each, Array) else each for each in part.call.arguments]
        made = _as_list(part.call.kernel(*passed))
        values.update((array, made[_position(array)]) for array in part.made)


def _as_list(results: Any) -> list[Any]:
    return results if isinstance(results, list) else [results]


def _position(array: Array) -> int:
    assert isinstance(array.definition, KernelResult)
    return array.definition.position


def reference_of(graph: Graph) -> Callable[..., Any]:
    """A function that computes a graph in NumPy, on host arrays."""
    signature = signature_of(graph)
    count = len(graph.parameters)

    def run(*arrays: Any) -> Any:
        bound = bind(signature, arrays)
        views = [value.as_numpy() for value in bound.values if isinstance(value, ArrayView)]
        sizes = dict(zip(signature.symbols, bound.symbols, strict=True))
        refused = too_few_elements(graph, arrays)
        if refused is not None:
            raise refused
        for view, result in zip(views[count:], evaluate_graph(graph, views[:count], sizes), strict=True):
            np.copyto(view, result)
        return bound.result()

    return run
