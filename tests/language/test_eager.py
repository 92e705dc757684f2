"""Eager style: types stated in the body, sizes from the arguments, outputs allocated and returned."""

import numpy as np
import pytest

import tilelang.language as T
from tilelang.dtypes import DType
from tilelang.errors import ArgumentError, StagingError
from tilelang.ir.func import PrimFunc
from tilelang.language.eager import TensorFacts, find_sizes, is_eager, stage
from tilelang.sim.tile_interp import run_reference

F32 = DType("float32")


def array(*shape, dtype="float32"):
    return TensorFacts(shape, DType(dtype))


def staged(*arguments) -> PrimFunc:
    return stage(*arguments)[0]


def scale(A, factor: T.float32, block: int = 4):
    M, N = T.const("M, N")
    A: T.Tensor((M, N), T.float32)
    B = T.empty((M, N), T.float32)
    S = T.empty(M, T.float32)
    with T.Kernel(T.ceildiv(N, block), M) as (bx, by):
        for j in T.Parallel(block):
            B[by, bx * block + j] = A[by, bx * block + j] * factor
            if bx == 0 and j == 0:
                S[by] = factor
    return B, S


def lazy(N):
    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        with T.Kernel(1) as bx:
            A[0] = 1

    return main


def test_eager_functions_are_told_from_functions_that_return_a_prim_func():
    assert is_eager(scale)
    assert not is_eager(lazy)


def test_a_function_that_leaves_its_kernel_to_a_macro_is_eager():
    @T.macro
    def kernel(A, n):
        with T.Kernel(1):
            T.fill(A, n)

    def annotated(A: T.Tensor[[4], T.float32]):
        kernel(A, 1)

    def stated(A, n: int):
        A: T.Tensor[[4], T.float32]
        kernel(A, n)

    def pointers(p: T.ptr(T.float32)):
        kernel(T.make_tensor(p, (4,)), 2)

    def lazily(n: int):
        return lazy(n)

    assert [True, True, True, False] == [is_eager(fn) for fn in (annotated, stated, pointers, lazily)]


def test_sizes_come_from_the_arguments_and_outputs_are_added():
    func = staged(scale, {"A": array(2, 6)}, {"block": 4})
    assert ["A", "factor", "B", "S"] == [p.name for p in func.params]
    names = [func.params[i].name for i in func.outputs]
    assert ["B", "S"] == names
    a = np.arange(12, dtype=np.float32).reshape(2, 6)
    b, s = np.zeros((2, 6), np.float32), np.zeros(2, np.float32)
    values = {"A": a, "factor": 2.5, "B": b, "S": s}
    run_reference(func, [values[p.name] for p in func.params])
    np.testing.assert_array_equal(a * 2.5, b)
    assert [2.5, 2.5] == s.tolist()


def test_sizes_may_be_given_instead_of_tensors():
    func = staged(scale, {"A": None}, {"block": 4}, {"M": 3, "N": 5})
    shapes = {p.name: getattr(p, "shape", None) for p in func.params}
    assert (3, 5) == tuple(e.value for e in shapes["A"])


def test_an_unknown_size_is_an_error():
    with pytest.raises(StagingError, match="T.const: nothing fixes 'N'"):
        stage(scale, {"A": None}, {"block": 4}, {"M": 3})


def test_arguments_that_do_not_fit_are_errors():
    with pytest.raises(ArgumentError, match="argument 'A': expected 2 dimensions, got shape \\(3,\\)"):
        stage(scale, {"A": array(3)}, {"block": 4})


def product(A, B):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float32)
    B: T.Tensor((K, N), T.float32)
    C = T.empty((M, N), T.float32)
    with T.Kernel(1) as bx:
        for i, j in T.Parallel(M, N):
            acc = T.float32(0)
            for k in T.serial(K):
                acc += A[i, k] * B[k, j]
            C[i, j] = acc
    return C


def test_arguments_that_disagree_on_a_size_name_both():
    with pytest.raises(ArgumentError, match="argument 'B': dimension 0 is 4, but 'K' is 3 elsewhere"):
        stage(product, {"A": array(2, 3), "B": array(4, 2)}, {})


def test_a_single_result():
    func = staged(product, {"A": array(2, 3), "B": array(3, 4)}, {})
    assert (2,) == func.outputs
    a, b, c = np.ones((2, 3), np.float32), np.ones((3, 4), np.float32), np.zeros((2, 4), np.float32)
    run_reference(func, [a, b, c])
    np.testing.assert_array_equal(a @ b, c)


def test_const_outside_of_eager_style():
    with pytest.raises(RuntimeError, match="T.const: only has a meaning in a function marked @tilelang.jit"):

        @T.prim_func
        def main(A: T.Tensor((4,), "int32")):
            M = T.const("M")


