"""Prints `T.print` statements as HIP: text without headers has no `printf`, so the host writes what threads record.

The records are those of `codegen.print_records`. A text goes through them, too: a pointer to it would mean nothing to
the host.
"""

from __future__ import annotations

from tilelang.codegen.c_expr import ExprPrinter
from tilelang.codegen.c_print import PrintWords, escaped, scalar_label, shown, tile_helper, tile_lines
from tilelang.codegen.print_records import KIND_BITS, TEXT_BYTES, WORDS, Kind
from tilelang.ir.buffer import Region
from tilelang.ir.stmt import Print
from tilelang.isa.intrinsic import Helper

PRINTER = "tl_print"  # the parameter of a kernel that prints
_THREAD_BITS = 10  # of an index along an axis
PRINT = Helper(
    "tl_printer",
    f"""\
// What threads print, for the host to write: a count of records, room for so many, and the records, each of a writer, a
// kind and a value.
struct tl_printer {{
    unsigned long* records;
    __device__ __forceinline__ void put(unsigned kind, unsigned long value) const {{
        const unsigned long at = __hip_atomic_fetch_add(records, 1ul, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
        if (at >= records[1]) return;
        unsigned long thread = __builtin_amdgcn_workitem_id_y() | __builtin_amdgcn_workitem_id_z() << {_THREAD_BITS};
        thread = thread << {_THREAD_BITS} | __builtin_amdgcn_workitem_id_x();
        const unsigned long x = __builtin_amdgcn_workgroup_id_x(), z = __builtin_amdgcn_workgroup_id_z();
        unsigned long* record = records + 2 + {WORDS} * at;
        record[0] = x << {KIND_BITS + 3 * _THREAD_BITS} | thread << {KIND_BITS} | kind;
        record[1] = z << 32 | __builtin_amdgcn_workgroup_id_y();
        record[2] = value;
    }}
    __device__ __forceinline__ void operator()(double x) const {{
        put({Kind.FLOAT:d}, __builtin_bit_cast(unsigned long, x));
    }}
    __device__ __forceinline__ void operator()(bool x) const {{ put({Kind.TRUTH:d}, x); }}
    __device__ __forceinline__ void operator()(long long x) const {{ put({Kind.SIGNED:d}, x); }}
    __device__ __forceinline__ void operator()(unsigned long long x) const {{ put({Kind.UNSIGNED:d}, x); }}
    __device__ __forceinline__ void text(char x) const {{ put({Kind.TEXT:d}, (unsigned char)x); }}
    __device__ __forceinline__ void text(const char* x) const {{
        while (*x) {{
            unsigned long piece = 0;
            for (int shift = 0; shift < {8 * TEXT_BYTES} && *x; shift += 8) {{
                piece |= (unsigned long)(unsigned char)*x++ << shift;
            }}
            put({Kind.TEXT:d}, piece);
        }}
    }}
    __device__ __forceinline__ void end() const {{ put({Kind.END:d}, 0); }}
}};
""",
)
_TEXT = f"{PRINTER}.text({{0}})"
_WORDS = PrintWords(
    _TEXT,
    f'{PRINTER}.text("{{0}}"), {PRINTER}((long long){{1}})',
    PRINT,
    tile_helper("__device__ inline", _TEXT, _TEXT, PRINT, parameter=f"const tl_printer& {PRINTER}, "),
    argument=f"{PRINTER}, ",
)


def print_lines(node: Print, exprs: ExprPrinter) -> list[str]:
    """The statement's lines of text."""
    exprs.need(PRINT)
    operand = node.operand
    if isinstance(operand, Region):
        lines = tile_lines(node.message, operand, exprs, _WORDS)
    elif operand is None:
        lines = [_TEXT.format(f'"{escaped(node.message)}\\n"') + ";"]
    else:
        label = scalar_label(node)
        first = [f'{PRINTER}.text("{label}");'] if label else []
        lines = [*first, f"{shown(exprs, operand)};", f'{PRINTER}.text("\\n");']
    return [*lines, f"{PRINTER}.end();"]
