"""What one thread touches, and how it looks from later moments."""

import pytest

from tilelang.analysis.thread_accesses import LoopCarried, accesses_memory, thread_accesses
from tilelang.arith.domain import Domain
from tilelang.dtypes import BOOL, INT32, as_dtype
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.compare import same_expr
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Const, Load, Select, Var, const
from tilelang.ir.printer import to_text
from tilelang.ir.stmt import Atomic, AtomicOp, Bind, CallStmt, For, ForKind, MemoryOrder, Seq, Store, While
from tilelang.targets.nvidia.isa.cp_async import cp_async


def c(value):
    return const(value, INT32)


def index(name):
    return Var(name, INT32, index=True)


T, K = index("t"), index("k")
HALF = as_dtype("float16")
S = Buffer("S", (c(4), c(64)), HALF, Scope.SHARED)
G = Buffer("G", (c(64),), HALF, Scope.GLOBAL)
L = Buffer("L", (c(8),), HALF, Scope.LOCAL)


def shown(access):
    start = [None if e is None else to_text(e) for e in access.start]
    return access.buffer.name, start, access.extent, access.write


def test_vector_accesses_cover_neighbors_and_registers_are_private():
    wide = as_dtype("float16x8")
    copy = Store(S, (K % 4, T * 8), Load(G, (T * 8,), wide))
    assert [("G", ["t * 8"], (8,), False), ("S", ["k % 4", "t * 8"], (1, 8), True)] == list(
        map(shown, thread_accesses(copy, {}))
    )
    assert [] == thread_accesses(Store(L, (c(0),), Const(0.0, HALF)), {})
    assert (True, True) == accesses_memory(copy)
    assert (False, False) == accesses_memory(Store(L, (c(0),), Const(0.0, HALF)))


