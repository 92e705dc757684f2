"""A graph as text: one line for each array, such as `s[i, j] = sum(k < 64: a[i, k] * b[k, j])`."""

from __future__ import annotations

from collections.abc import Sequence

from tilelang.errors import CompilerBug
from tilelang.ir.expr import Expr, Var
from tilelang.ir.print_expr import ExprPrinter
from tilelang.level1.graph import Array, Graph, KernelResult, Map, Parameter, Reduction, Scan, Scatter, Sort


def graph_text(graph: Graph) -> str:
    """The parameters, the arrays that the results depend on, sources first, and the names of the results."""
    printer = ExprPrinter()
    lines = [_line(printer, array) for array in graph.arrays]
    results = ", ".join(printer.name(array) for array in graph.results)
    return "\n".join([f"{graph.name}:", *(f"    {line}" for line in lines), f"    return {results}"])


def _line(printer: ExprPrinter, array: Array) -> str:
    name = printer.name(array)
    shape = ", ".join(printer.expr(extent) for extent in array.shape)
    stored = "" if array.stored_dtype == array.dtype else f" as {array.stored_dtype!s}"
    with printer.scope():
        return f"{name}: {array.dtype!s}[{shape}]{stored}{_definition(printer, array)}"


def _definition(printer: ExprPrinter, array: Array) -> str:
    name, text = printer.name(array), printer.expr
    match array.definition:
        case Parameter():
            return ""
        case Map(axes=axes, body=body):
            return f" ; {_element(printer, name, axes)} = {text(body)}"
        case Reduction(axes=axes, reduced=reduced, extents=extents, combiner=combiner, body=body):
            left = _element(printer, name, axes)
            return f" ; {left} = {combiner.value}({_ranges(printer, reduced, extents)}: {text(body)})"
        case Scan(axes=axes, along=along, combiner=combiner, body=body):
            left = _element(printer, name, axes)
            return f" ; {left} = cumulative_{combiner.value}({text(axes[along])}: {text(body)})"
        case Sort(axes=axes, along=along, extent=extent, body=body):
            sort = array.definition
            function = ("argsort" if sort.gives_index else "sort") + ("_descending" if sort.descending else "")
            left, over = _element(printer, name, axes), _ranges(printer, axes[along : along + 1], (extent,))
            return f" ; {left} = {function}({over}: {text(body)})"
        case Scatter(base=base, axes=axes, extents=extents, indices=indices, body=body, combiner=combiner):
            over, left = _ranges(printer, axes, extents), _element(printer, name, indices)
            function = "set" if combiner is None else combiner.value
            return f" ; {printer.name(base)}, then {function}({over}: {left}, {text(body)})"
        case KernelResult(call=call, position=position):
            arguments = [printer.name(a) if isinstance(a, Array) else repr(a) for a in call.arguments]
            return f" ; result {position} of {call.kernel.prim_func.name}({', '.join(arguments)})"
    raise CompilerBug(f"graph_text: unknown definition {type(array.definition).__name__}")


def _element(printer: ExprPrinter, name: str, indices: Sequence[Expr]) -> str:
    return f"{name}[{', '.join(printer.expr(index) for index in indices)}]" if indices else name


def _ranges(printer: ExprPrinter, axes: Sequence[Var], extents: Sequence[Expr]) -> str:
    return ", ".join(f"{printer.expr(a)} < {printer.expr(e)}" for a, e in zip(axes, extents, strict=True))
