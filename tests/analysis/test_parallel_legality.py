"""How the iterations of parallel loops may be spread over threads."""

import pytest
from loops import buffer, exprs, largest, load, store

from tilelang.analysis.parallel_legality import is_private, parallel_legality
from tilelang.arith.domain import Domain
from tilelang.dtypes import BOOL, INT32
from tilelang.ir.buffer import Scope
from tilelang.ir.expr import Load, Var, as_expr, cast, int_const, select
from tilelang.ir.stmt import Alloc, Bind, If, ParallelLoop, Seq, Store

I, J, K = (Var(name, INT32, index=True) for name in "ijk")
A = buffer("A", 16, 8, scope=Scope.GLOBAL)
S = buffer("S", 16, scope=Scope.SHARED)
F = buffer("F", 16, 8)
M = buffer("M", 16)
X = buffer("x", scope=Scope.VAR)
IDX = buffer("idx", 16, scope=Scope.GLOBAL, dtype=INT32)


def nest(*body):
    return ParallelLoop((I, J), exprs(16, 8), Seq(body))


def verdict(loop, used=False):
    return parallel_legality(loop, Domain(), lambda _: used)


def test_elements_of_their_own_need_nothing():
    how = verdict(nest(store(F, I, J, load(F, I, J) + load(A, I, J))))
    assert ([], {}, {}, [], "") == (how.reductions, how.atomics, how.last_value_stores, how.live_out, how.reason)


def test_updates_of_fewer_elements_are_reductions():
    how = verdict(nest(store(M, I, load(M, I) + load(A, I, J)), Store(X, (), largest(load(X), load(A, I, J)))))
    assert [("M", "+", {I}), ("x", "max", set())] == [(f.buffer.name, f.op, set(f.selected_by)) for f in how.reductions]


def test_a_variable_of_one_value_in_a_subscript_does_not_forbid_a_reduction():
    how = verdict(ParallelLoop((I, J), exprs(1, 8), store(M, I, load(M, I) + load(A, I, J))))
    assert [("M", "+", set())] == [(f.buffer.name, f.op, set(f.selected_by)) for f in how.reductions]
    assert [0] == [int_const(f.indices[0]) for f in how.reductions]


def test_elements_of_one_buffer_are_separate_reductions():
    how = verdict(nest(store(M, 0, load(M, 0) + load(A, I, J)), store(M, 1, load(M, 1) + 1.0)))
    assert [0, 1] == [int(f.indices[0].value) for f in how.reductions]