def test_names_of_sizes_stand_between_commas_or_spaces():
    def forms(A, B):
        M = T.const("M", dtype="int64")
        N, K = T.const("N K")
        J, I = T.const(" J ,I")
        A: T.Tensor([M, N, K])
        B: T.Tensor([J, I])
        with T.Kernel(1):
            assert (M, N, K, J, I) == (2, 3, 4, 5, 6)
            assert all(type(n) is int for n in (M, N, K, J, I))

    tensors = {"A": array(2, 3, 4), "B": array(5, 6)}
    assert {"M": 2, "N": 3, "K": 4, "J": 5, "I": 6} == find_sizes(forms, tensors, {}).values
    for wrong in ("3", "a-b"):

        def unnamed(A):
            M = T.const(wrong)
            A: T.Tensor((M,))
            with T.Kernel(1):
                pass

        with pytest.raises(ValueError, match=f"T.const: '{wrong}' is not a name"):
            staged(unnamed, {"A": array(3)}, {})


def test_a_size_that_is_only_part_of_an_extent_is_an_error():
    def halves(A):
        M = T.const("M")
        A: T.Tensor((M * 2,), "float32")
        with T.Kernel(1):
            A[0] = M

    with pytest.raises(RuntimeError) as caught:
        staged(halves, {"A": array(4)}, {})
    assert "T.const: 'M' is no extent and no stride of any tensor parameter" == caught.value.message
    with pytest.raises(RuntimeError, match="'M' is no extent and no stride"):
        staged(halves, {"A": None}, {}, {"M": 2})


def late(A, B, dtype):
    M, N, K = T.const("M, N, K")
    size = [M, N]
    kind = T.Tensor([*size, K], dtype)
    half = M // 2 + 1
    A: kind
    total = half + N
    C = T.empty([half, total], dtype)
    B: T.Tensor(size, dtype)
    with T.Kernel(half) as bx:
        for i in range(min(M, 2)):  # Python's min, of integers
            C[bx, i] = A[bx, 0, K - 1] + B[bx, i]
    return C


def test_annotations_stand_anywhere_before_the_first_kernel():
    func = staged(late, {"A": array(4, 3, 2), "B": array(4, 3)}, {"dtype": "float32"})
    assert ["A", "B", "C"] == [p.name for p in func.params]
    assert [(4, 3, 2), (4, 3), (3, 6)] == [p.buffer.static_shape for p in func.params]


def test_python_may_need_the_value_of_a_size_before_the_kernel():
    def early(A, B):
        M = T.const("M")
        A: T.Tensor((M,), "float32")
        sizes = list(range(M))
        N = T.const("N")
        B: T.Tensor((N, len(sizes)), "float32")
        block = 4 if N > 3 else 2
        C = T.empty((block,))
        with T.Kernel(1):
            T.fill(C, block)
        return C

    func = staged(early, {"A": array(3), "B": array(2, 3)}, {})
    assert [(3,), (2, 3), (2,)] == [p.buffer.static_shape for p in func.params]
    with pytest.raises(StagingError, match="the loop bound|cannot be used as a Python integer"):
        staged(early, {"A": None, "B": None}, {})


def test_sizes_are_integers_in_macros_too():
    @T.macro
    def opened(A, B, n):
        with T.Kernel(n) as bx:
            for i in range(n):
                if i < n - 1:
                    B[bx] = A[bx] + i

    @T.macro
    def outputs(A, n):
        assert n > 0, "no rows"
        return T.empty(n), T.empty((n, n), "int32")

    def main(A):
        N = T.const("N")
        A: T.Tensor[(N,), T.float32]
        B, C = outputs(A, N)
        opened(A, B, N)
        with T.Kernel(1):
            T.clear(C)
        return C, B

    func = staged(main, {"A": array(3)}, {})
    assert (["A", "output", "output_1"], (2, 1)) == ([p.name for p in func.params], func.outputs)
    a, b, c = np.ones(3, np.float32), np.zeros(3, np.float32), np.ones((3, 3), np.int32)
    run_reference(func, [a, b, c])
    assert ([2.0] * 3, 0) == (b.tolist(), c.sum())
    with pytest.raises(AssertionError, match="no rows"):
        staged(main, {"A": array(0)}, {})


def test_packed_elements_count_as_what_is_declared():
    def packed(A):
        M, N, ld = T.const("M, N, ld")
        A: T.StridedTensor((M, N), (ld, 1), "float4_e2m1fn")
        with T.Kernel(1):
            pass

    found = find_sizes(packed, {"A": TensorFacts((4, 8), DType("uint8"), (16, 1))}, {})
    assert {"M": 4, "N": 16, "ld": 32} == found.values
    assert found.by_stride
    assert {"M": 4, "N": 8, "ld": 8} == find_sizes(packed, {"A": array(4, 8, dtype="float4_e2m1fn")}, {}).values

    def vectors(A):
        M = T.const("M")
        A: T.Tensor((M,), "float16x4")
        with T.Kernel(1):
            pass

    assert {"M": 3} == find_sizes(vectors, {"A": array(3, 4, dtype="float16")}, {}).values
