"""Splits a graph at its calls of Level 2 kernels, into graphs without calls.

Arrays that two of these graphs need are computed by both; only the arguments and results of calls pass through memory.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from tilelang.ir.visit import variables_of
from tilelang.level1.deduplicate import with_sources
from tilelang.level1.graph import Array, Graph, KernelCall, KernelResult, Parameter
from tilelang.records import record


@record(eq=False)
class Segment:
    """A part of a computation.

    Attributes:
        graph: What is computed; it has no calls.
        inputs: The arrays of the whole graph that its parameters stand for.
        outputs: The arrays of the whole graph that its results stand for.
        call: The call that follows; None for the last part.
        made: The results of that call that are used.
    """

    graph: Graph
    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]
    call: KernelCall | None
    made: tuple[Array, ...]


def has_calls(graph: Graph) -> bool:
    """Whether a graph calls kernels."""
    return any(isinstance(array.definition, KernelResult) for array in graph.arrays)


def split_at_calls(graph: Graph) -> list[Segment]:
    """The parts of a graph in the order in which they run; the last one has its results."""
    results: dict[KernelCall, list[Array]] = {}
    for array in graph.arrays:
        if isinstance(array.definition, KernelResult):
            results.setdefault(array.definition.call, []).append(array)
    known = list(graph.parameters)
    segments: list[Segment] = []
    for call, made in results.items():
        needed = [each for each in call.arguments if isinstance(each, Array) and each not in known]
        segments.append(_segment(graph, len(segments), known, dict.fromkeys(needed), call, made))
        known += made
    segments.append(_segment(graph, len(segments), known, graph.results, None, ()))
    return segments


def _segment(
    graph: Graph,
    number: int,
    known: Sequence[Array],
    outputs: Iterable[Array],
    call: KernelCall | None,
    made: Sequence[Array],
) -> Segment:
    used = Graph(graph.name, tuple(known), tuple(outputs))
    read = {source for array in used.arrays[len(known) :] for source in array.sources} | set(used.results)
    inputs = tuple(array for array in known if array in read)
    new: dict[Array, Array] = {}
    for position, array in enumerate(inputs):
        new[array] = dataclasses.replace(array, definition=Parameter(position))
    for array in used.arrays[len(known) :]:
        new[array] = dataclasses.replace(array, definition=with_sources(array.definition, new))
    results = tuple(new[array] for array in used.results)
    part = Graph(f"{graph.name}_{number}", tuple(new[array] for array in inputs), results, graph.loc)
    required = tuple(each for each in graph.required if variables_of(each.extent) <= set(part.symbols))
    part = dataclasses.replace(part, required=required)
    return Segment(part, inputs, used.results, call, tuple(made))
