"""`@T.prim_func`: signatures, and what they refuse."""

import numpy as np
import pytest

import tilelang.language as T
from tilelang.errors import ProgramError, StagingError
from tilelang.sim.tile_interp import run_reference


def test_parameters_of_every_kind():
    K = T.dynamic("K")

    @T.prim_func
    def main(
        A: T.Tensor((K, 2), T.int32),
        B: T.Tensor([K * 2], "int32"),
        S: T.StridedTensor((K, 2), (T.dynamic("ld"), 1), np.int32),
        n: T.int32,
        scale: "float32",  # noqa: F821
        flag: bool,
    ):
        with T.Kernel(K) as bx:
            B[bx * 2] = A[bx, 0] + n + S[bx, 1]
            B[bx * 2 + 1] = T.int32(scale * 2) if flag else 0

    assert ["A", "B", "S", "n", "scale", "flag"] == [p.name for p in main.params]
    assert ["K", "ld"] == [v.name for v in main.symbols]
    a = np.arange(6, dtype=np.int32).reshape(3, 2)
    b = np.zeros(6, np.int32)
    s = np.arange(12, dtype=np.int32).reshape(3, 4)[:, 1:3]
    run_reference(main, [a, b, s, 100, 1.5, True])
    assert [102, 3, 108, 3, 114, 3] == b.tolist()


def test_an_unannotated_parameter_is_an_error():
    with pytest.raises(ProgramError) as caught:

        @T.prim_func
        def main(A, B: T.Tensor((4,), "int32")):
            with T.Kernel(1) as bx:
                B[0] = 1

    assert "parameter 'A' has no type" in str(caught.value)
    assert "hint: annotate it: `A: T.Tensor((M, N), T.float16)`" in str(caught.value)
    assert str(caught.value).splitlines()[3].endswith("^")


def test_a_wrong_annotation_is_an_error():
    with pytest.raises(ProgramError, match="parameter 'A': \\[1, 2\\] is not a type of a kernel parameter"):

        @T.prim_func
        def main(A: [1, 2]):
            with T.Kernel(1) as bx:
                pass


def test_variadic_parameters_are_errors():
    with pytest.raises(ProgramError, match="kernels take a fixed list of parameters"):

        @T.prim_func
        def main(*args):
            with T.Kernel(1) as bx:
                pass


def test_returning_a_value_is_an_error():
    with pytest.raises(StagingError, match="only tensors made by T.empty can be returned, got 'A'"):

        @T.prim_func
        def main(A: T.Tensor((4,), "int32")):
            with T.Kernel(1) as bx:
                A[0] = 1
            return A


def test_closures_and_helpers_are_plain_python():
    sizes = [2, 3]
    dtype = T.int32

    def index(i, j):
        return i * sizes[1] + j

    @T.prim_func
    def main(A: T.Tensor((sizes[0] * sizes[1],), dtype)):
        with T.Kernel(1) as bx:
            for i, j in T.Parallel(*sizes):
                A[index(i, j)] = dtype(i + j)

    a = np.zeros(6, np.int32)
    run_reference(main, [a])
    assert [0, 1, 2, 1, 2, 3] == a.tolist()


def test_a_value_of_one_side_of_a_branch_is_an_error_outside():
    with pytest.raises(ProgramError):

        @T.prim_func
        def main(A: T.Tensor((4,), "int32"), n: T.int32):
            with T.Kernel(1) as bx:
                if n > 1:
                    S = T.alloc_shared((4,), "int32")
                T.fill(S, 1)
