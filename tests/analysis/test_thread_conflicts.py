"""Whether accesses of different threads may meet, compared with looking at every pair of threads."""

import dataclasses
import functools
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilelang.analysis.thread_accesses import thread_accesses
from tilelang.analysis.thread_conflicts import Conflicts
from tilelang.analysis.uniformity import Uniformity
from tilelang.arith.domain import Domain
from tilelang.dtypes import INT32, as_dtype
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Const, Load, Var, as_expr, const
from tilelang.ir.launch import LaunchPlan
from tilelang.ir.stmt import Atomic, AtomicOp, CallStmt, Group, Launch, MemoryOrder, Seq, Store
from tilelang.targets.gpu.isa.fence import FENCE_BLOCK

THREADS = 16
HALF = as_dtype("float16")
T, K, BX = (Var(name, INT32, index=True) for name in ("t", "k", "bx"))


def c(value):
    return const(value, INT32)


def buffer(name, *shape, scope=Scope.SHARED, view_of=None):
    return Buffer(name, tuple(map(as_expr, shape)), HALF, scope, view_of=view_of)


S, G = buffer("S", 64, 64), buffer("G", Var("M", INT32, index=True), 64, scope=Scope.GLOBAL)


def write(*indices, target=S, lanes=1, conditions=()):
    dtype = HALF if lanes == 1 else as_dtype(f"float16x{lanes}")
    store = Store(target, tuple(map(as_expr, indices)), Const(0, dtype))
    return thread_accesses(store, {}, conditions)[-1]


def read(*indices, target=S):
    store = Store(buffer("x", 1, scope=Scope.LOCAL), (c(0),), Load(target, tuple(map(as_expr, indices)), HALF))
    return thread_accesses(store, {})[0]


def conflict(x, y, domain=Domain(), plan=LaunchPlan(), threads=THREADS):
    launch = Launch((BX,), (c(4),), (threads, 1, 1), Seq(()), thread=T, plan=plan)
    return Conflicts(launch, Uniformity(launch)).conflict(x, y, domain)


