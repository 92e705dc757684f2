"""Scalars that loops use in places of memory, and do not assign, have names there."""

import pytest
from programs import index_var
from specialized import launch_of, lowered

import tilelang.language as T
from tilelang.dtypes import INT32
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Load, as_expr, const
from tilelang.ir.func import PrimFunc
from tilelang.ir.stmt import Alloc, Bind, CallStmt, For, ForKind, If, Launch, Seq, Store, While
from tilelang.ir.visit import walk
from tilelang.passes.base import PassContext
from tilelang.passes.thread.hoist_scalar_loads import PASS
from tilelang.targets.nvidia.isa.named_barrier import BAR_SYNC

I, THREAD = map(index_var, ("i", "thread"))
A = Buffer("A", (as_expr(4096),), INT32, Scope.GLOBAL)
FIRST = Buffer("first", (), INT32, Scope.VAR)
VALUE = Load(FIRST, (), INT32)
STORE = Store(A, (VALUE + I,), const(1, INT32))


def serial(*body):
    return For(I, as_expr(0), as_expr(8), 1, ForKind.SERIAL, Seq(body))


def named(*body):
    launch = Launch((index_var("bx"),), (as_expr(4),), (128, 1, 1), Seq(body), thread=THREAD)
    func = PrimFunc("f", (), launch)
    made = PASS.run(func, PassContext())
    return None if made is func else [type(s) for s in walk(launch_of(made).body) if not isinstance(s, Seq)]


def assigned(value=3):
    return Store(FIRST, (), const(value, INT32))


def test_the_name_stands_before_the_outermost_loop_that_leaves_the_scalar_alone():
    assert [Alloc, Store, Bind, For, Store] == named(Alloc(FIRST), assigned(), serial(STORE))
    assert [Alloc, Bind, For, Store] == named(Alloc(FIRST, const(3, INT32)), serial(STORE))
    inner = While(VALUE < 3, Seq((STORE,)))
    assert [Alloc, For, Store, Bind, While, Store] == named(Alloc(FIRST), serial(assigned(), inner))


@pytest.mark.parametrize(
    "body",
    [
        (Alloc(FIRST), assigned(), serial(STORE, assigned(4))),  # another value in each iteration
        (Alloc(FIRST), serial(STORE)),  # which may have none
        (Alloc(FIRST), If(THREAD < 3, Seq((assigned(),))), serial(STORE)),
        (Alloc(FIRST), assigned(), STORE),  # no loop
        (Alloc(FIRST), assigned(), serial(Store(A, (I,), VALUE))),  # no place
    ],
)
def test_other_scalars_stay_as_they_are(body):
    assert named(*body) is None


def test_blocks_need_no_barrier_where_iterations_store_to_places_of_their_own():
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), B: T.Tensor((512, 64), "float16"), ends: T.Tensor((2,), "int32"),
             C: T.Tensor((64, 512), "float32")):  # fmt: skip
        with T.Kernel(1, threads=128):
            A_s = T.alloc_shared((64, 64), "float16")
            B_s = T.alloc_shared((64, 64), "float16")
            C_l = T.alloc_fragment((64, 64), "float32")
            first = T.alloc_var("int32", init=512)
            for i in T.serial(2):
                first = T.min(first, ends[i])
            T.copy(A, A_s)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(B[first + k * 64, 0], B_s)
                T.gemm(A_s, B_s, C_l, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(64, 64):
                    C[i, first + k * 64 + j] = C_l[i, j]

    made = lowered(main)
    assert [] == [s for s in walk(made.body) if isinstance(s, CallStmt) and s.routine is BAR_SYNC]
