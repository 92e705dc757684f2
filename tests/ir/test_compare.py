import dataclasses
import math
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import index_expressions, places

from tilelang.dtypes import FLOAT32, INT32, INT64, SCALARS
from tilelang.errors import Loc, ProgramError
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.compare import KeyedExpr, digest, expr_key, same_expr
from tilelang.ir.expr import Binary, Const, Expr, Load, Var, const
from tilelang.ir.func import PrimFunc, ScalarParam, TensorParam
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.stmt import (
    Alloc,
    Bind,
    For,
    ForKind,
    If,
    Launch,
    LaunchHints,
    ParallelLoop,
    PipelineSpec,
    Print,
    Seq,
    Store,
)
from tilelang.ir.visit import Rewriter
from tilelang.layout import Layout
from tilelang.ops.copy import Copy
from tilelang.ops.gemm import Gemm

i, j = Var("i", INT32, index=True), Var("j", INT32, index=True)


class Copier(Rewriter):
    """Makes every node anew but for variables."""

    def expr(self, node: Expr) -> Expr:
        if isinstance(node, Const):
            return Const(node.value, node.dtype, node.weak)
        new = self.rebuild_expr(node)
        return dataclasses.replace(new) if new is node and not isinstance(node, Var) else new


@given(st.data())
def test_copies_have_the_same_key(data):
    place = data.draw(places())
    expr = data.draw(index_expressions(list(place.ranges), 3))
    copied = Copier().expr(expr)
    assert same_expr(expr, copied)
    assert hash(expr_key(expr)) == hash(expr_key(copied))


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (i + j, j + i),
        (i + 1, i + 2),
        (i, Var("i", INT32, index=True)),
        (i - j, i + j),
        (const(1, INT32), const(1, INT64)),
        (const(0.0, FLOAT32), const(-0.0, FLOAT32)),
        (const(1, INT32), const(1, FLOAT32)),
        (i < j, i <= j),
    ],
)
def test_different_structures_have_different_keys(a, b):
    assert not same_expr(a, b)
    assert expr_key(a) != expr_key(b)


def test_nan_is_the_same_literal_as_nan():
    assert same_expr(const(math.nan, FLOAT32), const(math.nan, FLOAT32))


def test_weakness_of_a_literal_is_ignored():
    assert same_expr(Const(3, INT32, weak=True), const(3, INT32))
    assert same_expr(Const(0.1, FLOAT32, weak=True), const(0.1, FLOAT32))


def test_keys_of_expressions_with_variables_serve_as_dictionary_keys():
    table = {expr_key(i + n): n for n in range(50)}
    assert 7 == table[expr_key(i + 7)]
    assert expr_key(j + 7) not in table


def test_an_expression_is_found_by_its_key_and_by_expressions_of_its_structure():
    summed = i + 7
    table = {KeyedExpr(summed): 7}
    assert [7, 7] == [table[expr_key(i + 7)], table[KeyedExpr(i + 7)]]
    assert KeyedExpr(j + 7) not in table
    assert [summed] == [keyed.expr for keyed in table if keyed.expr is summed]


def test_comparing_deep_graphs_of_shared_nodes_is_fast():
    def grown() -> Expr:
        expr: Expr = i
        for _ in range(200):
            expr = Binary(BinaryOp.MUL, expr, expr, INT32)
        return expr

    assert same_expr(grown(), grown())


