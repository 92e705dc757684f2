import pytest
from gpu import lower_func

import tilelang.language as T
from tilelang.errors import NoLowering
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Const
from tilelang.ir.stmt import CallStmt
from tilelang.ir.visit import variables_of, walk


def barriers(func):
    """The barriers of the lowered program, named ones with number and threads."""
    calls = [s for s in walk(lower_func(func).body) if isinstance(s, CallStmt)]
    return [(c.routine.name, *[a.value for a in c.args if isinstance(a, Const)]) for c in calls if c.routine.name in ("bar_sync", "sync_threads")]


def test_every_group_has_a_barrier_of_its_own_and_its_own_number_of_threads():
    @T.prim_func
    def main(A: T.Tensor((256,), "int32"), B: T.Tensor((2, 256), "int32")):
        with T.Kernel(1, threads=384):
            s = T.alloc_shared((64,), "int32")
            t = T.alloc_shared((256,), "int32")
            with T.ws(0):
                for i in T.Parallel(64):
                    s[i] = A[i]
                for i in T.Parallel(64):
                    B[0, i] = s[63 - i]
            with T.ws(1, 2):
                for i in T.Parallel(256):
                    t[i] = A[i]
                for i in T.Parallel(256):
                    B[1, i] = t[255 - i]

    assert [("bar_sync", 15, 128), ("bar_sync", 14, 256)] == barriers(main)


def test_warpgroups_that_never_meet_wait_for_their_own_threads():
    @T.prim_func
    def main(A: T.Tensor((2, 128), "int32"), B: T.Tensor((2, 128), "int32")):
        with T.Kernel(1, threads=384):
            s = T.alloc_shared((2, 128), "int32")
            with T.ws(0, 1):
                for k in T.serial(3):
                    for i, j in T.Parallel(2, 128):
                        s[i, j] = A[i, j] + k
                    for i, j in T.Parallel(2, 128):
                        B[i, j] = s[i, 127 - j]

    found = [c for c in walk(lower_func(main).body) if isinstance(c, CallStmt) and c.routine.name == "bar_sync"]
    numbers = [[int(evaluate(c.args[0], {v: t for v in variables_of(c.args[0])})) for t in (0, 128)] for c in found]
    assert [c.args[1].value for c in found] == [128] * len(found)
    assert numbers and all(a != b for a, b in numbers)


def test_warps_that_never_meet_wait_for_their_own_threads():
    @T.prim_func
    def main(A: T.Tensor((128,), "int32"), B: T.Tensor((128,), "int32")):
        with T.Kernel(1, threads=256):
            s = T.alloc_shared((128,), "int32")
            with T.ws(1):
                for k in T.serial(3):
                    for i in T.Parallel(128):
                        s[i] = A[i] + k
                    for i in T.Parallel(128):
                        B[i] = s[i // 32 * 32 + 31 - i % 32]

    names = [c.routine.name for c in walk(lower_func(main).body) if isinstance(c, CallStmt)]
    assert "sync_warp" in names and "bar_sync" not in names


def test_votes_of_a_group_take_its_barrier():
    @T.prim_func
    def main(S: T.Tensor((4, 64, 64), "float16"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=384):
            keys = T.alloc_shared((64, 64), "float16")
            scores = T.alloc_fragment((64, 64), "float32")
            output = T.alloc_fragment((64, 64), "float32")
            probabilities = T.alloc_shared((64, 64), "float16")
            row_max, row_sum = T.alloc_fragment((64,), "float32"), T.alloc_fragment((64,), "float32")
            with T.ws(1, 2):
                T.clear(output)
                T.clear(row_sum)
                T.fill(row_max, -T.infinity("float32"))
                for k in T.serial(4):
                    T.copy(S[k, 0, 0], keys)
                    T.gemm(keys, keys, scores, clear_accum=True, policy=T.GemmWarpPolicy.FullCol)
                    T.online_softmax(scores, output, row_max, row_sum, 1.0, probabilities)
                    T.gemm(probabilities, keys, output, policy=T.GemmWarpPolicy.FullCol)
                T.copy(row_sum, B)

    calls = [s for s in walk(lower_func(main).body) if isinstance(s, CallStmt) and s.routine.name == "bar_sync_or"]
    assert [[15, 256]] == [[a.value for a in call.args if isinstance(a, Const)] for call in calls]


def test_numbers_that_the_program_uses_are_left_to_it():
    @T.prim_func
    def main(A: T.Tensor((64,), "int32"), B: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=256):
            s = T.alloc_shared((64,), "int32")
            T.sync_threads(15, 256)
            with T.ws(0):
                for i in T.Parallel(64):
                    s[i] = A[i]
                for i in T.Parallel(64):
                    B[i] = s[63 - i]

    assert [("bar_sync", 15, 256), ("bar_sync", 14, 128)] == barriers(main)


def test_iterations_of_a_loop_in_a_group_are_kept_apart():
    @T.prim_func
    def main(A: T.Tensor((4, 64), "int32"), B: T.Tensor((4, 64), "int32")):
        with T.Kernel(1, threads=256):
            s = T.alloc_shared((64,), "int32")
            with T.ws(1):
                for k in T.serial(4):
                    for i in T.Parallel(64):
                        s[i] = A[k, i]
                    for i in T.Parallel(64):
                        B[k, i] = s[63 - i]

    assert [("bar_sync", 15, 128)] * 2 == barriers(main)


def test_groups_under_conditions_of_threads_are_refused():
    @T.prim_func
    def main(A: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=256):
            if T.get_lane_idx() == 0:
                with T.ws(0):
                    A[0] = 1

    with pytest.raises(NoLowering, match="T.ws: is in a branch or loop that only some threads execute"):
        lower_func(main)
