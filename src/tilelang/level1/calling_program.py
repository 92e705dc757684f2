"""The Python module of a graph that calls Level 2 kernels: a program for each part, and a function that runs all.

The called kernels are the user's, so the function takes them as arguments. Without calls, the module is that of the one
program.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilelang.dtypes import INT32
from tilelang.errors import TuningError
from tilelang.ir.expr import Var
from tilelang.ir.print_expr import ExprPrinter
from tilelang.jit.kernel import JITKernel
from tilelang.level1.graph import Array, Graph, KernelResult
from tilelang.level1.launch_text import INDENT
from tilelang.level1.line_wrap import wrapped
from tilelang.level1.lower import Lowered, lower, module_header
from tilelang.level1.split_calls import Segment, has_calls, split_at_calls
from tilelang.targets.target import Target


def lower_computation(graph: Graph, target: Target, *, tilings: Sequence[str] = ()) -> Lowered:
    """The Level 2 program of a graph, or those of its parts between calls.

    Args:
        graph: The computation.
        target: What it is for.
        tilings: The text of a tiling for each kernel that is made, instead of what is expected to be fastest.

    Raises:
        TuningError: There is no such tiling.
    """
    if not has_calls(graph):
        return lower(graph, target, tilings=tilings)
    segments = split_at_calls(graph)
    parts = [lower(segment.graph, target) for segment in segments if segment.outputs]
    if tilings:
        parts = _with_tilings(graph, parts, [s.graph for s in segments if s.outputs], target, tilings)
    through = [array for segment in segments[:-1] for array in (*segment.outputs, *segment.made)]
    return Lowered(
        _text(graph, segments, parts),
        graph.name,
        [kernel for part in parts for kernel in part.kernels],
        [tiling for part in parts for tiling in part.tilings],
        [choices for part in parts for choices in part.choices],
        [visited for part in parts for visited in part.visited],
        [kept for part in parts for kept in part.kept],
        [*(array for part in parts for array in part.memory), *through],
        parts,
    )


def _with_tilings(
    graph: Graph, parts: Sequence[Lowered], graphs: Sequence[Graph], target: Target, tilings: Sequence[str]
) -> list[Lowered]:
    """The programs of the parts, divided as given."""
    count = sum(len(part.tilings) for part in parts)
    if count != len(tilings):
        raise TuningError(
            f"{graph.name}: it has {count} kernels, and the decision has tilings of {len(tilings)}",
            hint=f"tune it again and export: {graph.name}.tune(...)",
        )
    rest = iter(tilings)
    return [
        lower(own, target, tilings=[next(rest) for _ in part.tilings]) for part, own in zip(parts, graphs, strict=True)
    ]


def _text(graph: Graph, segments: Sequence[Segment], parts: Sequence[Lowered]) -> str:
    names = ExprPrinter()
    for word in ("T", "tilelang", "run", graph.name, *(part.entry for part in parts)):
        names.name(Var(word, INT32))
    kernels: dict[JITKernel, str] = {}
    for segment in segments:
        if segment.call is not None and segment.call.kernel not in kernels:
            kernels[segment.call.kernel] = names.name(Var(segment.call.kernel.prim_func.name, INT32))
    programs = [names.name(Var(f"{part.entry}_kernel", INT32)) for part in parts]
    shown = {array: names.name(array) for array in graph.parameters}
    rest = iter(programs)
    lines = []
    for segment in segments:
        if segment.outputs:
            arguments = ", ".join(shown[array] for array in segment.inputs)
            call = f"{next(rest)}({arguments})"
            if segment.call is None:
                lines.append(f"return {call}")
                break
            shown |= {array: names.name(array) for array in segment.outputs}
            lines.append(f"{', '.join(shown[array] for array in segment.outputs)} = {call}")
        assert segment.call is not None
        shown |= {array: names.name(array) for array in segment.made}
        given = (shown[each] if isinstance(each, Array) else repr(each) for each in segment.call.arguments)
        lines.append(f"{_targets(segment, shown)} = {kernels[segment.call.kernel]}({', '.join(given)})")
    made = [f"{program} = {part.entry}()" for program, part in zip(programs, parts, strict=True)]
    function = wrapped(
        [
            f"def {graph.name}({', '.join(kernels.values())}):",
            f'{INDENT}"""Makes the function that runs the programs, and between them the kernels that are given."""',
            *(INDENT + line for line in made),
            "",
            f"{INDENT}def run({', '.join(shown[array] for array in graph.parameters)}):",
            *(INDENT * 2 + line for line in lines),
            "",
            f"{INDENT}return run",
            "",
        ]
    )
    bodies = [part.text.removeprefix(module_header(part.entry)) for part in parts]
    return "\n\n".join([module_header(graph.name) + "\n\n".join(bodies), "\n".join(function)])


def _targets(segment: Segment, shown: dict[Array, str]) -> str:
    """What the results of a call are assigned to; those that nothing reads have no names."""
    assert segment.call is not None
    results = ["_"] * len(segment.call.kernel.signature.outputs)
    for array in segment.made:
        assert isinstance(array.definition, KernelResult)
        results[array.definition.position] = shown[array]
    return ", ".join(results)
