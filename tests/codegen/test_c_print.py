"""The pieces of `T.print` that all languages of the C family share."""

from tilelang.codegen.c_expr import ExprPrinter
from tilelang.codegen.c_print import escaped, printable, scalar_label
from tilelang.codegen.names import Names
from tilelang.dtypes import as_dtype
from tilelang.ir.expr import Var, const
from tilelang.ir.stmt import Print
from tilelang.targets.cpu.codegen.cpp_dialect import CPP


def test_text_becomes_the_inside_of_a_string_literal():
    assert 'a\\"b\\\\\\n\\tc' == escaped('a"b\\\n\tc')
    assert "\\303\\244 100%" == escaped("ä 100%")


def test_a_scalar_is_labeled_by_the_message_or_by_what_the_user_wrote():
    x = const(1.0, as_dtype("float32"))
    assert "message: " == scalar_label(Print(x, "message", "A[0]"))
    assert "A[0] = " == scalar_label(Print(x, "", "A[0]"))
    assert "" == scalar_label(Print(x, ""))


def test_values_are_printed_in_one_type_per_kind():
    names = Names()
    values = {dtype: Var("x", as_dtype(dtype)) for dtype in ("float16", "int8", "uint4", "uint16", "bool")}
    for var in values.values():
        names.alias(var, "x")
    texts = {dtype: printable(ExprPrinter(names, CPP), var) for dtype, var in values.items()}
    assert {
        "float16": "(double)(x)",
        "int8": "(long long)(x)",
        "uint4": "(long long)(x)",
        "uint16": "(unsigned long long)(x)",
        "bool": "bool(x)",
    } == texts
