"""A branch that uses nothing but registers joins an earlier one under the same condition."""

import pytest
from programs import index_var
from specialized import launch_of

from tilelang.dtypes import BOOL, FLOAT32, INT32
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Load, Var, as_expr, const
from tilelang.ir.func import PrimFunc
from tilelang.ir.sequences import flat_statements, statements_of
from tilelang.ir.stmt import Alloc, Bind, CallStmt, For, ForKind, If, Launch, Seq, Store
from tilelang.passes.base import PassContext
from tilelang.passes.thread.merge_branches import PASS
from tilelang.targets.gpu.isa.sync import SYNC_THREADS

I, K = map(index_var, ("i", "k"))
MOVED, OTHER = Var("moved", BOOL), Var("other", BOOL)
A, B, C = (Buffer(name, (as_expr(4),), FLOAT32, Scope.LOCAL) for name in "abc")
S = Buffer("s", (as_expr(4),), FLOAT32, Scope.SHARED)
X = Var("x", FLOAT32)


def element(buffer, at=0):
    return Load(buffer, (as_expr(at),), FLOAT32)


def doubled(buffer, source=None):
    """A loop over the elements of an array."""
    value = element(source or buffer, I) * 2.0
    return For(I, as_expr(0), as_expr(4), 1, ForKind.UNROLLED, Store(buffer, (I,), value))


def loop(*statements, kind=ForKind.SERIAL):
    return For(K, as_expr(0), as_expr(4), 1, kind, Seq(statements))


def after(stmt):
    """What the pass makes of a statement."""
    func = PrimFunc("f", (), Launch((), (), (32, 1, 1), Seq((stmt,)), thread=Var("thread", INT32)))
    (made,) = statements_of(launch_of(PASS.run(func, PassContext())).body)
    return made


def merged(*statements):
    """What the pass makes of the body of a loop; None if that is the same."""
    node = loop(*statements)
    made = after(node)
    return None if made is node else list(statements_of(made.body))


FIRST = If(MOVED, doubled(A))


def test_what_is_between_comes_behind_both():
    between, second = doubled(B), If(MOVED, doubled(C, A))
    branch, *left = merged(FIRST, between, second)
    assert left == [between]
    assert flat_statements(branch.then_body) == [FIRST.then_body, second.then_body]
    assert branch.condition is MOVED


def test_a_branch_passes_other_branches_and_scopes_keep_theirs():
    other = If(OTHER, doubled(B))
    scope, outside = merged(Seq((FIRST, other, If(MOVED, doubled(C)))), If(MOVED, doubled(B)))
    assert [stmt.condition for stmt in statements_of(scope)] == [MOVED, OTHER]
    assert outside.condition is MOVED


@pytest.mark.parametrize("around", [loop, lambda *body: loop(If(OTHER, Seq(body))), lambda *body: loop(*body, loop())])
def test_only_what_each_iteration_of_an_innermost_loop_executes_is_changed(around):
    node = around(FIRST, doubled(B), If(MOVED, doubled(C)))
    assert (after(node) is node) == (around is not loop)


def test_an_unrolled_loop_is_none():
    node = loop(FIRST, doubled(B), If(MOVED, doubled(C)), kind=ForKind.UNROLLED)
    assert after(node) is node


def test_elements_that_differ_do_not_conflict():
    assert len(merged(FIRST, Store(B, (as_expr(0),), const(1.0, FLOAT32)), If(MOVED, Store(B, (as_expr(1),), X)))) == 2


@pytest.mark.parametrize(
    ("between", "second"),
    [
        (doubled(B), If(MOVED, doubled(C, B))),  # reads what is written between
        (doubled(B, C), If(MOVED, doubled(C))),  # writes what is read between
        (Bind(X, element(B)), If(MOVED, Store(C, (as_expr(0),), X))),
        (Alloc(C), If(MOVED, doubled(C))),
        (CallStmt(SYNC_THREADS, ()), If(MOVED, doubled(C))),  # an instruction
        (doubled(B), If(MOVED, doubled(S))),  # what threads exchange
        (doubled(B), If(MOVED, doubled(C, S))),
        (doubled(B), If(OTHER, doubled(C))),
        (doubled(B), If(MOVED, doubled(C), doubled(C))),
        (doubled(B), If(element(A) > 0.0, doubled(C))),
    ],
)
def test_other_branches_stay_where_they_are(between, second):
    assert merged(FIRST, between, second) is None


def test_a_condition_that_is_loaded_may_change():
    condition = element(A) > 0.0
    assert merged(If(condition, doubled(A)), doubled(B), If(condition, doubled(C))) is None