def test_updates_under_a_pattern_that_is_not_seen_are_atomic():
    for place in (I // 4, cast(load(IDX, I), INT32)):
        how = verdict(nest(store(S, place, load(S, place) + load(A, I, J))))
        assert ["+"] == [update.op for update in how.atomics.values()]


@pytest.mark.parametrize("place", [I * 3 % 16 + K, 15 - I, (I ^ 5) + K * 16, I % 4 * 4 + I // 4])
def test_updates_of_elements_that_are_found_to_differ_need_nothing(place):
    for scope in (Scope.SHARED, Scope.FRAGMENT):
        own = buffer("S", 64, scope=scope)
        how = verdict(ParallelLoop((I,), exprs(16), store(own, place, load(own, place) * load(A, I, 0))))
        assert ([], {}, "") == ([r for r in how.reductions if r.selected_by != {I}], how.atomics, how.reason)


@pytest.mark.parametrize("place", [I * 4 % 16, I // 2, I * K, (I ^ 5) % 8])
def test_updates_of_elements_that_may_be_the_same_run_in_order(place):
    own = buffer("S", 64)
    how = verdict(ParallelLoop((I,), exprs(16), store(own, place, load(own, place) + load(A, I, 0))))
    assert "iterations update elements of 'S' that they may share" == how.reason


@pytest.mark.parametrize(
    "body",
    [
        store(S, I // 4, load(S, I // 4) * load(A, I, J)),  # there is no atomic product
        store(M, I // 4, load(M, I // 4) + load(A, I, J)),  # nor one in registers
        store(M, 0, select(load(A, I, J) > load(M, 0), load(A, I, J), load(M, 0))),
        store(M, I, load(A, I, J)),  # the last of different values counts
        If(load(A, I, J) > 0.0, store(S, I, 1.0)),
    ],
)
def test_what_has_no_parallel_form_runs_in_order(body):
    assert verdict(nest(body)).reason


def test_an_update_that_is_read_in_other_ways_runs_in_order():
    loop = nest(Store(X, (), load(X) + 1.0), store(F, I, J, load(X)))
    assert "use it in other ways" in verdict(loop).reason


def test_updates_by_a_row_that_stays_run_in_parallel():
    """As in the elimination of a matrix: each row below row k is reduced by it."""
    reduced = store(F, I, J, load(F, I, J) - load(A, I, K) * load(F, K, J))
    for condition, reason in ((I > K, ""), (I >= K, "iterations update 'F' and use it in other ways")):
        assert reason == verdict(nest(If(condition, reduced))).reason


def test_of_several_stores_to_one_element_the_last_counts():
    (store_,) = nest(store(S, I, load(A, I, J))).body.body
    assert {store_: (J,)} == verdict(nest(store_)).last_value_stores


def test_equal_values_may_be_stored_by_all():
    how = verdict(nest(store(M, I, load(A, I, 0))))
    assert ({}, "") == (how.last_value_stores, how.reason)


def test_scalars_that_an_iteration_writes_first_are_its_own():
    body = (Store(X, (), load(A, I, J)), store(F, I, J, load(X) * load(X)))
    assert ([], "") == (verdict(nest(*body)).live_out, verdict(nest(*body)).reason)
    assert [X] == verdict(nest(*body), used=True).live_out
    again = (Store(X, (), as_expr(0.0)), Store(X, (), load(X) + load(A, I, J)), store(F, I, J, load(X)))
    assert ([], "") == (verdict(nest(*again)).reductions, verdict(nest(*again)).reason)


def test_a_scalar_that_a_branch_writes_first_is_the_iteration_s_own():
    inside = Seq((Store(X, (), load(A, I, J)), store(F, I, J, load(X))))
    loop = nest(If(load(A, I, J) > 0.0, inside), If(load(A, I, J) < 0.0, store(F, I, J, 1.0)))
    assert "" == verdict(loop).reason
    assert "an iteration may use what another one left in 'x'" == verdict(loop, used=True).reason
    beside = nest(If(load(A, I, J) > 0.0, Store(X, (), load(A, I, J))), store(F, I, J, load(X)))
    assert "an iteration may use what another one left in 'x'" == verdict(beside).reason


def test_a_scalar_written_now_and_then_runs_in_order():
    body = (If(load(A, I, J) > 0.0, Store(X, (), load(A, I, J))), store(F, I, J, load(X)))
    assert verdict(nest(*body)).reason


def test_what_the_only_iteration_leaves_to_all_threads_is_computed_by_all():
    own = buffer("own", 1, scope=Scope.LOCAL)
    for writes in (store(X, load(A, I, J)), store(own, 0, load(A, I, J)), store(X, load(X) + load(A, I, J))):
        loop = ParallelLoop((I, J), exprs(1, 1), writes)
        assert verdict(loop, used=True).reason == f"all threads use what the only iteration leaves in '{writes.buffer.name}'"
        assert verdict(loop).reason == ""
    assert verdict(ParallelLoop((I, J), exprs(1, 1), store(own, I, load(A, I, J))), used=True).reason == ""
    assert verdict(ParallelLoop((I, J), exprs(1, 1), store(S, 0, load(A, I, J))), used=True).reason == ""


def test_names_and_scalars_of_an_iteration_do_not_matter():
    own = buffer("own", scope=Scope.VAR)
    x = Var("y", own.dtype)
    body = (Bind(x, load(A, I, J)), Alloc(own, x), Store(own, (), load(own) + x), store(F, I, J, load(own)))
    assert ([], "") == (verdict(nest(*body)).reductions, verdict(nest(*body)).reason)


def test_truth_values_are_reduced_by_bits():
    flag = buffer("flag", scope=Scope.VAR, dtype=BOOL)
    old = Load(flag, (), BOOL)
    how = verdict(nest(Store(flag, (), old & (load(A, I, J) > 0.0))))
    assert ["&"] == [f.op for f in how.reductions]


def test_contents_from_before_matter_unless_they_are_overwritten():
    assert is_private(X, nest(Store(X, (), load(A, I, J)), store(F, I, J, load(X))))
    assert not is_private(X, nest(store(F, I, J, load(X))))
    assert is_private(X, nest(store(F, I, J, 1.0)))
