"""Rules of whole programs: each broken rule gives one message with a place; programs that keep them pass."""

from __future__ import annotations

import pytest
from loops import M, buffer, bx, exprs, i, j, k, load, serial, store

import tilelang.language as tl
from tilelang.dtypes import FLOAT32
from tilelang.errors import Loc, NoLowering, ProgramError
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import as_expr, const, select
from tilelang.ir.func import PrimFunc, TensorParam
from tilelang.ir.stmt import Alloc, Break, For, ForKind, If, Launch, ParallelLoop, PipelineSpec, Seq, While
from tilelang.ops.copy import Copy
from tilelang.ops.fill import Fill
from tilelang.passes.base import PassContext
from tilelang.passes.tile.check_program import PASS, check_program
from tilelang.targets.target import Target

A = buffer("A", M, 64, scope=Scope.GLOBAL)
S = Buffer("S", exprs(32, 64), FLOAT32, Scope.SHARED, loc=Loc("kernel.py", 3))
T = buffer("T", 32, 64)
HERE = Loc("kernel.py", 7)


def region(b, *start_and_extent):
    half = len(start_and_extent) // 2
    return Region(b, exprs(*start_and_extent[:half]), exprs(*start_and_extent[half:]))


def function(*body, grid=(4,), threads=(128, 1, 1)):
    launch = Launch((bx,), exprs(*grid), threads, Seq((Alloc(S), Alloc(T), *body), loc=HERE))
    return PrimFunc("f", (TensorParam(A),), launch, symbols=(M,))


def parallel(n, *body):
    return ParallelLoop((i,), exprs(n), Seq(body))


def pipelined(n, spec, *body):
    return For(k, as_expr(0), as_expr(n), 1, ForKind.PIPELINED, Seq(body), pipeline=spec)


def test_a_good_program_comes_back_as_it_is():
    func = function(
        Copy(region(A, bx * 32, 0, 32, 64), region(S, 0, 0, 32, 64)),
        ParallelLoop((i, j), exprs(32, 64), store(T, i, j, load(S, i, j) + 1.0)),
    )
    assert func is PASS.run(func, None)


@pytest.mark.parametrize(
    ("message", "body"),
    [
        ("'S[i, 0]': index 63 is out of range for dimension 0, whose extent is 32", parallel(64, store(S, i, 0, 0.0))),
        ("'S[i - 1, 0]': index -1 is out of range for dimension 0, whose extent is 32", parallel(8, store(S, i - 1, 0, 0.0))),
        ("'S[32, 0]': index 32 is out of range for dimension 0, whose extent is 32", store(T, 0, 0, load(S, 32, 0))),
        ("'S[0, i * 8]': index 64 is out of range for dimension 1, whose extent is 64", serial(i, 9, store(S, 0, i * 8, 0.0))),
        ("'S[bx * 16, 0]': index 48 is out of range for dimension 0, whose extent is 32", store(S, bx * 16, 0, 0.0)),
        ("'S[i + 40, 0]': index 40 is out of range for dimension 0, whose extent is 32",
         parallel(M, If(load(S, 0, 0) > 0, store(S, i + 40, 0, 0.0)))),
        ("'S[16:48, :]': index 47 is out of range for dimension 0, whose extent is 32",
         Copy(region(A, 0, 0, 32, 64), region(S, 16, 0, 32, 64))),
        ("'S[k * 16:k * 16 + 16, :]': index 47 is out of range for dimension 0, whose extent is 32",
         pipelined(3, None, Fill(region(S, k * 16, 0, 16, 64), const(0.0, FLOAT32)))),
    ],
)  # fmt: skip
def test_an_access_on_chip_that_leaves_the_buffer(message, body):
    with pytest.raises(ProgramError) as caught:
        check_program(function(body))
    assert message == caught.value.message


def test_the_message_shows_the_allocation():
    with pytest.raises(ProgramError) as caught:
        check_program(function(parallel(64, store(S, i, 0, 0.0))))
    assert [("'S' is allocated here", "kernel.py:3")] == [(n.text, str(n.loc)) for n in caught.value.notes]
    assert "only global memory is guarded; make the buffer larger, or guard the access with `if`" == caught.value.hint