def forms():
    scale, shift = st.integers(0, 4), st.integers(0, 8)
    plain = st.builds(lambda a, b: T * a + b, scale, shift)
    folded = st.builds(lambda d, a, b: T // d * a + T % d + b, st.sampled_from([2, 4, 8]), scale, shift)
    mixed = st.builds(lambda a, b: (T ^ a) + b, st.integers(0, 15), shift)
    return st.one_of(plain, folded, mixed, st.builds(lambda b: c(b), shift))


@given(forms(), forms(), forms(), forms(), st.sampled_from([1, 2, 4]), st.integers(1, THREADS))
def test_answers_are_those_of_every_pair_of_threads(row, column, other_row, other_column, lanes, limit):
    x = write(row, column, lanes=lanes, conditions=(T < limit,))
    y = read(other_row, other_column)
    at = [[int(evaluate(e, {T: t})) for t in range(THREADS)] for e in (row, column, other_row, other_column)]
    meet = any(
        t != u and t < limit and at[0][t] == at[2][u] and 0 <= at[3][u] - at[1][t] < lanes
        for t, u in itertools.product(range(THREADS), repeat=2)
    )
    assert meet is conflict(x, y)


@given(st.integers(1, 5), st.integers(-6, 6), st.integers(0, 6))
def test_different_versions_are_disjoint(stages, shift, other):
    x, y = write((K + shift) % stages, T), read((K + other) % stages, 15 - T)
    assert ((shift - other) % stages == 0) is conflict(x, y)
    assert conflict(write((K + shift) % 2, T), read((K + other) % 3, 15 - T))  # of different rings nothing is known


def test_what_all_threads_agree_on_cancels():
    assert not conflict(write(K * 7 + BX, T), read(K * 7 + BX, T))
    assert conflict(write(K * 7 + BX, T), read(K * 7 + BX, 15 - T))
    assert not conflict(write(K * 7 + BX, T), read(K * 7 + BX + 1, 15 - T))
    assert conflict(write(K, T), read(BX, 15 - T))
    assert not conflict(write(K, T), read(BX + 5, 15 - T), Domain().with_range(K, 0, 4).with_range(BX, 0, 3))
    assert not conflict(write(K, T, target=G), read(K - 1, 15 - T, target=G))


def update(op=AtomicOp.ADD, target=S, **how):
    value = None if op is AtomicOp.LOAD else Const(1, target.dtype)
    return thread_accesses(Atomic(op, target, (c(0), c(0)), value, **how), {})[-1]


def test_reads_agree_with_each_other():
    assert not conflict(read(0, 0), read(0, 0))
    assert conflict(update(), read(0, 0))
    assert not conflict(update(AtomicOp.LOAD), read(0, 0))
    assert not conflict(update(AtomicOp.LOAD), update(AtomicOp.LOAD))


@pytest.mark.parametrize("target", [S, G])
def test_atomics_agree_that_commute(target):
    commutative = [op for op in AtomicOp if op.operator is not None]
    for x, y in itertools.product(AtomicOp, repeat=2):
        agree = x is y and (x in commutative or x is AtomicOp.LOAD)
        assert agree is not conflict(update(x, target), update(y, target))


def test_atomics_whose_previous_values_are_used_do_not_commute():
    previous = Var("previous", HALF)
    assert conflict(update(), update(result=previous))
    assert conflict(update(result=previous), update())
    assert conflict(update(result=previous), update(result=previous))


def test_atomics_on_views_of_another_dtype_do_not_commute():
    words = Buffer("words", S.shape, as_dtype("int16"), Scope.SHARED, view_of=S)
    assert conflict(update(), update(target=words))


def test_a_single_thread_has_no_conflicts():
    assert conflict(write(0, 0), read(0, 0))
    assert not conflict(write(0, 0), read(0, 0), threads=1)


@pytest.mark.parametrize("offset,overlap", [(0, True), (127, True), (128, False)])
def test_buffers_conflict_where_their_allocations_overlap(offset, overlap):
    a, b = buffer("a", 64), buffer("b", 64)
    plan = LaunchPlan(shared_offsets=((a, 0), (b, offset)))
    assert overlap is conflict(write(T, target=a), write(T, target=b), plan=plan)
    assert not conflict(write(T, target=a), write(T, target=b))


def test_views_of_one_buffer_may_conflict():
    base = buffer("a", 64)
    view = buffer("v", 8, 8, view_of=base)
    assert conflict(write(T, target=base), read(0, 15 - T, target=view))


def test_regions_conflict_as_boxes():
    box = Region(S, (T // 4 * 16, c(0)), (c(16), c(64)))
    call = CallStmt(FENCE_BLOCK, (box,), (), (box,))
    (access,) = thread_accesses(call, {})
    assert conflict(access, read(T // 4 * 16 + 3, T))  # lanes of one group touch each other's rows
    assert not conflict(access, read(T // 16 + 64, T))
    unknown = Region(S, (c(0), c(0)), (Var("n", INT32, index=True), c(1)))
    (open_ended,) = thread_accesses(CallStmt(FENCE_BLOCK, (unknown,), (), (unknown,)), {})
    assert conflict(open_ended, read(T, 0))
    assert not conflict(open_ended, read(T, 1))


def test_what_depends_on_memory_may_be_anywhere():
    table = Load(Buffer("table", (c(16),), INT32, Scope.GLOBAL), (T,), INT32)
    assert conflict(write(table, T), read(T, 15 - T))
    assert not conflict(write(table, T), read(table, T))  # each thread has a column of its own


def test_the_thread_of_a_group_of_one_has_no_conflict_with_itself():
    x, y = (dataclasses.replace(write(0, 0), single_thread=Group(32, 1)) for _ in range(2))
    assert not conflict(x, y)
    assert conflict(x, write(0, 0))
    assert conflict(x, dataclasses.replace(y, single_thread=Group(64, 1)))


def test_only_accesses_to_bytes_that_the_launch_writes_matter():
    a, b, apart = (buffer(name, 64) for name in "abc")
    view = buffer("v", 8, 8, view_of=a)
    held = buffer("held", 1, scope=Scope.LOCAL)
    body = Seq((Store(a, (T,), Load(apart, (T,), HALF)), Store(held, (c(0),), Load(b, (T,), HALF))))
    plan = LaunchPlan(shared_offsets=((a, 0), (b, 64), (apart, 128)))
    launch = Launch((BX,), (c(4),), (THREADS, 1, 1), body, thread=T, plan=plan)
    may_conflict = Conflicts(launch, Uniformity(launch)).may_conflict
    assert [True, True, True, False, False] == list(map(may_conflict, (a, view, b, apart, held)))


@pytest.mark.parametrize("stride", [64, 1 << 20])
def test_positions_may_be_far_from_each_other(stride):
    assert not conflict(write(T * stride, 0), read(T * stride, 0))
    assert conflict(write(T * stride, 0), read((T + 1) * stride, 0))
    assert not conflict(write(T * stride, 0), read((T + 1) * stride + 1, 0))


@pytest.mark.parametrize("subgroup_size", [1, 4, THREADS])
def test_a_release_conflicts_with_global_accesses_of_other_subgroups(subgroup_size):
    flag = Atomic(AtomicOp.STORE, G, (c(0), c(0)), Const(1, HALF), order=MemoryOrder.RELEASE)
    (told,) = thread_accesses(flag, {}, (T == 5,))
    launch = Launch((BX,), (c(4),), (THREADS, 1, 1), Seq(()), thread=T)
    conflicts = Conflicts(launch, Uniformity(launch))
    conflicts.subgroup_size = subgroup_size
    meet = functools.partial(conflicts.conflict, domain=Domain())
    assert meet(read(1, T, target=G), told) == (subgroup_size < THREADS)
    assert meet(write(1, 0, target=G, conditions=(T == 7,)), told) == (subgroup_size == 1)
    assert not meet(write(1, 0, target=G, conditions=(T == 5,)), told)
    assert not meet(write(1, T), told) and not meet(told, read(1, T, target=G))


def test_conflicts_within_a_subgroup_differ_from_conflicts_between_subgroups():
    launch = Launch((BX,), (c(4),), (THREADS, 1, 1), Seq(()), thread=T)
    conflicts, made, neighbor, far = Conflicts(launch, Uniformity(launch)), write(T, 0), read(T ^ 1, 0), read(T ^ 2, 0)
    found = []
    for size in (1, 2, 4, 1):
        conflicts.subgroup_size = size
        found.append(tuple(conflicts.conflict(made, later, Domain()) for later in (read(T, 0), neighbor, far)))
    assert [(False, True, True), (False, False, True), (False, False, False), (False, True, True)] == found


def test_accesses_that_differ_in_distance_length_or_condition_are_compared_anew():
    launch = Launch((BX,), (c(4),), (THREADS, 1, 1), Seq(()), thread=T)
    meet = functools.partial(Conflicts(launch, Uniformity(launch)).conflict, domain=Domain())
    made = write(K, T * 2)
    assert [False, False, True] == [meet(made, read(K, T * 2 + distance)) for distance in (0, 1, 2)]
    assert [True, False] == [meet(made, read(K + step, T * 2 + 2)) for step in (0, 1)]
    assert [False, True] == [meet(write(K, T * 2, lanes=lanes), read(K, T * 2 + 3)) for lanes in (1, 2)]
    for limit, expected in ((THREADS, True), (1, False)):  # the last thread reads beyond what is written
        assert expected == meet(write(K, T * 2, conditions=(T < limit,)), read(K, T * 2 + 2))


def test_what_some_threads_acquired_is_not_seen_by_others():
    def look(*indices, conditions=()):
        load = Atomic(AtomicOp.LOAD, G, indices, None, Var("old", HALF), MemoryOrder.ACQUIRE)
        return thread_accesses(load, {}, conditions)[0]

    later = read(1, T, target=G)
    assert conflict(look(c(0), c(0), conditions=(T == 0,)), later)
    assert not conflict(look(c(0), c(0)), later) and not conflict(look(c(0), c(0)), read(1, T))
    assert conflict(look(c(0), T), later)
    assert conflict(dataclasses.replace(look(c(0), c(0)), by_all_threads=False), later)
