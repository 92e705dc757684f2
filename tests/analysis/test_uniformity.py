"""What all threads of a block agree on."""

import pytest

from tilelang.analysis.uniformity import Uniformity
from tilelang.dtypes import FLOAT32, INT32
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Const, Load, Var, const
from tilelang.ir.stmt import (
    Alloc,
    Atomic,
    AtomicOp,
    Bind,
    Break,
    CallStmt,
    For,
    ForKind,
    Group,
    If,
    Launch,
    Seq,
    Store,
    While,
)
from tilelang.targets.gpu.isa.warp import ACTIVE_MASK


def c(value):
    return const(value, INT32)


def index(name):
    return Var(name, INT32, index=True)


THREAD, BX, N = index("thread"), index("bx"), index("n")
ONE = Const(1.0, FLOAT32)


def buffer(name, scope, *shape):
    return Buffer(name, tuple(c(e) for e in shape), FLOAT32, scope)


SCALAR, TILE = buffer("x", Scope.VAR), buffer("S", Scope.SHARED, 64)
A, OUT = buffer("A", Scope.GLOBAL, 64), buffer("C", Scope.GLOBAL, 64)


def answers(*body):
    return Uniformity(Launch((BX,), (c(4),), (64, 1, 1), Seq(body), thread=THREAD))


def load(source, *indices):
    return Load(source, indices, FLOAT32)


@pytest.mark.parametrize(
    "expr,same",
    [(BX * 2 + N, True), (THREAD // 32, False), (load(A, BX), True), (load(A, THREAD), False), (load(TILE, N), True)],
)
def test_the_thread_index_is_what_makes_values_differ(expr, same):
    assert same is answers().is_uniform(expr)


def test_names_and_scalars_take_after_what_they_are_given():
    mine, ours = index("mine"), index("ours")
    found = answers(Bind(mine, THREAD % 2), Bind(ours, BX + 1), Alloc(SCALAR, load(A, BX)))
    assert (False, True, True) == tuple(map(found.is_uniform, (mine, ours, load(SCALAR))))
    assert not answers(Alloc(SCALAR), Store(SCALAR, (), load(A, THREAD))).is_uniform(load(SCALAR))
    # found only once what follows has been seen
    later = buffer("y", Scope.VAR)
    loop = For(index("k"), c(0), N, 1, ForKind.SERIAL, Seq((Store(SCALAR, (), load(later)), Store(later, (), load(A, THREAD)))))
    assert not answers(Alloc(SCALAR), Alloc(later), loop).is_uniform(load(SCALAR))


def test_a_scalar_given_on_some_threads_only_differs():
    branch = If(THREAD < 3, Store(SCALAR, (), ONE))
    found = answers(Alloc(SCALAR, Const(0.0, FLOAT32)), branch)
    assert not found.is_uniform(load(SCALAR))
    assert found.diverges(branch)
    same = If(BX < 3, Store(SCALAR, (), ONE))
    found = answers(Alloc(SCALAR, Const(0.0, FLOAT32)), same)
    assert found.is_uniform(load(SCALAR))
    assert not found.diverges(same)


def test_memory_that_other_blocks_may_write_differs():
    assert not answers(Store(OUT, (THREAD,), ONE)).is_uniform(load(OUT, c(0)))
    assert answers(Store(OUT, (THREAD,), ONE)).is_uniform(load(A, c(0)))


def test_results_of_instructions_differ():
    mask, old = Var("mask", INT32), Var("old", FLOAT32)
    found = answers(CallStmt(ACTIVE_MASK, (), result=mask), Atomic(AtomicOp.ADD, OUT, (c(0),), ONE, old))
    assert not found.is_uniform(mask)
    assert not found.is_uniform(old)


def test_loops_that_threads_leave_at_different_times_diverge():
    k = index("k")
    body = Store(TILE, (k,), ONE)
    own = For(k, c(0), THREAD, 1, ForKind.SERIAL, body)
    ours = For(k, c(0), N, 1, ForKind.SERIAL, body)
    early = For(k, c(0), N, 1, ForKind.SERIAL, If(load(A, THREAD) > 0.0, Break()))
    together = For(k, c(0), N, 1, ForKind.SERIAL, If(load(A, k) > 0.0, Break()))
    asking = While(load(A, THREAD) > 0.0, body)
    for loop, diverges in ((own, True), (ours, False), (early, True), (together, False), (asking, True)):
        found = answers(loop)
        assert diverges is found.diverges(loop)
        assert diverges is not found.is_uniform(k) or loop is asking


def test_a_group_is_looked_at_as_its_threads_see_it():
    own = buffer("own", Scope.VAR)
    leave = If(load(own) > 1.0, Break())
    loop = For(index("i"), c(0), c(4), 1, ForKind.SERIAL, Seq((Store(own, (), load(TILE, BX)), leave)))
    lanes = index("lane")
    body = Seq((Alloc(own, ONE), Bind(lanes, THREAD % 32), loop, Store(SCALAR, (), ONE)))
    branch = If(THREAD >= 32, body, group=Group(32, 32))
    found = answers(Alloc(SCALAR, ONE), branch)
    assert found.diverges(branch)
    assert found.is_uniform(load(own))
    assert not found.diverges(loop)
    assert not found.diverges(leave)
    assert not found.is_uniform(lanes)
    assert not found.is_uniform(load(SCALAR))  # the others do not store it


def test_a_loop_that_a_group_leaves_goes_on_for_the_others():
    loop = For(index("i"), c(0), c(4), 1, ForKind.SERIAL, If(THREAD >= 32, Break(), group=Group(32, 32)))
    assert answers(loop).diverges(loop)


def test_a_scalar_that_groups_assign_each_its_own_copies():
    def group(first, count, *body):
        return If(THREAD >= first, Seq(body), group=Group(first, count))

    def asks():
        return If(load(SCALAR) > 1.0, Break())

    mine, loop = asks(), index("i")
    first = group(0, 32, Store(SCALAR, (), load(TILE, BX)), For(loop, c(0), c(4), 1, ForKind.SERIAL, mine))
    same = group(32, 32, Store(SCALAR, (), load(TILE, N)), asks())
    own = group(32, 32, Store(SCALAR, (), load(A, THREAD)))
    part = group(0, 64, group(0, 16, Store(SCALAR, (), ONE)))
    under = If(THREAD < 40, Store(SCALAR, (), ONE))
    for body, uniform in (
        ((first, same), True),
        ((Store(SCALAR, (), ONE), first), True),
        ((first, own), True),  # nobody there reads what differs
        ((first, own, same), False),
        ((first, asks()), False),  # all threads ask
        ((first, part), False),  # half a warp of those that read
        ((first, under), False),
        ((Store(SCALAR, (), load(A, THREAD)), first), False),
        ((first, group(0, 64, same, asks())), False),  # half of them have one value, half another
    ):
        found = answers(Alloc(SCALAR), *body)
        assert uniform is found.is_uniform(load(SCALAR)), body
        assert uniform is not found.diverges(mine)
        if uniform:
            assert not found.diverges(first.then_body.body[1])