@pytest.mark.parametrize(
    "body",
    [
        parallel(64, If(i < 32, store(S, i, 0, 0.0))),
        parallel(64, store(T, 0, 0, select(i < 32, load(S, i, 0), 0.0))),
        parallel(M, store(S, i, 0, 0.0)),
        parallel(0, store(S, i + 40, 0, 0.0)),
        serial(i, 64, If(load(S, 0, 0) > 0, Break()), store(S, i, 0, 0.0)),
        If(bx < 0, store(S, 40, 0, 0.0)),
        If(bx > 9, serial(i, 4, store(S, 40, 0, 0.0))),
        serial(i, 8, serial(j, 8 - i, store(S, i + j, 0, 0.0))),
        While(load(S, 0, 0) > 0, parallel(64, store(S, i, 0, 0.0))),
        store(A, M + 7, 100, 0.0),
        parallel(64, store(S, i // 2, i % 2, 0.0)),
        Fill(region(S, 40, 0, 0, 64), const(0.0, FLOAT32)),
    ],
)
def test_what_is_not_proven_wrong_is_let_pass(body):
    check_program(function(body))


def test_an_empty_grid_runs_nothing():
    check_program(function(store(S, 40, 0, 0.0), grid=(0,)))


@pytest.mark.parametrize("grid", [lambda n: (n,), lambda n: (2, tl.ceildiv(n, 16)), lambda n: (n - 1,)])
def test_the_grid_of_any_launch_has_blocks(grid):
    n = tl.dynamic("n")

    @tl.prim_func
    def main(A: tl.Tensor((n,), "float32")):
        with tl.Kernel(1) as bx:
            S = tl.alloc_shared((32,), "float32")
            tl.clear(S)
            if n > 0 or S[n + 40] > 0:  # what only happens in calls that are refused
                A[bx] = S[bx]
        with tl.Kernel(*grid(n)):
            A[0] = 2

    check_program(main)


def test_an_extent_of_a_tensor_may_be_zero():
    n = tl.dynamic("n")

    @tl.prim_func
    def main(A: tl.Tensor((n,), "float32")):
        with tl.Kernel(1) as bx:
            S = tl.alloc_shared((32,), "float32")
            tl.clear(S)
            if n > 0 or S[n + 40] > 0:
                A[bx] = S[bx]

    with pytest.raises(ProgramError, match="index 40 is out of range"):
        check_program(main)


def test_operators_are_checked():
    with pytest.raises(ProgramError, match="T.copy"):
        check_program(function(Copy(region(S, 0, 0, 32, 64), region(T, 0, 0, 16, 64))))


def test_parallel_loops_are_checked_with_what_is_known_around_them():
    body = serial(k, 4, parallel(8, store(S, i, k, load(S, i + 1, k))))
    with pytest.raises(ProgramError, match="T.Parallel: iteration i = 0 reads"):
        check_program(function(body))


@pytest.mark.parametrize(
    ("threads", "message"),
    [
        ((2048, 1, 1), "T.Kernel: threads=2048 makes 2048 threads per block, needs 1 to 1024"),
        ((64, 32, 1), "T.Kernel: threads=(64, 32, 1) makes 2048 threads per block, needs 1 to 1024"),
        ((0, 1, 1), "T.Kernel: threads=0 makes 0 threads per block, needs 1 to 1024"),
    ],
)
def test_the_number_of_threads(threads, message):
    with pytest.raises(ProgramError) as caught:
        check_program(function(threads=threads))
    assert message == caught.value.message


LOADS = Copy(region(A, k * 32, 0, 32, 64), region(S, 0, 0, 32, 64))
USES = ParallelLoop((i, j), exprs(32, 64), store(T, i, j, load(T, i, j) + load(S, i, j)))


@pytest.mark.parametrize(
    "spec",
    [
        PipelineSpec(2),
        PipelineSpec(2, (0, 1), (0, 1)),
        PipelineSpec(2, (1, 0), (0, 1)),
        PipelineSpec(2, None, (0, 0)),
        PipelineSpec(2, (-1, 0), (-1, 1)),
    ],
)
def test_a_pipeline_that_keeps_its_dependences(spec):
    check_program(function(pipelined(8, spec, LOADS, USES)))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (PipelineSpec(2, (0,), (0,)), "T.Pipelined: order has 1 entries, but the loop has 2 effectful statements"),
        (PipelineSpec(2, (0, 1), (0,)), "T.Pipelined: stage has 1 entries, but the loop has 2 effectful statements"),
        (PipelineSpec(2, (0, 0), (0, 1)), "T.Pipelined: order=[0, 0] gives one position to two statements"),
        (
            PipelineSpec(2, (0, 1), (1, 0)),
            "T.Pipelined: `order` and `stage` let a statement that reads 'S' run before the one that writes it in the "
            "same iteration",
        ),
        (
            PipelineSpec(2, (1, 0), (0, 0)),
            "T.Pipelined: `order` and `stage` let a statement that reads 'S' run before the one that writes it in the "
            "same iteration",
        ),
    ],
)
def test_a_pipeline_that_does_not(spec, message):
    with pytest.raises(ProgramError) as caught:
        check_program(function(pipelined(8, spec, LOADS, USES)))
    assert message == caught.value.message


