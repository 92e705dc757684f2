"""Prints `T.print` statements as C++; they are serialized among threads."""

from __future__ import annotations

from tilelang.codegen.c_expr import ExprPrinter
from tilelang.codegen.c_print import PrintWords, escaped, scalar_label, shown, tile_helper, tile_lines
from tilelang.ir.buffer import Region
from tilelang.ir.stmt import Print
from tilelang.isa.intrinsic import Helper

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
_TEXT = "std::fputs({0}, stdout)"
_WORDS = PrintWords(
    _TEXT, 'std::printf("{0}%lld", (long long){1})', PRINT, tile_helper("static", _TEXT, "std::putchar({0})", PRINT)
)


def print_lines(node: Print, exprs: ExprPrinter) -> list[str]:
    """The statement's lines of text."""
    exprs.need(PRINT)
    operand = node.operand
    if isinstance(operand, Region):
        body = tile_lines(node.message, operand, exprs, _WORDS)
    elif operand is None:
        body = [_TEXT.format(f'"{escaped(node.message)}\\n"') + ";"]
    else:
        label = scalar_label(node)
        first = [f'std::fputs("{label}", stdout);'] if label else []
        body = [*first, f"{shown(exprs, operand)};", "std::putchar('\\n');"]
    return ["flockfile(stdout);", *body, "std::fflush(stdout);", "funlockfile(stdout);"]