def test_names_are_replaced_and_data_is_unknown():
    row, data = index("row"), Var("data", INT32)
    store = Store(S, (row, data), Const(0.0, HALF))
    assert [("S", ["t // 32", "data"], (1, 1), True)] == list(map(shown, thread_accesses(store, {row: T // 32})))
    table = Load(Buffer("table", (c(8),), INT32, Scope.LOCAL), (T,), INT32)
    assert [("S", ["t // 32", None], (1, 1), True)] == list(
        map(shown, thread_accesses(Store(S, (row, table), Const(0.0, HALF)), {row: T // 32}))
    )


def test_what_a_choice_evaluates_happens_under_its_condition():
    value = Select(T < 8, Load(G, (T,), HALF), Const(0.0, HALF), HALF)
    guarded, _ = thread_accesses(Store(S, (c(0), T), value), {})
    assert ["t < 8"] == [to_text(condition) for condition in guarded.conditions]


def test_calls_access_their_regions_and_copies_do_so_asynchronously():
    dst, src = Region(S, (c(1), T * 8), (c(1), c(8))), Region(G, (T * 8,), (c(8),))
    call = CallStmt(cp_async(16), (dst, src, Const(True, BOOL)), (src,), (dst,))
    read, write = thread_accesses(call, {})
    assert (("G", ["t * 8"], (8,), False), True) == (shown(read), read.asynchronous)
    assert (("S", ["1", "t * 8"], (1, 8), True), True) == (shown(write), write.asynchronous)


@pytest.mark.parametrize("op", AtomicOp)
def test_atomics_commute_where_nobody_takes_the_value_before_and_loading_ones_write_nothing(op):
    value = None if op is AtomicOp.LOAD else Const(1.0, HALF)
    commutes = None if op.operator is None else op
    for result, expected in ((None, commutes), (Var("old", HALF), None)):
        (access,) = thread_accesses(Atomic(op, G, (T,), value, result), {})
        assert (expected, op is not AtomicOp.LOAD) == (access.commutes, access.write)


@pytest.mark.parametrize(
    ("op", "order", "releases", "acquires"),
    [
        (AtomicOp.ADD, MemoryOrder.RELAXED, False, False),
        (AtomicOp.ADD, MemoryOrder.ACQ_REL, True, True),
        (AtomicOp.LOAD, MemoryOrder.SEQ_CST, False, True),
        (AtomicOp.STORE, MemoryOrder.SEQ_CST, True, False),
        (AtomicOp.STORE, MemoryOrder.RELEASE, True, False),
        (AtomicOp.LOAD, MemoryOrder.ACQUIRE, False, True),
    ],
)
def test_atomics_on_global_memory_say_what_they_order(op, order, releases, acquires):
    value = None if op is AtomicOp.LOAD else Const(1.0, HALF)
    far = Buffer("far", (c(8),), HALF, Scope.GLOBAL)
    for target, is_global in ((far, True), (Buffer("near", (c(8),), HALF, Scope.SHARED), False)):
        (access,) = thread_accesses(Atomic(op, target, (T,), value, Var("old", HALF), order), {})
        assert (access.releases, access.acquires) == (releases and is_global, acquires and is_global)


# -- moments ---------------------------------------------------------------------------------------------------


def loop(trips, body, step=1):
    return For(K, c(0), trips if isinstance(trips, Var) else c(trips), step, ForKind.SERIAL, body)


def values(access, at):
    """The second index where it is free, for K = `at`."""
    expr = access.start[1]
    free = {f.var: f.values for f in access.free}
    names = [var for var in free if free[var] is not None]
    return sorted(int(evaluate(expr, {K: at, names[0]: v})) for v in free[names[0]]) if names else [evaluate(expr, {K: at})]


def test_accesses_of_the_iteration_before_are_known_exactly_and_older_ones_as_any():
    store = Store(S, (c(0), K * 2), Const(0.0, HALF))
    (access,) = thread_accesses(store, {})
    moments = LoopCarried(loop(5, store), Domain())
    once = moments.one_iteration_later(access)
    twice = moments.one_iteration_later(once)
    assert [4] == values(once, 3)
    assert [-2, 0, 2] == values(twice, 3)  # two to four iterations ago
    assert twice is moments.one_iteration_later(twice)
    assert once is moments.one_iteration_later(access)
    assert [0, 2, 4, 6, 8] == values(moments.after(access), 0)


def test_equal_indices_of_accesses_stay_equal():
    stores = [Store(S, (K % 4, T + K * 2), Const(value, HALF)) for value in (0.0, 1.0)]
    moments = LoopCarried(loop(9, Seq(tuple(stores))), Domain())
    for move in (moments.after, lambda access: moments.one_iteration_later(moments.one_iteration_later(access))):
        first, second = (move(thread_accesses(store, {})[0]) for store in stores)
        assert all(map(same_expr, first.start, second.start)) and first.free == second.free


def test_there_is_no_iteration_before_the_only_one():
    store = Store(S, (c(0), K), Const(0.0, HALF))
    (access,) = thread_accesses(store, {})
    assert LoopCarried(loop(1, store), Domain()).one_iteration_later(access) is None
    two = LoopCarried(loop(2, store), Domain())
    assert two.one_iteration_later(two.one_iteration_later(access)) is None


def test_unknown_trip_counts_leave_bounds():
    store = Store(S, (c(0), K), Const(0.0, HALF))
    (access,) = thread_accesses(store, {})
    moments = LoopCarried(loop(index("n"), store), Domain())
    older = moments.one_iteration_later(moments.one_iteration_later(access))
    assert [(None, 2, None)] == [(f.values, f.low, f.high) for f in older.free]
    assert [(None, 0, None)] == [(f.values, f.low, f.high) for f in moments.after(access).free]


def test_names_given_inside_of_the_loop_are_other_ones_in_other_iterations():
    data = Var("data", INT32)
    fetch = Bind(data, Load(Buffer("table", (c(8),), INT32, Scope.GLOBAL), (K,), INT32))
    store = Store(S, (c(0), data), Const(0.0, HALF))
    (access,) = thread_accesses(store, {})
    whole = Seq((fetch, store))
    moved = LoopCarried(loop(5, whole), Domain()).one_iteration_later(access)
    assert 1 == len(moved.free)
    assert data is not moved.start[1]
    asked = LoopCarried(While(Const(True, BOOL), whole), Domain())
    assert asked.trips is None
    assert data is not asked.after(access).start[1]


def test_what_no_loop_changes_is_the_same_access_at_any_time():
    store = Store(S, (c(0), T), Const(0.0, HALF))
    (access,) = thread_accesses(store, {})
    moments = LoopCarried(loop(5, store), Domain())
    assert access is moments.one_iteration_later(access)
    assert access is moments.after(access)
