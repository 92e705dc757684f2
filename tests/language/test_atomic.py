from collections.abc import Callable

import numpy as np
import pytest
from gpu import outcomes
from harness import run_everywhere

import tilelang.language as T
from tilelang.dtypes import INT32
from tilelang.errors import ProgramError
from tilelang.ir.buffer import Region
from tilelang.ir.expr import Const, Var
from tilelang.ir.stmt import Atomic, AtomicOp, MemoryOrder
from tilelang.language.proxy import BufferProxy
from tilelang.language.stage import Stager
from tilelang.ops.atomic import AtomicTile
from tilelang.ops.describe import extent_text

Tensor = Callable[..., BufferProxy]
i = Var("i", INT32, index=True)


@pytest.mark.parametrize(
    ("function", "op"),
    [
        (T.atomic_add, AtomicOp.ADD),
        (T.atomic_max, AtomicOp.MAX),
        (T.atomic_min, AtomicOp.MIN),
        (T.atomic_and, AtomicOp.AND),
        (T.atomic_or, AtomicOp.OR),
        (T.atomic_xor, AtomicOp.XOR),
        (T.atomic_exchange, AtomicOp.EXCHANGE),
    ],
)
def test_updates_of_one_element(function: Callable[..., object], op: AtomicOp, tensor: Tensor, stager: Stager) -> None:
    c = tensor("C", (8,), "int32")
    previous = function(c[i], 2.5, return_prev=True)
    (statement,) = stager.statements
    assert isinstance(statement, Atomic)
    assert isinstance(statement.value, Const)
    assert (op, 2, "int32") == (statement.op, statement.value.value, statement.value.dtype)
    assert isinstance(previous, Var)
    assert statement.result is previous


def test_nothing_is_returned_unless_asked_for(tensor: Tensor, stager: Stager) -> None:
    assert T.atomic_add(tensor("C", (8,))[0], 1) is None
    assert stager.statements[0].result is None  # type: ignore[attr-defined]


def test_loads_and_stores(tensor: Tensor, stager: Stager) -> None:
    flag = tensor("flag", (1,), "int32")
    value = T.atomic_load(flag[0], memory_order="acquire")
    T.atomic_store(flag[0], 1, memory_order="release")
    load, store = stager.statements
    assert isinstance(load, Atomic)
    assert isinstance(store, Atomic)
    assert (AtomicOp.LOAD, AtomicOp.STORE) == (load.op, store.op)
    assert load.result is value


def test_the_order_that_is_asked_for_is_kept(tensor: Tensor, stager: Stager) -> None:
    c, s = tensor("C", (8,), "int32"), T.alloc_shared((8,), "int32")
    stager.statements.clear()
    T.atomic_add(c[0], 1, memory_order="release")
    T.atomic_add(c[0], 1, memory_order="relaxed", return_prev=True)
    T.atomic_add(c, s, memory_order="seq_cst")
    T.atomic_load(c[0], "relaxed")
    T.atomic_load(c[0], "consume")
    T.atomic_store(c[0], 1, "release")
    orders = [statement.order.value for statement in stager.statements]  # type: ignore[attr-defined]
    assert ["release", "relaxed", "seq_cst", "relaxed", "acquire", "release"] == orders


def test_orders_that_nobody_asked_for(tensor: Tensor, stager: Stager) -> None:
    c, s = tensor("C", (8,), "int32"), T.alloc_shared((8,), "int32")
    stager.statements.clear()
    T.atomic_add(c[0], 1)
    T.atomic_add(c[0], 1, return_prev=True)  # who takes a number sees what was done before by those who took others
    T.atomic_add(s[0], 1, return_prev=True)  # barriers order what threads of a block do
    T.atomic_add(c, s)
    T.atomic_load(c[0])
    orders = [statement.order for statement in stager.statements]  # type: ignore[attr-defined]
    relaxed = MemoryOrder.RELAXED
    assert [relaxed, MemoryOrder.ACQ_REL, relaxed, relaxed, MemoryOrder.SEQ_CST] == orders


def test_tiles(tensor: Tensor, stager: Stager, box: Callable[..., list[str]]) -> None:
    c, s = tensor("C", (64, 64)), T.alloc_shared((16, 32))
    T.atomic_add(c[i * 16, 0], s)
    T.atomic_add(c[0:16, 32:], s, use_tma=True)
    T.atomic_min(c, 0)
    position, region, scalar = stager.statements[1:]
    assert isinstance(position, AtomicTile)
    assert isinstance(region, AtomicTile)
    assert isinstance(scalar, AtomicTile)
    assert ["i * 16+16", "0+32"] == box(position.dst)
    assert ["0+16", "32+32"] == box(region.dst)
    assert not isinstance(scalar.src, Region)
    assert AtomicOp.MIN is scalar.op


