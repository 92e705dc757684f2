"""Asynchronous copies have a predicate instead of a branch around them."""

import pytest
from programs import index_var

from tilelang.dtypes import BOOL, INT32, as_dtype
from tilelang.ir.assumption import Assume, assume
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import Binary, Const, Load, as_expr, const
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.stmt import Alloc, CallStmt, For, ForKind, Group, If, Launch, Seq, Store
from tilelang.ir.visit import walk
from tilelang.targets.gpu.isa.sync import SYNC_THREADS
from tilelang.targets.nvidia.isa.cp_async import CP_ASYNC_COMMIT, cp_async
from tilelang.targets.nvidia.passes.predicate_copies import predicate_copies
from tilelang.targets.target import Target

BLOCK, THREAD, I, K = map(index_var, ("bx", "thread", "i", "k"))
HALF = as_dtype("float16")
A = Buffer("A", (as_expr(4096),), HALF, Scope.GLOBAL)
S = Buffer("S", (as_expr(4096),), HALF, Scope.SHARED)
INDEX = Buffer("index", (as_expr(4096),), INT32, Scope.GLOBAL)
EXISTS, FEW = K < 7, THREAD < 17


def copy(at=THREAD * 8 + I * 1024):
    source, target = (Region(buffer, (where,), (as_expr(8),)) for buffer, where in ((A, at), (S, THREAD * 8)))
    return CallStmt(cp_async(16), (target, source, Const(True, BOOL)), (source,), (target,))


def unrolled(*body, kind=ForKind.UNROLLED):
    return For(I, as_expr(0), as_expr(4), 1, kind, Seq(body))


def after(*body):
    launch = Launch((BLOCK,), (as_expr(4),), (128, 1, 1), Seq(body), thread=THREAD)
    return predicate_copies(launch, Target("cuda", "sm_80").machine)


def test_all_copies_of_a_branch_have_its_condition():
    made = list(walk(after(If(EXISTS, unrolled(copy(), copy()))).body))
    calls = [stmt for stmt in made if isinstance(stmt, CallStmt)]
    assert not any(isinstance(stmt, If) for stmt in made)
    assert [cp_async(16, predicated=True)] * 2 == [call.routine for call in calls]
    assert all(call.args[3] is EXISTS for call in calls)


def test_what_is_assumed_in_the_branch_is_not_assumed_outside():
    made = list(walk(after(If(EXISTS, Seq((assume(K < 5, copy().loc), copy())))).body))
    assert not any(isinstance(stmt, If | Assume) for stmt in made)


def test_branches_in_branches_become_one_predicate():
    made = list(walk(after(If(EXISTS, Seq((copy(), If(FEW, copy()))))).body))
    first, second = (stmt for stmt in made if isinstance(stmt, CallStmt))
    both = second.args[3]
    assert first.args[3] is EXISTS
    assert isinstance(both, Binary)
    assert (BinaryOp.AND, EXISTS, FEW) == (both.op, both.a, both.b)


@pytest.mark.parametrize(
    "branch",
    [
        If(EXISTS, Seq((copy(), CallStmt(CP_ASYNC_COMMIT, ())))),  # something else happens
        If(EXISTS, Seq((copy(), CallStmt(SYNC_THREADS, ())))),
        If(EXISTS, Store(S, (THREAD,), const(0, HALF))),
        If(EXISTS, copy(), copy()),  # and otherwise
        If(EXISTS, unrolled(copy(), kind=ForKind.SERIAL)),  # which would run for nothing
        If(EXISTS, copy(Load(INDEX, (K,), INT32))),  # the index may be out of bounds
        If(Load(INDEX, (K,), INT32) < 3, copy()),  # would be loaded for each copy
        If(EXISTS, copy(), group=Group(0, 32)),
    ],
)
def test_other_branches_stay(branch):
    assert any(isinstance(stmt, If) for stmt in walk(after(branch).body))


def test_branches_stay_where_arrays_take_all_registers():
    for registers, stays in ((200, False), (240, True)):
        array = Buffer("sums", (as_expr(registers),), as_dtype("float32"), Scope.LOCAL)
        uses = Store(array, (THREAD,), const(0, array.dtype))
        made = after(Alloc(array), uses, If(EXISTS, copy()), uses)
        assert stays is any(isinstance(stmt, If) for stmt in walk(made.body))
