"""Splits a graph where it calls Level 2 kernels: into graphs without calls, between which the kernels run.

What two of these graphs have in common is computed by both; only results of kernels, and what kernels are given, pass
through memory.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tilelang.ir.visit import substitute
from tilelang.level1.graph import (
    Array,
    Definition,
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
        new[array] = dataclasses.replace(array, definition=_with_sources(array.definition, new))
    results = tuple(new[array] for array in used.results)
    part = Graph(f"{graph.name}_{number}", tuple(new[array] for array in inputs), results, graph.loc)
    return Segment(part, inputs, used.results, call, tuple(made))


def _with_sources(definition: Definition, new: dict[Array, Array]) -> Definition:
    """A definition that reads other arrays."""
    assert isinstance(definition, Map | Reduction | Scan | Sort | Scatter)
    buffers: Mapping[Any, Any] = new
    changes: dict[str, object] = {"body": substitute(definition.body, {}, buffers)}
    if isinstance(definition, Scatter):
        changes["base"] = new[definition.base]
        changes["indices"] = tuple(substitute(index, {}, buffers) for index in definition.indices)
    return dataclasses.replace(definition, **changes)  # type: ignore[arg-type]
