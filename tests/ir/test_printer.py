"""The IR as text."""

from __future__ import annotations

import dataclasses

from loops import buffer, bx, exprs, i, j, k, load, serial, store

from tilelang.dtypes import BOOL, FLOAT32, INT32, as_dtype
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.callee import Routine
from tilelang.ir.expr import Var, as_expr, const
from tilelang.ir.func import Level, PrimFunc, ScalarParam, TensorParam
from tilelang.ir.launch import LaunchPlan
from tilelang.ir.printer import to_text
from tilelang.ir.stmt import (
    Alloc,
    Assert,
    Atomic,
    AtomicOp,
    Bind,
    Break,
    CallStmt,
    Continue,
    For,
    ForKind,
    Group,
    If,
    Launch,
    LaunchHints,
    MemoryOrder,
    ParallelLoop,
    PipelineSpec,
    Print,
    Reduction,
    Seq,
    While,
)
from tilelang.layout.thread_values import digit, fragment
from tilelang.ops.copy import Copy
from tilelang.ops.fill import Fill
from tilelang.ops.gemm import Gemm
from tilelang.ops.reduce import Reduce, ReduceOp

FLOAT16 = as_dtype("float16")
M = Var("M", INT32, index=True)
A = Buffer("A", (M, as_expr(64)), FLOAT16, Scope.GLOBAL)
S, C = buffer("S", 16, 64, scope=Scope.SHARED, dtype=FLOAT16), buffer("C", 16, 16)
x = buffer("x", scope=Scope.VAR)
p = Var("p", BOOL)


def lines(node, **options):
    return to_text(node, **options).splitlines()


def test_groups_show_their_threads():
    inner = If(i < 1, Break(), group=Group(0, 1))
    assert "if i < 32:  # 32 threads together\n    if i < 1:  # one thread\n        break\n" == to_text(
        If(i < 32, inner, group=Group(0, 32))
    )


