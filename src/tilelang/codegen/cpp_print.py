"""Prints `T.print` statements as C++ that writes what `sim.printing` describes, one statement at a time."""

from __future__ import annotations

from tilelang.codegen.cpp_expr import ExprPrinter
from tilelang.codegen.cpp_types import value_type
from tilelang.dtypes import INT32, DType
from tilelang.ir.buffer import Region, Scope
from tilelang.ir.expr import Expr, Load, Var, conjunction, const, select
from tilelang.ir.stmt import Print
from tilelang.isa.intrinsic import Helper
from tilelang.sim.printing import label

PRINT = Helper(
    "tl_print",
    """\
// One number, as printf's %g, %lld or %llu show it.
static inline void tl_print(double x) { x != x ? (void)std::fputs("nan", stdout) : (void)std::printf("%g", x); }
static inline void tl_print(bool x) { std::fputs(x ? "True" : "False", stdout); }
static inline void tl_print(long long x) { std::printf("%lld", x); }
static inline void tl_print(unsigned long long x) { std::printf("%llu", x); }
""",
    headers=("<cstdio>",),
)
TILE = Helper(
    "tl_print_tile",
    """\
// The rows of a tile in nested brackets; element(at) prints the element at some indices.
template <int Rank, typename F> static void tl_print_tile(const int64_t (&shape)[Rank], F element) {
    int64_t at[Rank] = {}, count = 1;
    for (int64_t extent : shape) count *= extent;
    if (count <= 0) std::fputs("[]\\n", stdout);
    for (int64_t n = 0; n < count; n += shape[Rank - 1]) {
        int opened = 1, closed = 1;
        for (int d = Rank - 2; d >= 0 && at[d] == 0; --d) ++opened;
        for (int d = Rank - 2; d >= 0 && at[d] == shape[d] - 1; --d) ++closed;
        for (int d = opened; d < Rank; ++d) std::putchar(' ');
        for (int d = 0; d < opened; ++d) std::putchar('[');
        for (at[Rank - 1] = 0; at[Rank - 1] < shape[Rank - 1]; ++at[Rank - 1]) {
            if (at[Rank - 1] > 0) std::fputs(", ", stdout);
            element(at);
        }
        for (int d = 0; d < closed; ++d) std::putchar(']');
        std::fputs(closed == Rank ? "\\n" : ",\\n", stdout);
        for (int d = Rank - 2; d >= 0 && ++at[d] == shape[d]; --d) at[d] = 0;
    }
}
""",
    needs=(PRINT,),
)


def print_lines(node: Print, exprs: ExprPrinter) -> list[str]:
    """The statement's lines of text; other threads wait until it is done."""
    exprs.need(PRINT)
    operand = node.operand
    body = _tile(node.message, operand, exprs) if isinstance(operand, Region) else _scalar(node, operand, exprs)
    return ["flockfile(stdout);", *body, "std::fflush(stdout);", "funlockfile(stdout);"]


def _scalar(node: Print, operand: Expr, exprs: ExprPrinter) -> list[str]:
    text = label(node.message or (f"{node.source} =" if node.source else ""))
    return [
        *([f'std::fputs("{_escaped(text)}", stdout);'] if text else []),
        f"{_shown(exprs.value(operand), operand.dtype)};",
        "std::putchar('\\n');",
    ]


def _tile(message: str, region: Region, exprs: ExprPrinter) -> list[str]:
    exprs.need(TILE)
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
        element = _shown(exprs.value(value), buffer.dtype)
    header = f'std::fputs("{_escaped(f"{label(message)}{buffer.name} (")}", stdout);'
    commas = [f'std::printf("{", " if axis else ""}%lld", (long long){name}[{axis}]);' for axis in range(buffer.rank)]
    return [
        f"const int64_t {name}[] = {{{', '.join(extents)}}};",
        header,
        *commas,
        f'std::fputs("{"," if buffer.rank == 1 else ""}) {buffer.dtype!s}\\n", stdout);',
        f"tl_print_tile({name}, [&](const int64_t* {place}) {{ {element}; }});",
    ]


def _shown(text: str, dtype: DType) -> str:
    """A call that prints a value."""
    if dtype.is_float:
        return f"tl_print((double)({text}))"
    if dtype.is_bool:
        return f"tl_print(bool({text}))"
    kind = "unsigned long long" if value_type(dtype).startswith("u") else "long long"
    return f"tl_print(({kind})({text}))"


def _escaped(text: str) -> str:
    """Text as the inside of a C string literal."""
    plain = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return "".join(c if 32 <= ord(c) < 127 else "".join(f"\\{byte:03o}" for byte in c.encode()) for c in plain)
