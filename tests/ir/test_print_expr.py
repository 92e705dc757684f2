"""Expressions, literals and regions as text."""

from __future__ import annotations

import pytest
from loops import buffer, bx, exprs, i, j, load

from tilelang.dtypes import BOOL, FLOAT32, FLOAT64, INT32, INT64, as_dtype
from tilelang.ir.buffer import Region, Scope
from tilelang.ir.expr import Call, Const, Reinterpret, Var, as_expr, binary, cast, const, select, unary
from tilelang.ir.print_expr import ExprPrinter, quote
from tilelang.ir.scalar import BinaryOp, UnaryOp
from tilelang.isa.catalogue import INTRINSICS

FLOAT16 = as_dtype("float16")
S, C = buffer("S", 16, 64, scope=Scope.SHARED, dtype=FLOAT16), buffer("C", 16, 16)
x = buffer("x", scope=Scope.VAR)
p = Var("p", BOOL)


def text(node):
    return ExprPrinter().part(node)


@pytest.mark.parametrize(
    ("expected", "expr"),
    [
        ("bx * 64 + i", bx * 64 + i),
        ("(bx + i) * 64", (bx + i) * 64),
        ("bx - (i - j)", bx - (i - j)),
        ("bx - i - j", bx - i - j),
        ("i // (j * 4)", i // (j * 4)),
        ("i // j * 4", i // j * 4),
        ("-i * 4", -i * 4),
        ("-(i * 4)", -(i * 4)),
        ("i - -4", Const(0, INT32) + i - Const(-4, INT32)),
        ("i << 2 & 7 | j ^ 1", i << 2 & 7 | j ^ 1),
        ("i & (7 | j)", i & (7 | j)),
        ("(i < 4) == (j < 4)", (i < 4) == (j < 4)),
        ("not i < 4", unary(UnaryOp.NOT, i < 4)),
        ("not (p and i < 4)", unary(UnaryOp.NOT, binary(BinaryOp.AND, p, i < 4))),
        ("p and (p or i < 4)", binary(BinaryOp.AND, p, binary(BinaryOp.OR, p, i < 4))),
        ("T.min(i, T.max(j, 3))", binary(BinaryOp.MIN, i, binary(BinaryOp.MAX, j, 3))),
        ("T.truncdiv(i, 3)", binary(BinaryOp.TRUNCDIV, i, 3)),
        ("T.if_then_else(i < 4, C[i, 0], 0.0)", select(i < 4, load(C, i, 0), 0.0)),
        ("T.float32(S[0, i]) * 2.0", cast(load(S, 0, i), FLOAT32) * 2.0),
        ("S[0, i] * 2.5", load(S, 0, i) * 2.5),
        ('T.reinterpret(x, "int32")', Reinterpret(load(x), INT32)),
        ("T.exp2(x)", Call(INTRINSICS["exp2"], (load(x),), FLOAT32)),
        ("x", load(x)),
    ],
)
def test_expressions_have_the_parentheses_they_need(expected, expr):
    assert expected == text(expr).replace("0 + i", "i")


@pytest.mark.parametrize(
    ("expected", "literal"),
    [
        ("0.1", const(0.1, FLOAT32)),
        ("0.1", as_expr(0.1)),
        ("T.float64(0.1)", const(0.1, FLOAT64)),
        ("T.float16(0.1)", const(0.1, FLOAT16)),
        ("T.bfloat16(0.5)", const(0.5, as_dtype("bfloat16"))),
        ("1e-30", const(1e-30, FLOAT32)),
        ('-T.infinity("float16")', const(float("-inf"), FLOAT16)),
        ('T.float32("nan")', const(float("nan"), FLOAT32)),
        ("7", const(7, INT32)),
        ("T.int64(7)", const(7, INT64)),
        ("True", Const(True, BOOL)),
    ],
)
def test_literals_keep_value_and_dtype(expected, literal):
    assert expected == text(literal)


@pytest.mark.parametrize(
    ("expected", "start", "extent"),
    [
        ("S", (0, 0), (16, 64)),
        ("S[:, bx * 4:bx * 4 + 4]", (0, bx * 4), (16, 4)),
        ("S[3, :]", (3, 0), (1, 64)),
        ("S[0:8, 8:16]", (0, 8), (8, 8)),
        ("S[i:i + 1, 0:1]", (i, 0), (1, 1)),
    ],
)
def test_regions_are_slices(expected, start, extent):
    assert expected == text(Region(S, exprs(*start), exprs(*extent)))


def test_names_are_unique_and_released_after_their_scope():
    printer, other = ExprPrinter(), Var("i", INT32)
    with printer.scope():
        assert ["i", "i_1", "i"] == [printer.name(each) for each in (i, other, i)]
    assert "i" == printer.name(other)


def test_strings_are_literals():
    assert '"say \\"no\\"\\n"' == quote('say "no"\n')
