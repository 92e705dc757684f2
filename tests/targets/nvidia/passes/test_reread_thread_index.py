"""Gemms of a loop with several of them compute offsets of their operands from an index that they read anew."""

import pytest
from programs import index_var

from tilelang.dtypes import INT32, SCALARS
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import as_expr, const
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.printer import to_text
from tilelang.ir.stmt import Bind, CallStmt, For, ForKind, If, Launch, Seq, Store, While
from tilelang.passes.base import PassContext
from tilelang.targets.nvidia.isa.mma import ATOMS, mma
from tilelang.targets.nvidia.isa.wgmma import WGMMA_FENCE
from tilelang.targets.nvidia.passes.reread_thread_index import PASS

THREAD, TURN, K, J = map(index_var, ("thread", "turn", "k", "j"))
OUT = Buffer("out", (as_expr(512),), INT32, Scope.SHARED)
OTHER = CallStmt(WGMMA_FENCE, ())


def multiply(name):
    part = Region(Buffer(name, (as_expr(64),), SCALARS["float32"], Scope.LOCAL), (const(0, INT32),), (as_expr(4),))
    return CallStmt(mma(ATOMS[0]), (part, part, part), (part,), (part,))


def loop(var, *body, kind=ForKind.SERIAL):
    return For(var, as_expr(0), as_expr(4), 1, kind, Seq(body))


def gemm(name, inside):
    """A block that names the lane, stores something there and multiplies."""
    lane = index_var(name)
    store = Store(OUT, (lane,), const(1, INT32))
    return Seq((Bind(lane, THREAD & 31), store, loop(J, inside, kind=ForKind.UNROLLED)))


def reread(*body, threads=(128, 1, 1)):
    """The lines of a launch after the pass that define names."""
    launch = Launch((), (), threads, Seq(body), thread=THREAD)
    made = PASS.run(PrimFunc("f", (), launch, Level.THREAD), PassContext())
    return [line.strip() for line in to_text(made).splitlines() if " = " in line]


X, Y = multiply("x"), multiply("y")
FIRST, SECOND = gemm("a", X), gemm("b", Y)


def test_each_gemm_has_an_index_of_its_own():
    lines = reread(loop(K, FIRST, Store(OUT, (THREAD,), const(1, INT32)), SECOND))
    assert [
        "thread = thread_index()", "thread_1 = thread", "a = thread_1 & 31", "out[a] = 1",
        "out[thread] = 1",
        "thread_1 = thread_index()", "thread_2 = thread_1", "b = thread_2 & 31", "out[b] = 1",
    ] == lines  # fmt: skip


@pytest.mark.parametrize("around", [lambda body: loop(TURN, body), lambda body: While(TURN > 0, body)])
def test_loops_in_others_and_of_unknown_length_are_found(around):
    assert 2 == sum("thread_index" in line for line in reread(around(Seq((loop(K, FIRST, SECOND), SECOND)))))
    assert 2 == sum("thread_index" in line for line in reread(around(Seq((FIRST, If(K > 0, SECOND))))))


@pytest.mark.parametrize(
    "body",
    [
        (loop(K, FIRST),),
        (loop(K, FIRST, gemm("b", X)),),  # steps of one gemm
        (FIRST, SECOND),  # which run once
        (loop(K, FIRST, kind=ForKind.UNROLLED), SECOND),
        (loop(K, gemm("a", OTHER), gemm("b", OTHER)),),
        (loop(K, loop(J, X, kind=ForKind.UNROLLED), loop(J, Y, kind=ForKind.UNROLLED)),),  # of no thread
    ],
)
def test_other_programs_stay(body):
    assert not any("thread_index" in line for line in reread(*body))


def test_threads_along_several_axes_have_no_index_to_read():
    assert not any("thread_index" in line for line in reread(loop(K, FIRST, SECOND), threads=(64, 2, 1)))
