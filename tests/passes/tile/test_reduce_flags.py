"""Constants that iterations of a parallel loop assign now and then."""

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.ir.printer import to_text
from tilelang.passes.base import PassContext
from tilelang.passes.tile import reduce_flags
from tilelang.targets.target import Target

SIMULATED = {"execution_backend": "simulator", "target": {"kind": "cuda", "arch": "sm_90a"}}


@T.prim_func
def rescaled(A: T.Tensor((2, 128), "float32"), B: T.Tensor((128, 8), "float32"), O: T.Tensor((2,), "int32")):
    with T.Kernel(1, threads=128):
        a, b = T.alloc_fragment((128,), "float32"), T.alloc_fragment((128, 8), "float32")
        T.copy(B, b)
        for k in T.serial(2):
            T.copy(A[k, :], a)
            changed = T.alloc_var("int32", init=3)
            for i in T.Parallel(128):
                if a[i] != 1.0:
                    changed = 7
            if changed == 7:
                for i, j in T.Parallel(128, 8):
                    b[i, j] *= a[i]
            O[k] = changed
        T.copy(b, B)


@T.prim_func
def in_a_group(A: T.Tensor((128,), "float32"), B: T.Tensor((128, 8), "float32"), O: T.Tensor((128,), "int32")):
    with T.Kernel(1, threads=256):
        tx = T.get_thread_binding()
        with T.ws(0):
            a, b = T.alloc_fragment((128,), "float32"), T.alloc_fragment((128, 8), "float32")
            T.copy(A, a)
            T.copy(B, b)
            changed = T.alloc_var("int32", init=0)
            for i in T.Parallel(128):
                if a[i] != 1.0:
                    changed = 1
            if changed == 1:
                for i, j in T.Parallel(128, 8):
                    b[i, j] *= a[i]
            O[tx] = changed
            T.copy(b, B)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "how", [{"execution_backend": "reference"}, {"target": "cpu"}, SIMULATED], ids=["reference", "cpu", "simulator"]
)
def test_a_flag_is_set_if_any_iteration_sets_it(how):
    a = np.ones((2, 128), np.float32)
    a[1, 77] = 3
    b, o = np.ones((128, 8), np.float32), np.zeros(2, np.int32)
    tilelang.compile(rescaled, **how)(a, b, o)
    assert [3, 7] == o.tolist()
    assert 128 * 8 + 2 * 8 == b.sum()


def test_all_threads_of_a_group_see_the_flag():
    kernel = tilelang.compile(in_a_group, **SIMULATED)
    for value, expected in ((1.0, 0), (3.0, 1)):
        a, b, o = np.ones(128, np.float32), np.ones((128, 8), np.float32), np.zeros(128, np.int32)
        a[5] = value
        kernel(a, b, o)
        assert [expected] * 128 == o.tolist()
        assert 128 * 8 + (value - 1) * 8 == b.sum()


def after(func) -> str:
    return to_text(reduce_flags.PASS.run(func, PassContext(target=Target("cuda", "sm_90a"))))


def test_a_flag_that_is_read_in_the_loop_or_set_to_several_values_stays():
    @T.prim_func
    def main(A: T.Tensor((64,), "int32"), O: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=32):
            read, several, always, own = (T.alloc_var("int32", init=0) for _ in range(4))
            for i in T.Parallel(64):
                if A[i] > 3:
                    read = 1
                    own = A[i]
                if A[i] > 4:
                    several = 1
                else:
                    several = 2
                always = 5
                O[i] = read
            O[0] = several + always + own

    assert "_is_set" in after(rescaled)
    assert "_is_set" not in after(main)