def make(
    *,
    name: str = "kernel",
    prefix: str = "",
    extent: int = 64,
    value: float = 1.0,
    op: BinaryOp = BinaryOp.ADD,
    kind: ForKind = ForKind.SERIAL,
    loc: str = "a.py",
    stages: int = 2,
    threads: int = 128,
    hints: LaunchHints = LaunchHints(),
    message: str = "x",
    scope: Scope = Scope.SHARED,
    clear: bool = False,
    param: str = "A",
    symbol: str = "n",
    attrs: tuple[tuple[str, object], ...] = (),
    twice: bool = False,
    dtype: str = "float32",
) -> PrimFunc:
    """A function with a bit of everything, some of it chosen."""

    def place() -> Loc:
        return Loc(loc, 1)

    n = Var(symbol, INT32, index=True)
    scale = Var("scale", FLOAT32)
    a = Buffer(param, (n, const(extent, INT32)), SCALARS[dtype], Scope.GLOBAL, loc=place())
    bx = Var(prefix + "bx", INT32, index=True)
    k, v, w = (Var(prefix + x, INT32, index=True) for x in ("k", "v", "w"))
    tile = Buffer(prefix + "tile", (const(8, INT32), const(8, INT32)), SCALARS[dtype], scope)
    whole = Region(tile, (const(0, INT32),) * 2, (const(8, INT32),) * 2)
    part = Region(a, (bx * 8, k * 8), (const(8, INT32),) * 2)
    bound = Var(prefix + "t", FLOAT32)
    element = Load(tile, (v, w), SCALARS[dtype])
    total = Binary(op, element, element if twice else Load(tile, (v, w), SCALARS[dtype]), SCALARS[dtype])
    loop = For(
        k,
        const(0, INT32),
        const(extent // 8, INT32),
        1,
        kind,
        Seq((Copy(part, whole), Gemm(whole, whole, whole, transpose_b=clear))),
        pipeline=PipelineSpec(stages),
        loc=place(),
    )
    body = Seq(
        (
            Alloc(tile, loc=place()),
            loop,
            ParallelLoop((v, w), (const(8, INT32), const(8, INT32)), Store(tile, (v, w), total)),
            Bind(bound, scale * value),
            If(bx < 1, Print(bound, message)),
        )
    )
    launch = Launch((bx,), ((n + 7) // 8,), (threads, 1, 1), body, hints, loc=place())
    return PrimFunc(name, (TensorParam(a), ScalarParam(scale)), launch, symbols=(n,), attributes=attrs, loc=place())


def test_functions_are_equal_up_to_local_names_and_locations():
    assert digest(make()) == digest(make(prefix="other_", loc="b.py"))


def test_sharing_of_nodes_is_ignored():
    assert digest(make()) == digest(make(twice=True))


@pytest.mark.parametrize(
    "change",
    [
        {"name": "other"},
        {"extent": 72},
        {"value": 2.0},
        {"value": math.nan},
        {"value": -0.0},
        {"op": BinaryOp.SUB},
        {"kind": ForKind.PIPELINED},
        {"stages": 3},
        {"threads": 256},
        {"hints": LaunchHints(swizzle=(8, "row"))},
        {"hints": LaunchHints(min_blocks_per_sm=2)},
        {"message": "y"},
        {"scope": Scope.FRAGMENT},
        {"clear": True},
        {"param": "B"},
        {"symbol": "m"},
        {"attrs": (("a", 1),)},
        {"dtype": "float16"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_everything_with_a_meaning_is_compared(change):
    assert digest(make()) != digest(make(**change))


def test_attributes_of_equal_numbers_but_different_types_differ():
    digests = {digest(make(attrs=(("a", value),))) for value in (1, 1.0, True, "1", None, (1,), [2], {"b": 1}, int)}
    assert 9 == len(digests)


def test_an_attribute_without_a_stable_form_is_refused():
    with pytest.raises(ProgramError, match="attrs.*object"):
        digest(make(attrs=(("a", object()),)))


def test_layouts_are_compared_as_maps():
    def hinted(layout: Layout) -> PrimFunc:
        return make(hints=LaunchHints(layouts=((Buffer("s", (const(8, INT32),), FLOAT32, Scope.SHARED), layout),)))

    assert digest(hinted(Layout((8,), lambda x: x ^ 1))) == digest(hinted(Layout((8,), lambda x: x ^ 1)))
    assert digest(hinted(Layout((8,), lambda x: x ^ 1))) != digest(hinted(Layout((8,), lambda x: x ^ 2)))


def test_a_variable_bound_by_two_loops_equals_two_variables():
    def loops(first: Var, second: Var) -> PrimFunc:
        a = Buffer("A", (const(8, INT32),), INT32, Scope.GLOBAL)
        zero, eight = const(0, INT32), const(8, INT32)
        body = [For(v, zero, eight, 1, ForKind.SERIAL, Store(a, (v,), v + 1)) for v in (first, second)]
        return PrimFunc("f", (TensorParam(a),), Seq(tuple(body)))

    k = Var("k", INT32, index=True)
    assert digest(loops(i, j)) == digest(loops(k, k))


_PROGRAM = """
import sys
sys.path[:0] = {path!r}
from test_compare import make
from tilelang.ir.compare import digest
print(digest(make()))
"""


def test_the_digest_is_the_same_in_every_process():
    code = _PROGRAM.format(path=[str(p) for p in sys.path] + [__file__.rsplit("/", 1)[0]])
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": seed}
        ).stdout.strip()
        for seed in ("1", "2")
    }
    assert {digest(make())} == outputs


def test_asynchronous_stores_differ():
    tile = Buffer("tile", (const(8, INT32),), FLOAT32, Scope.SHARED)

    def storing(*, late: bool) -> PrimFunc:
        return PrimFunc("f", (), Seq((Store(tile, (const(0, INT32),), const(0.0, FLOAT32), asynchronous=late),)))

    assert digest(storing(late=True)) == digest(storing(late=True))
    assert digest(storing(late=False)) != digest(storing(late=True))