def test_a_whole_kernel_reads_like_the_language():
    whole = Region(S, exprs(0, 0), exprs(16, 64))
    by = Var("by", INT32, index=True)
    body = Seq((
        Alloc(S), Alloc(C), Alloc(x, const(0.5, FLOAT32)),
        Fill(Region(C, exprs(0, 0), exprs(16, 16)), const(0.0, FLOAT32)),
        For(k, as_expr(0), M // 16, 1, ForKind.PIPELINED, Seq((
            Copy(Region(A, exprs(by * 16, 0), exprs(16, 64)), whole),
            Gemm(whole, whole, Region(C, exprs(0, 0), exprs(16, 16)), transpose_b=True),
        )), pipeline=PipelineSpec(2, (0, 1), (0, 1))),
        Reduce(ReduceOp.MAX, Region(C, exprs(0, 0), exprs(16, 16)), Region(C, exprs(0, 0), exprs(16, 1)), 1, clear=False),
        ParallelLoop((i, j), exprs(16, 64), If(i < j, store(S, i, j, 0.0), If(i < 4, Break(), Continue()))),
    ))  # fmt: skip
    launch = Launch((bx, by), (M // 4, as_expr(2)), (128, 1, 1), body, LaunchHints(swizzle=(10, "row")))
    func = PrimFunc("main", (TensorParam(A), ScalarParam(Var("n", INT32, index=True))), launch, symbols=(M,))
    assert [
        'M = T.dynamic("M", "int32")',
        "@T.prim_func",
        'def main(A: T.Tensor((M, 64), "float16"), n: T.int32):',
        "    with T.Kernel(M // 4, 2, threads=128) as (bx, by):",
        '        T.use_swizzle(10, order="row")',
        '        S = T.alloc_shared((16, 64), "float16")',
        '        C = T.alloc_fragment((16, 16), "float32")',
        '        x = T.alloc_var("float32", init=0.5)',
        "        T.fill(C, 0.0)",
        "        for k in T.Pipelined(M // 16, num_stages=2, order=[0, 1], stage=[0, 1]):",
        "            T.copy(A[by * 16:by * 16 + 16, :], S)",
        "            T.gemm(S, S, C, transpose_B=True)",
        "        T.reduce_max(C, C[:, 0], dim=1, clear=False)",
        "        for i, j in T.Parallel(16, 64):",
        "            if i < j:",
        "                S[i, j] = 0.0",
        "            elif i < 4:",
        "                break",
        "            else:",
        "                continue",
    ] == lines(func)


def test_thread_level_nodes_are_printed():
    routine = Routine("gemm_f32", {}, {})
    region = Region(C, exprs(i, 0), exprs(4, 16))
    reduction = Reduction(x, (), "+")
    body = Seq((
        For(i, as_expr(0), as_expr(8), 2, ForKind.VECTORIZED, store(x, load(x) + load(C, i, 0)), reductions=(reduction,)),
        For(i, as_expr(1), as_expr(8), 1, ForKind.UNROLLED, Seq(()), unroll_factor=4),
        CallStmt(routine, (region, i * 4), (region,), ()),
        While(load(x) > 0, store(x, load(x) - 1.0)),
        Bind(p, load(x) > 0),
        Atomic(AtomicOp.ADD, A, exprs(0, i), const(1.0, FLOAT16)),
        Atomic(AtomicOp.LOAD, A, exprs(0, i), None, Var("old", FLOAT16), MemoryOrder.ACQUIRE),
        Atomic(AtomicOp.MAX, A, exprs(0, i), const(1.0, FLOAT16), Var("old", FLOAT16)),
        Assert(load(x) > 0, 'not "good"'),
        Print(load(x), "x is"),
    ))  # fmt: skip
    assert [
        "# thread level",
        "@T.prim_func",
        "def f():",
        "    for i in T.vectorized(0, 8, 2):  # reduces x by +",
        "        x = x + C[i, 0]",
        "    for i in T.unroll(1, 8, unroll_factor=4):",
        "        pass",
        "    gemm_f32(C[i:i + 4, :], i * 4)",
        "    while x > 0.0:",
        "        x = x - 1.0",
        "    p = x > 0.0",
        "    T.atomic_add(A[0, i], 1.0)",
        '    old = T.atomic_load(A[0, i], memory_order="acquire")',
        '    old_1 = T.atomic_max(A[0, i], 1.0, return_prev=True, memory_order="relaxed")',
        '    T.device_assert(x > 0.0, "not \\"good\\"")',
        '    T.print(x, "x is")',
    ] == lines(PrimFunc("f", (), body, Level.THREAD))


def test_asynchronous_stores_are_marked():
    late = dataclasses.replace(store(buffer("S", 4), 0, 1.0), asynchronous=True)
    assert lines(late)[-1].endswith("S[0] = 1.0  # asynchronous")


def test_variables_of_one_name_get_suffixes_while_both_are_visible():
    other = Var("i", INT32, index=True)
    nested = serial(i, 4, serial(other, 4, store(C, i, other, 0.0)))
    assert ["for i in T.serial(4):", "    for i_1 in T.serial(4):", "        C[i, i_1] = 0.0"] == lines(nested)
    in_turn = Seq((serial(i, 4, store(C, i, 0, 0.0)), serial(other, 4, store(C, other, 0, 0.0))))
    assert ["for i in T.serial(4):", "    C[i, 0] = 0.0"] * 2 == lines(in_turn)


def test_a_view_shows_its_storage():
    view = Buffer("V", exprs(1024), FLOAT16, Scope.SHARED, view_of=S)
    assert ['V = T.view(S, (1024,), "float16")'] == lines(Alloc(view))


def test_text_does_not_depend_on_what_was_printed_before():
    stmt = serial(i, 4, store(C, i, j, 0.0))
    assert to_text(stmt) == to_text(stmt)


def test_a_call_shows_buffers_that_are_not_arguments():
    wait = CallStmt(Routine("wait", {}, {}), (Region(C, exprs(0, 0), exprs(16, 16)),), (Region(S, exprs(0, 0), exprs(16, 64)),))
    assert ["wait(C)  # reads S"] == lines(wait)
    both = dataclasses.replace(wait, args=(), writes=wait.args)
    assert ["wait()  # reads S; writes C"] == lines(both)


def test_a_parallel_loop_shows_the_threads_of_its_iterations():
    spread = fragment((4, 16), [digit(16, 0, 1)], [digit(4, 1, 0)])
    loop = ParallelLoop((i, j), exprs(4, 16), store(C, i, j, 0.0), coalesced_width=2, layout=spread)
    assert (
        "for i, j in T.Parallel(4, 16, coalesced_width=2):  "
        "# 16 threads run 4 iterations each: thread 16:(0,1), value 4:(1,0)"
    ) == lines(loop)[0]


def test_decisions_about_a_launch_and_its_buffers_are_comments():
    plan = LaunchPlan(shared_bytes=2048, shared_offsets=((S, 0),), versions=((S, 2),))
    launch = Launch((bx,), exprs(4), (32, 1, 1), Alloc(S), plan=plan)
    assert [
        "with T.Kernel(4, threads=32) as bx:",
        "    # 2048 bytes of shared memory",
        '    S = T.alloc_shared((16, 64), "float16")  # 2 versions; at byte 0',
    ] == lines(launch)
    bare = Launch((bx,), exprs(4), (32, 1, 1), Seq(()), plan=plan)
    assert "pass" == lines(bare)[-1].strip()
