"""Statements: places, identity, and joining them."""

import pytest

from tilelang.dtypes import INT32
from tilelang.errors import NOWHERE, Loc
from tilelang.ir.expr import Var, as_expr
from tilelang.ir.stmt import Bind, Break, Continue, Seq, TileOp, seq


def test_statements_are_compared_by_identity_and_keep_their_place() -> None:
    here = Loc("a.py", 1)
    assert Break() != Break()
    assert (NOWHERE, here) == (Break().loc, Break(loc=here).loc)


def test_a_single_statement_needs_no_sequence() -> None:
    only = Break()
    assert only is seq([only])


def test_sequences_are_joined() -> None:
    joined = seq([Break(), Seq((Continue(), Break()))])
    assert isinstance(joined, Seq)
    assert [Break, Continue, Break] == [type(stmt) for stmt in joined.body]


def test_a_sequence_that_names_something_stays_a_scope() -> None:
    scope = Seq((Bind(Var("x", INT32), as_expr(1)), Break()))
    joined = seq([Continue(), scope])
    assert isinstance(joined, Seq)
    assert scope is joined.body[1]


def test_an_operator_without_its_meaning_cannot_be_made() -> None:
    class Incomplete(TileOp):
        """Says nothing."""

    with pytest.raises(TypeError, match="reference"):
        Incomplete()
