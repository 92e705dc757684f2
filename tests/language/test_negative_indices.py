"""Indices that are surely negative: they count from the end, on every way to run a program."""

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.ir.stmt import Store
from tilelang.ir.visit import walk
from tilelang.language.negative_indices import count_from_the_end


@T.prim_func
def rows(A: T.Tensor((16,), "int32"), B: T.Tensor((9, 4), "int32"), n: T.int32):
    with T.Kernel(4, threads=32) as bx:
        B[0, bx] = A[-1]
        B[1, bx] = A[bx - 4]
        for i in T.serial(-8, -4):
            if bx == 0:
                B[2, i + 8] = A[i]
        B[-6, bx - 4] = A[T.int32(2) - 5]
        if n < 0:
            B[4, bx] = A[n]
        else:
            B[4, bx] = A[n - 1]
        for j in T.Parallel(4):
            if bx == 1:
                B[5, j] = A[j - 5] + A[j - 2]
        B[6, bx] = A[bx - 30] + 1
        while B[7, bx - 4] < 3:
            B[7, bx] = B[7, bx - 4] + 1
        T.atomic_add(B[8, bx - 4], A[bx - 5])


EXPECTED_N = {
    -3: 14,  # n < 0 is known
    0: 0,  # the sign of n - 1 is not
    5: 5,
}


@pytest.mark.parametrize(
    "backend",
    [
        {"execution_backend": "reference"},
        {"target": "cpu"},
        {"execution_backend": "simulator", "target": {"kind": "cuda", "arch": "sm_80"}},
    ],
    ids=["reference", "cpu", "simulator"],
)
def test_negative_indices_count_from_the_end(backend):
    kernel = tilelang.compile(rows, **backend)
    for n, chosen in EXPECTED_N.items():
        a, b = np.arange(1, 17, dtype=np.int32), np.zeros((9, 4), np.int32)
        kernel(a, b, n)
        near = [0, 0, *a[:2]]
        expected = [
            [16] * 4, [13, 14, 15, 16], [9, 10, 11, 12], [14] * 4, [chosen] * 4, [12 + near[0], 13 + near[1], 14 + near[2],
            15 + near[3]], [1] * 4, [3] * 4, [12, 13, 14, 15],
        ]  # fmt: skip
        np.testing.assert_array_equal(expected, b)


def test_a_program_without_such_indices_is_left_alone():
    @T.prim_func
    def main(A: T.Tensor((16,), "int32"), n: T.int32):
        with T.Kernel(4, threads=32) as bx:
            A[bx * 4 + n] = 1

    assert main is count_from_the_end(main)


def test_an_index_of_either_sign_is_guarded():
    @T.prim_func
    def main(A: T.Tensor((16,), "int32")):
        with T.Kernel(4, threads=32) as bx:
            A[bx - 2] = 1

    (store,) = [node for node in walk(main.body) if isinstance(node, Store)]
    assert "bx - 2" == str(store.indices[0])
