import pytest
from gpu import lower_func

import tilelang.language as T
from tilelang.errors import NoLowering
from tilelang.ir.stmt import CallStmt
from tilelang.ir.visit import walk


def barriers(func):
    """The barriers of the lowered program, named ones with number and threads."""
    calls = [s for s in walk(lower_func(func).body) if isinstance(s, CallStmt)]
    return [(c.routine.name, *[a.value for a in c.args]) for c in calls if c.routine.name in ("bar_sync", "sync_threads")]


def test_every_group_has_a_barrier_of_its_own_and_its_own_number_of_threads():
    @T.prim_func
    def main(A: T.Tensor((64,), "int32"), B: T.Tensor((3, 64), "int32")):
        with T.Kernel(1, threads=384):
            s = T.alloc_shared((64,), "int32")
            t = T.alloc_shared((64,), "int32")
            with T.ws(0):
                for i in T.Parallel(64):
                    s[i] = A[i]
                for i in T.Parallel(64):
                    B[0, i] = s[63 - i]
            with T.ws(1, 2):
                for i in T.Parallel(64):
                    t[i] = A[i]
                for i in T.Parallel(64):
                    B[1, i] = t[63 - i]

    assert [("bar_sync", 15, 128), ("bar_sync", 14, 256)] == barriers(main)


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

    with pytest.raises(NoLowering, match="T.ws: stands where only some threads come"):
        lower_func(main)