def test_vectors_of_neighbors(tensor: Tensor, stager: Stager) -> None:
    c, s = tensor("C", (8, 8)), T.alloc_local((4,), "float16")
    T.atomic_addx2(c[i, 2], s[0])
    T.atomic_addx4(c[i, T.Ramp(4, 1, 4)], s[T.Ramp(0, 1, 4)])
    updates = [x for x in stager.statements if isinstance(x, Atomic)]
    assert ["2", "3", "4", "5", "6", "7"] == [extent_text(x.indices[1]) for x in updates]
    assert {"float32"} == {str(x.value.dtype) for x in updates if x.value is not None}


def test_what_atomics_refuse(tensor: Tensor, stager: Stager) -> None:
    c = tensor("C", (8, 8))
    for call, message in (
        (lambda: T.atomic_add(3, 1), "T.atomic_add: the first operand is a value, not a place in memory"),
        (lambda: T.atomic_add(c, 1, return_prev=True), "T.atomic_add: return_prev is for one element, not for tiles"),
        (lambda: T.atomic_add(c[0, 0], 1, "strict"), "T.atomic_add: unknown memory_order 'strict'"),
        (lambda: T.atomic_load(c[0, 0], "no"), "T.atomic_load: atomic_load does not support memory_order 'no'"),
        (lambda: T.atomic_store(c[0, 0], 1, "no"), "T.atomic_store: atomic_store does not support memory_order 'no'"),
        (lambda: T.atomic_addx2(c[0, T.Ramp(0, 2, 2)], c[0, 2]), "T.atomic_addx2: the elements are no neighbors"),
        (lambda: T.atomic_load(c[0, 0], "release"), "T.atomic_load: atomic_load does not support memory_order 'release'"),
        (lambda: T.atomic_store(c[0, 0], 1, "acq_rel"), "T.atomic_store: atomic_store does not support memory_order 'acq_rel'"),
        (lambda: T.atomic_or(c[0, 0], 1), "T.atomic_or: needs integers, got float32"),
        (lambda: T.atomic_xor(c, 1), "T.atomic_xor: works on one element, not on tiles"),
        (lambda: T.atomic_load(c[0]), "T.atomic_load: 'C' is a tile (8,), but one element is needed"),
        (lambda: T.atomic_add(c, tensor("D", (8, 4))), "T.atomic_add: 'D' is (8, 4) but 'C' is (8, 8)"),
        (lambda: T.atomic_add(c[0, 0], 1, scope="warp"), "T.atomic_add: unknown scope 'warp'"),
        (lambda: T.atomic_cas(c, 1, 2), "T.atomic_cas: 'C' is a tile (8, 8), but one element is needed"),
        (lambda: T.atomic_addx4(c[0, 0], T.Broadcast(T.float32(1), 2)), "T.atomic_addx4: the value is a float32x2, but 4"),
        (lambda: T.atomic_addx2(T.alloc_var("float32"), c[0, 2]), "T.atomic_addx2: 'var' is a mutable scalar"),
    ):
        with pytest.raises(ProgramError) as caught:
            call()
        assert caught.value.message.startswith(message)


def test_vector_dtypes_have_no_atomics(tensor: Tensor, stager: Stager) -> None:
    with pytest.raises(ProgramError, match="vector dtype float16x2 has no arithmetic"):
        T.atomic_add(tensor("C", (8,), "float16x2")[0], tensor("D", (8,), "float16x2")[0])


def test_errors_that_programs_catch(tensor: Tensor, stager: Stager) -> None:
    c = tensor("C", (8,))
    for kind, call in (
        (ValueError, lambda: T.atomic_add(c[0], 1, memory_order="strict")),
        (ValueError, lambda: T.atomic_load(c[0], memory_order="acq_rel")),
        (ValueError, lambda: T.atomic_store(c[0], src=1, memory_order="acquire")),
        (NotImplementedError, lambda: T.atomic_max(c, 1, return_prev=True)),
    ):
        with pytest.raises(kind):
            call()


def test_scopes(tensor: Tensor, stager: Stager) -> None:
    c = tensor("C", (8,), "int32")
    T.atomic_add(c[0], 1, scope="system", annotations={})
    T.atomic_max(c, 1, scope="block")
    T.atomic_cas(c[0], 1, 2, scope="system")
    T.atomic_load(c[0], scope="block")
    assert ["system", "block", "system", "block"] == [x.scope.value for x in stager.statements]  # type: ignore[attr-defined]


