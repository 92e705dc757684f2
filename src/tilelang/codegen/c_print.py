"""Prints `T.print` statements for languages of the C family, in the format of `sim.printing`.

Gives the header and the elements of a tile, which are common to all languages, and the parts of scalars.
"""

from __future__ import annotations

from tilelang.codegen.c_expr import ExprPrinter
from tilelang.dtypes import INT32, Kind
from tilelang.ir.buffer import Region, Scope
from tilelang.ir.expr import Expr, Load, Var, conjunction, const, select
from tilelang.ir.stmt import Print
from tilelang.isa.intrinsic import Helper
from tilelang.records import record
from tilelang.sim.printing import label

_TILE = """\
// The rows of a tile in nested brackets; element(at) prints the element at some indices.
template <int Rank, typename F> {function} void tl_print_tile({parameter}const int64_t (&shape)[Rank], F element) {{
    int64_t at[Rank] = {{}}, count = 1;
    for (int64_t extent : shape) count *= extent;
    if (count <= 0) {empty};
    for (int64_t n = 0; n < count; n += shape[Rank - 1]) {{
        int opened = 1, closed = 1;
        for (int d = Rank - 2; d >= 0 && at[d] == 0; --d) ++opened;
        for (int d = Rank - 2; d >= 0 && at[d] == shape[d] - 1; --d) ++closed;
        for (int d = opened; d < Rank; ++d) {blank};
        for (int d = 0; d < opened; ++d) {open};
        for (at[Rank - 1] = 0; at[Rank - 1] < shape[Rank - 1]; ++at[Rank - 1]) {{
            if (at[Rank - 1] > 0) {comma};
            element(at);
        }}
        for (int d = 0; d < closed; ++d) {close};
        {end};
        for (int d = Rank - 2; d >= 0 && ++at[d] == shape[d]; --d) at[d] = 0;
    }}
}}
"""


@record
class PrintWords:
    """The calls by which a language writes to the standard output.

    Attributes:
        text: A call that writes a text, given as an expression.
        extent: A call that writes a literal and the value of a `long long`.
        numbers: Defines `tl_print` for double, bool, long long and unsigned long long.
        tile: Defines `tl_print_tile`; see `tile_helper`.
        argument: What that function takes first, and a comma; empty for nothing.
    """

    text: str
    extent: str
    numbers: Helper
    tile: Helper
    argument: str = ""


def tile_helper(function: str, text: str, character: str, numbers: Helper, parameter: str = "") -> Helper:
    """The function that prints a tile.

    Args:
        function: Qualifiers of a function.
        text: A call that writes a text, given as an expression.
        character: A call that writes a character, given as a literal.
        numbers: The helper that prints elements.
        parameter: The first parameter and a comma, for calls that need it.
    """
    parts = {name: character.format(f"'{c}'") for name, c in (("blank", " "), ("open", "["), ("close", "]"))}
    parts["empty"], parts["comma"] = text.format('"[]\\n"'), text.format('", "')
    parts["end"] = text.format('closed == Rank ? "\\n" : ",\\n"')
    return Helper("tl_print_tile", _TILE.format(function=function, parameter=parameter, **parts), needs=(numbers,))


def scalar_label(node: Print) -> str:
    """The label of a scalar, escaped for a string literal."""
    return escaped(label(node.message or (f"{node.source} =" if node.source else "")))


def tile_lines(message: str, region: Region, exprs: ExprPrinter, words: PrintWords) -> list[str]:
    """The lines that print a tile."""
    exprs.need(words.tile)
    buffer = region.buffer
    name = exprs.names.fresh("shape")
    extents = [exprs.index(extent) for extent in region.extent]
    with exprs.names.scope():
        place = exprs.names.fresh("at")
        at = [Var(f"at{axis}", INT32, index=True) for axis in range(buffer.rank)]
        for axis, var in enumerate(at):
            exprs.names.alias(var, f"{place}[{axis}]")
        where = tuple(start + var for start, var in zip(region.start, at, strict=True))
        value: Expr = Load(buffer, where, buffer.dtype)
        if buffer.scope is Scope.GLOBAL:
            inside = conjunction(c for i, e in zip(where, buffer.shape, strict=True) for c in (i >= 0, i < e))
            value = select(inside, value, const(0, buffer.dtype))
        element = shown(exprs, value)
    comma = "," if buffer.rank == 1 else ""
    calls = [
        _text_call(words, f"{label(message)}{buffer.name} ("),
        *(words.extent.format(", " if axis else "", f"{name}[{axis}]") for axis in range(buffer.rank)),
        _text_call(words, f"{comma}) {buffer.dtype!s}\n"),
        f"tl_print_tile({words.argument}{name}, [&](const int64_t* {place}) {{ {element}; }})",
    ]
    return [f"const int64_t {name}[] = {{{', '.join(extents)}}};", *(f"{call};" for call in calls)]


def _text_call(words: PrintWords, text: str) -> str:
    """A call that writes a text."""
    return words.text.format(f'"{escaped(text)}"')


def shown(exprs: ExprPrinter, value: Expr) -> str:
    """A call that prints a value."""
    return f"tl_print({printable(exprs, value)})"


def printable(exprs: ExprPrinter, value: Expr) -> str:
    """A value converted to the printable type of its kind."""
    dtype, text = value.dtype, exprs.value(value)
    if dtype.is_bool:
        return f"bool({text})"
    unsigned = dtype.kind is Kind.UINT and dtype.bits >= 8
    return f"({'double' if dtype.is_float else 'unsigned long long' if unsigned else 'long long'})({text})"


def escaped(text: str) -> str:
    """Text escaped for a C string literal."""
    plain = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return "".join(c if 32 <= ord(c) < 127 else "".join(f"\\{byte:03o}" for byte in c.encode()) for c in plain)
