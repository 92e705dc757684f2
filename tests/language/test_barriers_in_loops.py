import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.ir.func import PrimFunc
from tilelang.ir.stmt import CallStmt, ParallelLoop
from tilelang.ir.visit import walk

HOPPER = {"kind": "cuda", "arch": "sm_90a"}


def order(func: PrimFunc) -> str:
    """The loops (L) and the barriers (b) of a kernel."""
    return "".join(
        "L" if isinstance(s, ParallelLoop) else "b" for s in walk(func.body) if isinstance(s, ParallelLoop | CallStmt)
    )


@T.prim_func
def reversing(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
    with T.Kernel(1, threads=64):
        s = T.alloc_shared((64,), "float32")
        for i in T.Parallel(64):
            j = 63 - i
            s[i] = A[i]
            T.sync_threads()
            B[i] = s[j]


@T.prim_func
def mixing(A: T.Tensor((128,), "float32")):
    with T.Kernel(2, threads=64) as bx:
        f = T.alloc_fragment((64,), "float32")
        for i in T.Parallel(64):
            f[i] = A[127 - bx * 64 - i]
            T.sync_grid()
            A[bx * 64 + i] = A[bx * 64 + i] + f[i]


@T.prim_func
def nested(A: T.Tensor((8, 8), "float32")):
    with T.Kernel(1, threads=64):
        s = T.alloc_shared((8, 8), "float32")
        for i in T.Parallel(8):
            for j in T.Parallel(8):
                s[i, j] = A[i, j]
                T.sync_threads()
                A[i, j] = s[j, i]
                T.sync_threads()


@T.prim_func
def kept(A: T.Tensor((64,), "float32")):
    with T.Kernel(1, threads=64):
        for i in T.Parallel(64):
            x = A[i]
            T.sync_threads()
            A[i] = x + 1


def test_iterations_come_to_a_barrier_before_any_goes_on() -> None:
    assert ["LbL", "LbL", "LLbLLb", "Lb"] == [order(func) for func in (reversing, mixing, nested, kept)]


@pytest.mark.parametrize("backend", ["reference", "simulator"])
def test_what_is_written_before_a_barrier_is_read_behind_it(backend: str) -> None:
    a, b = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    tilelang.compile(reversing, target=HOPPER, execution_backend=backend)(a, b)
    assert np.array_equal(a[::-1], b)
    c = np.arange(64, dtype=np.float32).reshape(8, 8)
    expected = c.T.copy()
    tilelang.compile(nested, target=HOPPER, execution_backend=backend)(c)
    assert np.array_equal(expected, c)


def test_blocks_come_to_a_barrier_of_the_grid() -> None:
    a = np.arange(128, dtype=np.float32)
    tilelang.compile(mixing, target=HOPPER, execution_backend="simulator")(a)
    assert np.array_equal(np.full(128, 127, np.float32), a)
