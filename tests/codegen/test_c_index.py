"""Index arithmetic as text: short where the facts allow it. What it computes is tested in `test_index_types`."""

from programs import index_var

from tilelang.arith.domain import Domain
from tilelang.codegen.c_expr import ExprPrinter
from tilelang.codegen.c_index import tight
from tilelang.codegen.index_types import ProvenIndexTypes
from tilelang.codegen.names import Names
from tilelang.dtypes import FLOAT32, INT64, as_dtype
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Load, Var, as_expr, binary, cast, select
from tilelang.ir.scalar import BinaryOp
from tilelang.targets.cpu.codegen.cpp_dialect import CPP
from tilelang.targets.nvidia.codegen.cuda_dialect import CUDA

I, J, N = index_var("i"), index_var("j"), Var("n", INT64, index=True)


def cuda_printer(*buffers, symbol=None):
    names = Names()
    types = ProvenIndexTypes(Domain().with_range(I, 0, 1000).with_range(J, -1000, 1000))
    for var in (I, J, N, *([symbol] if symbol is not None else [])):
        names.declare(var)
        types.declare(var)
    for buffer in buffers:
        names.declare(buffer)
    return ExprPrinter(names, CUDA, types)


def test_parentheses_come_where_precedence_asks_for_them():
    assert "(a + b)" == tight(("a + b", 9), 10)
    assert "a + b" == tight(("a + b", 9), 9)


def test_divisions_become_shifts_masks_or_unsigned_divisions():
    show = cuda_printer().index
    assert "i >> 3" == show(I // 8)
    assert "i & 7" == show(I % 8)
    assert "(int)((unsigned)i / 3u)" == show(I // 3)
    assert "(int)((unsigned)(i + 1) % 3u)" == show((I + 1) % 3)
    assert "i >> 3" == show(binary(BinaryOp.TRUNCDIV, I, 8))
    assert "j >> 3" == show(J // 8)  # which rounds down
    assert "j & 7" == show(J % 8)
    assert "tl_floordiv<int>(j, 3)" == show(J // 3)
    assert "j / 8" == show(binary(BinaryOp.TRUNCDIV, J, 8))
    assert "n >> 3" == show(N // 8)
    assert "i * 8" == show(I << 3)


def test_divisions_by_what_is_positive_need_no_call():
    show = cuda_printer().index
    assert "(int)((unsigned)i / (unsigned)(i + 1))" == show(I // (I + 1))
    assert "(int)((unsigned)i % (unsigned)(i + 1))" == show(I % (I + 1))
    assert "tl_floordiv<int>(i, i)" == show(I // I)  # which may be 0
    assert "tl_floormod<int>(j, i + 1)" == show(J % (I + 1))  # rounds down


def test_cpp_leaves_divisions_as_they_are():
    names = Names()
    names.declare(I)
    assert "tl_floordiv<int64_t>(i, 8)" == ExprPrinter(names, CPP).index(I // 8)


def test_what_needs_64_bits_is_widened_before_it_is_computed():
    show = cuda_printer().index
    assert "i * 1000" == show(I * 1000)
    assert "(int64_t)i * 10000000" == show(I * 10000000)
    assert "(int64_t)(i * 1000) * 10000" == show(I * 1000 * 10000)
    assert "n + i" == show(N + I)


def test_offsets_of_dynamic_tensors_are_64_bits_wide():
    columns = index_var("columns")
    dynamic = Buffer("A", (N, columns), FLOAT32, Scope.GLOBAL)
    static = Buffer("B", tuple(as_expr(e) for e in (1001, 4096)), FLOAT32, Scope.GLOBAL)
    printer = cuda_printer(dynamic, static, symbol=columns)
    assert "A[i * columns + j]" == printer.element(dynamic, (I, J))  # columns is not known to fit: 64 bits itself
    assert "B[i * 4096 + j]" == printer.element(static, (I, J))
    narrow = index_var("narrow")
    printer = cuda_printer(symbol=narrow)
    printer.types.learn(printer.types.domain.with_range(narrow, 0, 2**31 - 1))
    printer.types.declare(narrow)
    rows = Buffer("C", (N, narrow), FLOAT32, Scope.GLOBAL)
    printer.names.declare(rows)
    assert "C[(int64_t)i * narrow + j]" == printer.element(rows, (I, J))


def test_sums_within_32_bits_keep_their_grouping():
    wide = Buffer("A", tuple(as_expr(e) for e in (4, 8)), FLOAT32, Scope.GLOBAL)
    printer = cuda_printer(wide)
    assert "A[i * 8 + (j - 1)]" == printer.element(wide, (I, J - 1))


def test_data_in_index_position_counts_exactly():
    names = {dtype: Buffer(dtype, (as_expr(4),), as_dtype(dtype), Scope.GLOBAL) for dtype in ("int8", "int32", "uint32")}
    printer = cuda_printer(*names.values())
    load = {dtype: Load(buffer, (I,), buffer.dtype) for dtype, buffer in names.items()}
    assert "int8[i] + 1" == printer.index(load["int8"] + 1)
    assert "(int64_t)int32[i] + 1" == printer.index(load["int32"] + 1)
    assert "(int64_t)uint32[i]" == printer.index(load["uint32"])
    assert "(int16_t)(int32[i])" == printer.index(cast(load["int32"], as_dtype("int16")))


def test_a_choice_knows_its_condition():
    printer = cuda_printer()
    chosen = printer.exact(select(J >= 0, J // 3, 0))
    assert ("j >= 0 ? (int)((unsigned)j / 3u) : 0", 32) == (chosen.text, chosen.bits)
    mixed = printer.exact(select(N > 0, N, I))
    assert ("n > 0 ? int64_t(n) : int64_t(i)", 64) == (mixed.text, mixed.bits)
