"""Warps are joined again behind what lets their lanes go on one by one, before lanes do something together."""

import numpy as np
import pytest
from programs import index_var

import tilelang
import tilelang.language as T
from tilelang.dtypes import INT32, as_dtype
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Var, as_expr, const
from tilelang.ir.stmt import Atomic, AtomicOp, Break, CallStmt, For, ForKind, Group, If, Launch, Seq, Store
from tilelang.ir.visit import walk
from tilelang.targets.gpu.isa.sync import SYNC_THREADS, SYNC_WARP
from tilelang.targets.nvidia.isa.debug import NANOSLEEP
from tilelang.targets.nvidia.passes.reconverge_warps import reconverge_warps

BLOCK, THREAD, I = index_var("bx"), index_var("thread"), index_var("i")
FEW = THREAD < 17


def buffer(dtype, scope=Scope.SHARED):
    return Buffer("S", (as_expr(64),), as_dtype(dtype), scope)


def update(op=AtomicOp.MAX, dtype="float64", result=None):
    return Atomic(op, buffer(dtype), (THREAD,), const(1, as_dtype(dtype)), result)


def some(*body):
    return If(FEW, Seq(body))


def serial(*body):
    return For(I, as_expr(0), as_expr(4), 1, ForKind.SERIAL, Seq(body))


def barrier():
    return CallStmt(SYNC_THREADS, ())


def plain():
    return Store(buffer("int32"), (THREAD,), const(0, INT32))


def launch(*body, threads=128):
    return Launch((BLOCK,), (as_expr(4),), (threads, 1, 1), Seq(body), thread=THREAD)


def shape(stmt):
    """The statements of a body, by their kind."""
    kinds = []
    for child in stmt.body if isinstance(stmt, Seq) else (stmt,):
        match child:
            case Seq():
                kinds += shape(child)
            case If() | For():
                body = child.then_body if isinstance(child, If) else child.body
                kinds.append(shape(body))
            case CallStmt(routine=routine):
                kinds.append(routine.name)
            case _:
                kinds.append(type(child).__name__)
    return kinds


def joined(*body, **options):
    return shape(reconverge_warps(launch(*body, **options)).body)


def test_lanes_are_joined_behind_the_branch_that_some_of_them_take():
    needed_later = If(BLOCK < 1, Seq((barrier(),)))
    assert [["Atomic"], "sync_warp", ["sync_threads"]] == joined(some(update()), needed_later)
    assert [["Atomic"], "sync_warp", "Store", "sync_threads"] == joined(some(update()), plain(), barrier())


def test_a_barrier_that_follows_at_once_is_enough():
    assert [["Atomic"], "sync_threads"] == joined(some(update()), barrier())


def test_nothing_is_joined_where_lanes_do_nothing_together_afterwards():
    node = launch(barrier(), some(update()), plain())
    assert reconverge_warps(node) is node


def test_lanes_are_joined_at_the_end_of_a_loop_that_goes_on_with_a_barrier():
    loop = serial(barrier(), plain(), some(update()))
    assert [["sync_threads", "Store", ["Atomic"], "sync_warp"]] == joined(loop)


def test_lanes_are_joined_once_behind_a_loop_in_which_they_do_nothing_together():
    loop = serial(some(update()))
    needed_later = If(BLOCK < 1, barrier())
    assert [[["Atomic"]], "sync_warp", ["sync_threads"]] == joined(loop, needed_later)


def test_lanes_are_not_joined_where_some_of_them_may_not_come():
    rows = If(THREAD < 64, Seq((some(update()), CallStmt(SYNC_WARP, (const(2**32 - 1, as_dtype("uint32")),)))))
    assert [[["Atomic"], "sync_warp"], "sync_warp", "Store", "sync_threads"] == joined(rows, plain(), barrier())


def test_groups_of_whole_warps_join_their_own():
    def group(count):
        record = Group(0, count)
        return If(record.condition(THREAD), Seq((some(update()), plain(), barrier())), group=record)

    assert [[["Atomic"], "sync_warp", "Store", "sync_threads"]] == joined(group(64))
    assert [[["Atomic"], "Store", "sync_threads"]] == joined(group(16))


def test_the_lanes_of_a_block_smaller_than_a_warp_are_named():
    node = reconverge_warps(launch(update(), plain(), barrier(), threads=16))
    (call,) = (s for s in walk(node.body) if isinstance(s, CallStmt) and s.routine is SYNC_WARP)
    assert 0xFFFF == call.args[0].value


@pytest.mark.parametrize(
    ("op", "dtype", "parts"),
    [
        (AtomicOp.MAX, "float64", True),
        (AtomicOp.ADD, "int8", True),
        (AtomicOp.ADD, "bfloat16", True),
        (AtomicOp.EXCHANGE, "float16", True),
        (AtomicOp.ADD, "float16", False),
        (AtomicOp.ADD, "float32", False),
        (AtomicOp.MAX, "int32", False),
    ],
)
def test_operations_that_the_machine_has_keep_lanes_together(op, dtype, parts):
    assert parts == ("sync_warp" in joined(update(op, dtype), plain(), barrier()))


def test_a_loop_that_an_atomic_operation_ends_parts_lanes():
    def loop(*ends):
        seen = Var("seen", INT32)
        taken = update(AtomicOp.ADD, "int32", seen)
        return serial(taken, *(If(seen < 5, end) for end in ends))

    assert "sync_warp" in joined(loop(Break()), plain(), barrier())
    assert "sync_warp" not in joined(loop(), plain(), barrier())


def test_lanes_that_sleep_are_joined():
    sleep = CallStmt(NANOSLEEP, (const(10, INT32),))
    assert [["nanosleep"], "sync_warp", "Store", "sync_threads"] == joined(some(sleep), plain(), barrier())


def test_the_meaning_stays():
    @T.prim_func
    def main(A: T.Tensor((2, 64), T.float64), B: T.Tensor((2, 64), T.float64)):
        with T.Kernel(2, threads=64) as b:
            s = T.alloc_shared((64,), T.float64)
            T.clear(s)
            for i in T.Parallel(17):
                for k in T.serial(4):
                    T.atomic_max(s[i * k % 7], A[b, i])
            if b == 1:
                T.copy(s, A[b, 0])
                for i in T.Parallel(64):
                    s[i] = A[b, 63 - i] + 1.0
            T.copy(s, B[b, 0])

    kernel = tilelang.compile(main, target={"kind": "cuda", "arch": "sm_90a"}, execution_backend="simulator")
    assert "__syncwarp" in kernel.get_kernel_source()
    a, b = np.arange(128.0).reshape(2, 64), np.zeros((2, 64))
    kernel(a, b)
    want = np.zeros((2, 64))
    for block in range(2):
        for i in range(17):
            for k in range(4):
                want[block, i * k % 7] = max(want[block, i * k % 7], block * 64 + i)
    want[1] = want[1, ::-1] + 1
    np.testing.assert_array_equal(want, b)
