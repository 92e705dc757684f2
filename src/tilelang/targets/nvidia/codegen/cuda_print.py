"""Prints `T.print` statements as CUDA.

A scalar is one `printf`, which other threads do not interrupt; the rows of a tile that several blocks print at once may
mix. A device's `printf` is executed by the host, so NaN is spelled here, where its sign does not show.
"""

from __future__ import annotations

from tilelang.codegen.c_expr import ExprPrinter
from tilelang.codegen.c_print import PrintWords, escaped, printable, scalar_label, tile_helper, tile_lines
from tilelang.ir.buffer import Region
from tilelang.ir.stmt import Print
from tilelang.isa.intrinsic import Helper

_NUMBERS = Helper(
    "tl_print",
    """\
// One number between two texts, as printf's %g, %lld or %llu show it.
__device__ inline void tl_print(double x, const char* before = "", const char* after = "") {
    if (x != x) printf("%snan%s", before, after);
    else printf("%s%g%s", before, x, after);
}
__device__ inline void tl_print(bool x, const char* before = "", const char* after = "") {
    printf("%s%s%s", before, x ? "True" : "False", after);
}
__device__ inline void tl_print(long long x, const char* before = "", const char* after = "") {
    printf("%s%lld%s", before, x, after);
}
__device__ inline void tl_print(unsigned long long x, const char* before = "", const char* after = "") {
    printf("%s%llu%s", before, x, after);
}
""",
)
_TEXT = 'printf("%s", {0})'
_WORDS = PrintWords(
    _TEXT,
    'printf("{0}%lld", (long long){1})',
    _NUMBERS,
    tile_helper("__device__ inline", _TEXT, 'printf("%c", {0})', _NUMBERS),
)


def print_lines(node: Print, exprs: ExprPrinter) -> list[str]:
    """The statement's lines of text."""
    exprs.need(_NUMBERS)
    if isinstance(node.operand, Region):
        return tile_lines(node.message, node.operand, exprs, _WORDS)
    if node.operand is None:
        return [_TEXT.format(f'"{escaped(node.message)}\\n"') + ";"]
    return [f'tl_print({printable(exprs, node.operand)}, "{scalar_label(node)}", "\\n");']
