"""Parameters declared by the signature or in the body, and tensors made by T.empty."""

import numpy as np
import pytest

import tilelang.language as T
from tilelang.errors import StagingError
from tilelang.language.parameters import annotations_of, stated_parameters
from tilelang.sim.tile_interp import run_reference


def test_a_statement_of_the_body_declares_a_parameter():
    n = T.dynamic("n")

    @T.prim_func
    def main(A, k, B: T.Tensor((n,), T.float32), p):
        shape = [n]
        B_copy = B
        A: T.Tensor(shape, "float32")
        k: T.int32
        p: T.ptr
        with T.Kernel(n) as i:
            B_copy[i] = A[i] + k

    assert ["A", "k", "B", "p"] == [p.name for p in main.params]
    b = np.zeros(3, np.float32)
    run_reference(main, [np.ones(3, np.float32), 4, b, 0])
    assert [5.0] * 3 == b.tolist()


def test_stated_parameters_are_found_before_the_function_runs():
    def f(A, B, C, n, m, s):
        A: T.Tensor((4,))
        if m:
            B: T.Tensor((4,))
        n: int
        m: T.int32 = 3
        assert n

        def inner(s):
            s: T.int32

    assert {"A", "B"} == stated_parameters(f)


def test_a_function_as_annotation_gives_the_type():
    def table():
        return T.Tensor((4,), "int32")

    @T.prim_func
    def main(A: table, p: T.ptr, q: T.ptr("float32")):
        with T.Kernel(1):
            A[0] = 1

    assert ["int32", "int64", "int64"] == [str(p.dtype) for p in main.params]


def test_annotations_of_other_kinds_are_left_alone():
    def f(A: T.Tensor, n: int, d: "NotThere", s: "float32", t: "T.int32"):  # noqa: F821
        pass

    found = annotations_of(f, {})
    assert {"A": T.Tensor, "n": int, "s": "float32", "t": "int32"} == found


def test_the_use_of_a_parameter_before_its_type_is_an_error():
    uses = [lambda A: A[0], lambda A: A.shape, lambda A: T.int32(A)]
    for use in uses:
        with pytest.raises(StagingError) as caught:

            @T.prim_func
            def main(A):
                use(A)
                A: T.Tensor((4,))

        assert "parameter 'A' is used before its type is stated" in str(caught.value)


def test_forms_of_empty():
    n = T.dynamic("n")

    @T.prim_func
    def main(A: T.Tensor((n,), "int32")):
        B = T.empty((n, 2), T.float16)
        C = T.empty(n, 2, dtype="float16")
        D = T.empty([n * 2 + 1], np.float16)
        E = T.empty(n)
        F = T.empty(n, "float16")
        with T.Kernel(1):
            pass
        return B, C, D, E, F

    assert (1, 2, 3, 4, 5) == main.outputs
    outputs = [main.params[i] for i in main.outputs]
    assert ["(n, 2)", "(n, 2)", "(n * 2 + 1,)", "(n,)", "(n,)"] == [str(p.shape) for p in outputs]
    assert ["float16"] * 3 + ["float32", "float16"] == [str(p.dtype) for p in outputs]


@pytest.mark.parametrize("shape", [(), (None,), ("n",), (1.5,), ((3, 4), 5), ((3, (4,)),), (3, None)], ids=str)
def test_what_is_no_shape_is_an_error(shape):
    with pytest.raises(TypeError, match="T.empty: .* is not a shape"):

        @T.prim_func
        def main(A: T.Tensor((4,))):
            return T.empty(*shape)


def refused(body):
    with pytest.raises(RuntimeError) as caught:

        @T.prim_func
        def main(A: T.Tensor((4,))):
            with T.Kernel(1):
                A[0] = 1
            return body(A)

    return caught.value.message


def test_what_a_function_may_return():
    def twice(A):
        made = T.empty(4)
        return made, made

    def other(A):
        T.empty(4)

    assert "only tensors made by T.empty can be returned, got 'A'" == refused(lambda A: A)
    assert "only tensors made by T.empty can be returned, got int" == refused(lambda A: (T.empty(4), 3))
    assert "'output' is returned twice" == refused(twice)
    assert "'output' is made by T.empty, but not returned" == refused(other)


def test_empty_inside_of_a_kernel_is_an_error():
    with pytest.raises(RuntimeError, match="T.empty: an output belongs to the function"):

        @T.prim_func
        def main(A: T.Tensor((4,))):
            with T.Kernel(1):
                B = T.empty(4)
            return B


def test_older_programs_declare_parameters_by_match_buffer():
    n = T.dynamic("n")

    @T.prim_func()
    def main(a: T.handle, b: T.handle):
        A = T.match_buffer(a, (n,), "int32")
        B = T.match_buffer(b, (n, 2), "int32", strides=(T.dynamic("ld"), 1))
        with T.Kernel(n) as i:
            A[i] = B[i, 1]

    assert ["a", "b"] == [p.name for p in main.params]
    a, b = np.zeros(3, np.int32), np.arange(12, dtype=np.int32).reshape(3, 4)[:, :2]
    run_reference(main, [a, b])
    assert [1, 5, 9] == a.tolist()


def test_match_buffer_takes_parameters_without_a_type():
    def refused(declare):
        with pytest.raises((TypeError, ValueError)) as caught:

            @T.prim_func
            def main(a: T.handle, B: T.Tensor((4,))):
                declare(a, B)

        return caught.value.message

    def twice(a, B):
        T.match_buffer(a, (4,))
        T.match_buffer(a, (4,))

    assert "is no parameter without a type" in refused(lambda a, B: T.match_buffer(B, (4,)))
    assert "parameter 'a' has its type already" == refused(twice)
    assert "from its first element on" in refused(lambda a, B: T.match_buffer(a, (4,), elem_offset=3))
    assert "parameter 'a' has no type" == refused(lambda a, B: None)
