"""Runs a graph: in NumPy, as one compiled program, or as several with the user's kernels between them."""

from __future__ import annotations

import dataclasses
import itertools
import linecache
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tilelang.ir.func import PrimFunc
from tilelang.jit.func_options import options_of
from tilelang.jit.kernel import JITKernel
from tilelang.jit.options import JitOptions
from tilelang.jit.prediction import predicted
from tilelang.jit.program import lowered as lower_to_threads
from tilelang.level1.calls import signature_of
from tilelang.level1.graph import Array, Graph, KernelResult
from tilelang.level1.lower import Lowered
from tilelang.level1.reference import evaluate_graph
from tilelang.level1.split_calls import Segment, split_at_calls
from tilelang.options import PassConfigKey
from tilelang.performance.prediction import Prediction
from tilelang.runtime.arguments import bind
from tilelang.runtime.arrays import ArrayView
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
    return options_for(graph, lowered, options).compile(program_of(lowered.text, lowered.entry))


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
    """The `pass_configs` of tilings, overridden by the user's; if he sets how blocks share tiles, tilings do not."""
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


def compile_with_calls(graph: Graph, lowered: Lowered, options: JitOptions) -> Callable[..., Any]:
    """A function that runs the parts of a graph and the kernels between them; it is called as a kernel of the graph."""
    steps = _steps(graph, lowered, options)

    def run(*arrays: Any) -> Any:
        count = len(graph.parameters)
        values = dict(zip(graph.parameters, arrays[:count], strict=True))
        for part, kernel in steps[:-1]:
            _run_part(part, kernel, values)
        part, kernel = steps[-1]
        assert kernel is not None
        return kernel(*[values[array] for array in part.inputs], *arrays[count:])

    return run


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
    """Runs a part and the call behind it, and adds their results to the values."""
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
        for view, result in zip(views[count:], evaluate_graph(graph, views[:count], sizes), strict=True):
            np.copyto(view, result)
        return bound.result()

    return run
