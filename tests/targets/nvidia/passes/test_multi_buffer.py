"""Warp-specialized loops with barriers get the stages that `num_stages` asks for, or keep one and the plan says why."""

import numpy as np
import pytest
from gpu import in_every_schedule

import tilelang.language as T
from tilelang.ir.printer import to_text
from tilelang.ir.stmt import Alloc, For, ForKind, Launch
from tilelang.ir.visit import walk
from tilelang.passes.base import PassContext
from tilelang.passes.tile import detect_thread_groups, inline_bindings
from tilelang.targets.nvidia.passes import multi_buffer
from tilelang.targets.target import Target

TRIPS, BM, BN, BK = 5, 64, 32, 32
CONTEXT = PassContext(target=Target("cuda", "sm_90a"))


def kernel(stages=2, *, producer=1, consumers=1, bulk=True, case="", tile=(BM, BK)):
    """C = A @ B, the tiles loaded by one warp group and multiplied by the others."""
    first = 0 if producer else 1
    numbers = [n for n in range(consumers + 1) if n != producer] if consumers > 1 else [first]
    rows = BM * len(numbers)

    @T.prim_func
    def main(
        A: T.Tensor((rows, TRIPS * BK), "float16"),
        B: T.Tensor((TRIPS * BK, BN), "float16"),
        C: T.Tensor((rows, BN), "float32"),
    ):
        with T.Kernel(1, threads=128 * (len(numbers) + 1)):
            A_s = T.alloc_shared((rows, BK), "float16")
            B_s = T.alloc_shared((BK, BN), "float16")
            C_f = T.alloc_fragment((rows, BN) if len(numbers) == 1 else (BM, BN), "float32")
            D_f = T.alloc_fragment((BM, BN), "float32")
            full = T.alloc_barrier(127 if case == "count" else 128)
            empty = T.alloc_barrier(128 * len(numbers))
            with T.ws(numbers[0]):
                T.clear(C_f)
            if len(numbers) > 1:
                with T.ws(numbers[1]):
                    T.clear(D_f)
            if case == "view":
                flat = T.view(B_s, (BK * BN,), "float16")
            for k in T.Pipelined(TRIPS, num_stages=stages):
                with T.ws(producer):
                    if case != "no release":
                        T.barrier_wait(empty, (k + 1) % 2)
                    if bulk:
                        T.tma_copy(A[0, k * BK], A_s, barrier=full)
                        T.tma_copy(B[k * BK, 0], B_s, barrier=full)
                    elif case == "half":
                        T.copy(A[0, k * BK], A_s)
                        T.copy(B[k * BK : k * BK + BK // 2, :], B_s[0 : BK // 2, :])
                        T.copy(B[k * BK + BK // 2 : k * BK + BK, :], B_s[BK // 2 : BK, :])
                    else:
                        T.copy(A[0, k * BK], A_s)
                        T.copy(B[k * BK, 0], B_s)
                    if case == "branch":
                        if k < TRIPS:
                            T.barrier_arrive(full)
                    else:
                        T.barrier_arrive(full)
                with T.ws(numbers[0]):
                    T.barrier_wait(full, k // 2 % 2 if case == "parity" else k % 2)
                    if len(numbers) == 1:
                        T.gemm(A_s, B_s, C_f)
                    else:
                        T.gemm(A_s[0:BM, :], B_s, C_f)
                    T.barrier_arrive(empty)
                if len(numbers) > 1:
                    with T.ws(numbers[1]):
                        T.barrier_wait(full, k % 2)
                        T.gemm(A_s[BM : 2 * BM, :], B_s, D_f)
                        T.barrier_arrive(empty)
            with T.ws(numbers[0]):
                T.copy(C_f, C[0 : C_f.shape[0], :])
                if case == "after":
                    T.copy(B_s, C_f[0:BK, :])
            if len(numbers) > 1:
                with T.ws(numbers[1]):
                    T.copy(D_f, C[BM : 2 * BM, :])

    return main


def run_pass(func):
    for step in (inline_bindings.PASS, detect_thread_groups.PASS, multi_buffer.PASS):
        func = step.run(func, CONTEXT)
    (launch,) = (s for s in walk(func.body) if isinstance(s, Launch))
    return launch


def stage_counts(launch):
    """The leading extent of every tile and barrier that has versions."""
    allocated = {s.buffer.name: s.buffer.static_shape for s in walk(launch.body) if isinstance(s, Alloc)}
    return {"A_s": allocated["A_s"][:-2], "B_s": allocated["B_s"][:-2], "full": allocated["full"], "empty": allocated["empty"]}


@pytest.mark.slow(every=40)
@pytest.mark.parametrize("stages", [2, 3])
@pytest.mark.parametrize("bulk", [True, False])
@pytest.mark.parametrize(("producer", "consumers"), [(1, 1), (0, 1), (2, 2)])
def test_tiles_and_barriers_get_the_stages_and_every_schedule_computes_the_product(stages, bulk, producer, consumers):
    func = kernel(stages, producer=producer, consumers=consumers, bulk=bulk)
    launch = run_pass(func)
    expected = {"A_s": (stages,), "B_s": (stages,), "full": (stages,), "empty": (stages,)}
    assert expected == stage_counts(launch)
    (loop,) = (s for s in walk(launch.body) if isinstance(s, For))
    assert ForKind.SERIAL is loop.kind
    a = np.random.randint(-3, 4, [e.value for e in func.params[0].buffer.shape]).astype(np.float16)
    b = np.random.randint(-3, 4, (TRIPS * BK, BN)).astype(np.float16)
    product = a.astype(np.float32) @ b.astype(np.float32)
    for result in (in_every_schedule(func, a, b, np.zeros_like(product), arch="sm_90a"),):
        np.testing.assert_array_equal(product, result[-1])


def test_waits_name_the_stage_and_its_phase():
    text = to_text(next(s for s in walk(run_pass(kernel(3)).body) if isinstance(s, For)))
    assert "mbarrier_wait(empty[k % 3:k % 3 + 1], (k // 3 + 1) % 2)" in text
    assert "mbarrier_wait(full[k % 3:k % 3 + 1], (k // 3 + 0) % 2)" in text
    assert "mbarrier_arrive(full[k % 3:k % 3 + 1])" in text


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"case": "count"}, "an iteration arrives 128 times at 'full', which counts 127"),
        ({"case": "parity"}, "the parity of a wait for 'full' is not that of the iteration or of the one before"),
        ({"case": "no release"}, "'A_s' is filled without waiting for a reader to release it"),
        ({"case": "half", "bulk": False}, "'B_s' is not filled as a whole by one copy"),
        ({"case": "branch"}, "a barrier is used in a branch or an inner loop"),
        ({"case": "view"}, "'B_s' has views"),
        ({"case": "after"}, "'B_s' is also used outside of the loop"),
    ],
)
def test_a_loop_that_is_not_proven_keeps_one_stage_and_says_why(options, reason):
    launch = run_pass(kernel(**options))
    assert {"A_s": (), "B_s": (), "full": (1,), "empty": (1,)} == stage_counts(launch)
    assert [f"T.Pipelined: the loop keeps one stage: {reason}"] == [note.text for note in launch.plan.notes]


def test_stages_are_as_many_as_shared_memory_holds():
    launch = run_pass(kernel(100))
    each = (BM + BN) * BK * 2
    capacity = CONTEXT.target.machine.shared_bytes
    assert (capacity // each,) == stage_counts(launch)["A_s"]


def test_a_loop_of_one_stage_stays_as_it_is():
    func = kernel(1)
    launch = run_pass(func)
    assert () == launch.plan.notes
    assert (1,) == stage_counts(launch)["full"]