def test_neighbors_are_added_as_regions_and_vectors_and_returned():
    @T.prim_func
    def main(C: T.Tensor((4, 8), "float32"), V: T.Tensor((4, 2), "float32"), P: T.Tensor((4, 8), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(4):
                before = T.atomic_addx2(C[i, 0:2], V[i, 0:2], return_prev=True)
                P[i, 0] = T.extract_lane(before, 0)
                P[i, 1] = T.extract_lane(before, 1)
                T.atomic_addx4(C[i, 4], T.Broadcast(V[i, 1], 4))

    c, v = np.arange(32, dtype=np.float32).reshape(4, 8), np.arange(8, dtype=np.float32).reshape(4, 2)
    result = run_everywhere(main, c, v, np.zeros((4, 8), np.float32))
    np.testing.assert_array_equal(c[:, :2] + v, result[0][:, :2])
    np.testing.assert_array_equal(c[:, 4:] + v[:, 1:], result[0][:, 4:])
    np.testing.assert_array_equal(c[:, :2], result[2][:, :2])


@pytest.mark.parametrize("dtype", ["int32", "float32", "float16"])
def test_an_element_is_swapped_if_it_is_what_is_expected(dtype):
    @T.prim_func
    def main(C: T.Tensor((8,), dtype), D: T.Tensor((8,), dtype), P: T.Tensor((8,), dtype), n: T.int32):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((8,), dtype)
            for i in T.Parallel(8):
                s[i] = D[i]
                P[i] = T.atomic_cas(C[i + n], 3, D[i], memory_order="acq_rel", scope="system")
                T.atomic_cas(s[i], 5, 9, scope="block")
                D[i] = s[i]

    c, d = np.array([3, 1, 3, 2, 3, 0, 3, 9]).astype(dtype), np.array([5, 4, 6, 5, 7, 5, 0, 1]).astype(dtype)
    swapped, kept, previous, _ = run_everywhere(main, c, d, np.full(8, 9, dtype), 1)
    behind = np.append(c[1:], 0).astype(dtype)
    np.testing.assert_array_equal(np.append(c[:1], np.where(c[1:] == 3, d[:7], c[1:])), swapped)
    np.testing.assert_array_equal(np.where(d == 5, 9, d), kept)
    np.testing.assert_array_equal(behind, previous)


def test_one_block_takes_a_lock():
    """As many blocks as ask for it swap in turn, and one of them finds it free."""

    @T.prim_func
    def main(lock: T.Tensor((1,), "int32"), taken: T.Tensor((8,), "int32")):
        with T.Kernel(8, threads=32) as b:
            if T.get_thread_binding() == 0:
                taken[b] = T.atomic_cas(lock[0], 0, b + 1)

    for lock, taken in outcomes(main, np.zeros(1, np.int32), np.zeros(8, np.int32), arch="sm_90a"):
        assert 7 == np.count_nonzero(taken == lock[0])
        assert 0 == taken[lock[0] - 1]


@pytest.mark.parametrize("shared", [True, False])
def test_statements_on_one_element_run_in_their_order(shared):
    """Threads of all warps update it by one operation before a thread updates it by another."""

    @T.prim_func
    def main(C: T.Tensor((1,), "int32"), P: T.Tensor((2,), "int32")):
        with T.Kernel(1, threads=128):
            s = T.alloc_shared((1,), "int32") if shared else C
            s[0] = 0
            for i in T.Parallel(256):
                T.atomic_max(s[0], i)
            P[0] = T.atomic_min(s[0], 7, return_prev=True, memory_order="relaxed")
            for i in T.Parallel(256):
                T.atomic_add(s[0], 1)
            P[1] = T.atomic_exchange(s[0], 5, memory_order="relaxed")
            C[0] = s[0]

    for left, previous in outcomes(main, np.zeros(1, np.int32), np.zeros(2, np.int32), arch="sm_90a"):
        assert [255, 7 + 256] == previous.tolist()
        assert [5] == left.tolist()


@pytest.mark.parametrize("mutual", [True, False])
def test_groups_of_threads_may_wait_for_each_other_by_atomics(mutual):
    """A barrier between the two would never be reached by the first."""

    @T.prim_func
    def main(C: T.Tensor((2,), "int32")):
        with T.Kernel(1, threads=256):
            arrived = T.alloc_shared((2,), "int32")
            T.clear(arrived)
            with T.ws(0):
                if T.get_thread_binding() == 0:
                    T.atomic_store(arrived[0], 1)
                    while T.atomic_load(arrived[1]) == 0:
                        pass
                    C[0] = 1
            with T.ws(1):
                if T.get_thread_binding() == 128:
                    T.atomic_store(arrived[1], 1)
                    if mutual:
                        while T.atomic_load(arrived[0]) == 0:
                            pass
                    C[1] = 1

    for (done,) in outcomes(main, np.zeros(2, np.int32), arch="sm_90a"):
        assert [1, 1] == done.tolist()