@pytest.mark.parametrize(
    ("spec", "nearest"),
    [
        (PipelineSpec(2, (0, 1), (1, 0)), "order=[0, 1], stage=[0, 0]"),
        (PipelineSpec(2, (1, 0), (0, 0)), "order=[0, 1], stage=[0, 0]"),
        (PipelineSpec(2, (1, 0), (3, 1)), "order=[0, 1], stage=[0, 0]"),
    ],
)
def test_the_nearest_stages_and_order_are_named(spec, nearest):
    with pytest.raises(ProgramError) as caught:
        check_program(function(pipelined(8, spec, LOADS, USES)))
    advice = "give the writer a lower stage, or the same stage and a lower position; the nearest is "
    assert advice + nearest == caught.value.hint


def test_a_value_carried_to_the_next_iteration_is_a_dependence():
    carried = (Copy(region(S, 0, 0, 32, 64), region(T, 0, 0, 32, 64)), Fill(region(S, 0, 0, 32, 64), as_expr(1.0)))
    check_program(function(pipelined(8, PipelineSpec(2, (1, 0), (0, 1)), *carried)))
    with pytest.raises(ProgramError, match="that writes it in the iteration before"):
        check_program(function(pipelined(8, PipelineSpec(2, (0, 1), (0, 1)), *carried)))


@pytest.mark.parametrize("statement", ["T.reduce_sum(F, R, dim=1)", "T.cumsum(R)", "T.gemm(F, F, F)"])
def test_operators_of_all_threads_inside_of_parallel_iterations_are_value_errors(statement):
    @tl.macro
    def operator(F, R):
        if statement.startswith("T.reduce"):
            tl.reduce_sum(F, R, dim=1)
        elif statement.startswith("T.cumsum"):
            tl.cumsum(R)
        else:
            tl.gemm(F, F, F)

    @tl.prim_func
    def main(A: tl.Tensor((16, 16), "float32")):
        with tl.Kernel(1, threads=64):
            F, R = tl.alloc_fragment((16, 16), "float32"), tl.alloc_fragment((16,), "float32")
            tl.copy(A, F)
            for i in tl.Parallel(16):
                operator(F, R)
                A[i, 0] = R[i]

    what = statement.partition("(")[0]
    with pytest.raises(ValueError, match=f"{what}: is inside of a T.Parallel loop, whose iterations run in parallel"):
        check_program(main)


@pytest.mark.parametrize(("threads", "group", "fits"), [(160, 1, True), (130, 0, True), (130, 1, False), (100, 0, False)])
def test_groups_of_threads_are_whole_warps(threads, group, fits):
    @tl.prim_func
    def kernel(X: tl.Tensor((4,), "int32")):
        with tl.Kernel(1, threads=threads), tl.ws(group):
            X[0] = 1

    context = PassContext(target=Target("cuda", "sm_90a"))
    if fits:
        assert kernel is check_program(kernel, context)
        return
    with pytest.raises(ProgramError) as caught:
        check_program(kernel, context)
    assert (f"T.ws: the block has {threads} threads", "write a multiple of 32 in T.Kernel") == (
        caught.value.message, caught.value.hint
    )
    assert caught.value.loc is not None and caught.value.loc.file == __file__


@pytest.mark.usefixtures("invented")
def test_what_only_machines_of_another_vendor_can_do_is_refused_with_their_names():
    @tl.prim_func
    def kernel(X: tl.Tensor((4,), "int32")):
        with tl.Kernel(1, threads=64):
            done = tl.alloc_barrier(1)
            tl.barrier_wait(done[0], 0)
            X[0] = 1

    with pytest.raises(NoLowering) as caught:
        check_program(kernel, PassContext(target=Target("invented", "wave64")))
    assert caught.value.message.startswith("T.alloc_barrier: wave64 cannot do that; it needs one of sm_80, sm_86")
    assert (
        "compile with target={'kind': 'cuda', 'arch': 'sm_80'}, or let T.Pipelined wait for copies, and T.sync_threads() "
        "for threads"
    ) == caught.value.hint


@pytest.mark.usefixtures("invented")
def test_instructions_without_a_text_for_the_target_are_refused_whichever_features_they_need():
    @tl.prim_func
    def kernel(X: tl.Tensor((4,), "int32")):
        with tl.Kernel(1, threads=64):
            tl.sync_threads(1, 32)
            X[0] = 1

    with pytest.raises(NoLowering, match="T.sync_threads: wave64 cannot do that; it needs one of sm_75, sm_80") as caught:
        check_program(kernel, PassContext(target=Target("invented", "wave64")))
    assert caught.value.loc is not None and caught.value.loc.file == __file__
