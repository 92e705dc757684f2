"""Statements: locations, identity, and joining them."""

import pytest

from tilelang.dtypes import INT32
from tilelang.errors import NOWHERE, Loc
from tilelang.ir.callee import Routine
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Var, as_expr
from tilelang.ir.stmt import Bind, Break, CallStmt, Continue, Group, Seq, TileOp, seq


def test_statements_are_compared_by_identity_and_keep_their_location() -> None:
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


def test_a_sequence_with_bindings_stays_a_scope() -> None:
    scope = Seq((Bind(Var("x", INT32), as_expr(1)), Break()))
    joined = seq([Continue(), scope])
    assert isinstance(joined, Seq)
    assert scope is joined.body[1]


def test_an_operator_without_a_reference_is_abstract() -> None:
    class Incomplete(TileOp):
        """Says nothing."""

    with pytest.raises(TypeError, match="reference"):
        Incomplete()


def test_the_threads_of_a_group() -> None:
    thread = Var("thread", INT32, index=True)
    condition = Group(128, 64).condition(thread)
    assert list(range(128, 192)) == [n for n in range(256) if evaluate(condition, {thread: n})]


def test_groups_of_one_may_be_any_thread_of_their_warp() -> None:
    assert Group(128, 1, among=32).overlaps(Group(130, 1))
    assert Group(128, 1).overlaps(Group(0, 160))
    assert Group(128, 128).overlaps(Group(128, 1, among=32))
    assert not Group(128, 1, among=32).overlaps(Group(160, 32))
    assert not Group(128, 1).overlaps(Group(0, 128))
    assert not Group(0, 128).overlaps(Group(128, 128))


def test_groups_of_the_same_threads() -> None:
    assert Group(0, 128).same_threads(Group(0, 128, collective=True))
    assert not Group(0, 128).same_threads(Group(0, 64))


def test_a_call_has_the_name_that_the_user_wrote() -> None:
    routine = Routine("barrier_init", {}, {})
    assert "barrier_init" == CallStmt(routine, ()).name
    assert "T.alloc_barrier" == CallStmt(routine, (), written="T.alloc_barrier").name
