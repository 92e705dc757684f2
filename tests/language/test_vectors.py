"""`T.Ramp`, `T.Broadcast`, `T.Shuffle` and lanes: against NumPy on the reference, the CPU and the simulator."""

import re

import numpy as np
import pytest
from device_text import compile_cuda, needs_cuda_compiler
from hypothesis import given
from hypothesis import strategies as st

import tilelang
import tilelang.language as T
from tilelang.errors import ProgramError, ProgramLaneError
from tilelang.ir.expr import Var, as_expr
from tilelang.ir.vector import lanes_of

BACKENDS = {
    "reference": {"execution_backend": "reference"},
    "cpu": {"target": "cpu"},
    "sm_75": {"execution_backend": "simulator", "target": {"kind": "cuda", "arch": "sm_75"}},
    "sm_90a": {"execution_backend": "simulator", "target": {"kind": "cuda", "arch": "sm_90a"}},
}


def values(vector):
    return [lane.value for lane in lanes_of(vector)]


@T.prim_func
def rows(
    A: T.Tensor((16,), "float32"), off: T.int32, B: T.Tensor((4,), "float32"), C: T.Tensor((3, 8), "float32"),
    D: T.Tensor((16,), "int32"), H: T.Tensor((4,), "float16"),
):  # fmt: skip
    with T.Kernel(1, threads=32):
        B[T.Ramp(0, 1, 4)] = A[T.Ramp(off, 1, 4)]
        for t in T.serial(3):
            near = A[T.Ramp(t - 2, 1, 4)] + A[T.Broadcast(15, 4)] * T.Ramp(1.0, 0.5, 4)
            C[t, T.Ramp(0, 2, 4)] = T.max(near, 3.0)
            C[t, T.Ramp(1, 2, 4)] = -1.0
        D[T.Ramp(off, 2, 4)] = T.Ramp(off, 1, 4) // 2
        D[T.Ramp(4, 1, 4)] = D[T.Shuffle([3, 2, T.Ramp(0, 1, 2)], [0, 1, 3, 2])]
        pair = T.alloc_var("float16x2")
        pair = T.vectorhigh("float16x2", T.cast(B[T.Ramp(0, 1, 4)], "float16x4"))
        H[0:4] = T.vectorcombine("float16x4", pair, T.Broadcast(T.float16(2), 2))
        H[3] = T.extract_lane(pair, 1) * 2


@pytest.mark.parametrize("backend", BACKENDS)
def test_vectors_as_indices_and_values(backend):
    kernel = tilelang.compile(rows, **BACKENDS[backend])
    for off in (-1, 2):
        a = np.arange(1, 17, dtype=np.float32)
        b, c, d, h = np.zeros(4, "float32"), np.zeros((3, 8), "float32"), np.zeros(16, "int32"), np.zeros(4, "float16")
        kernel(a, off, b, c, d, h)
        np.testing.assert_array_equal(a[(off + np.arange(4)) % 16], b)
        near = [a[np.arange(t - 2, t + 2)] + a[15] * (1 + np.arange(4) / 2) for t in range(3)]
        np.testing.assert_array_equal(np.maximum(near, 3), c[:, ::2])
        np.testing.assert_array_equal(np.full((3, 4), -1), c[:, 1::2])
        expected = np.zeros(16, np.int32)
        expected[off + 2 * np.arange(4)] = (off + np.arange(4)) // 2
        expected[4:8] = expected[[3, 2, 1, 0]]
        np.testing.assert_array_equal(expected, d)
        np.testing.assert_array_equal([b[2], b[3], 2, 2 * b[3]], h)


def test_lanes_that_are_alike_become_one_access():
    @T.prim_func
    def main(A: T.Tensor((1024,), "float32"), B: T.Tensor((1024,), "float32")):
        with T.Kernel(1, threads=256):
            tx = T.get_thread_binding()
            B[T.Ramp(tx * 4, 1, 4)] = A[T.Ramp(tx * 4, 1, 4)] * 2

    source = tilelang.compile(main, target={"kind": "cuda", "arch": "sm_80"}).get_kernel_source()
    assert 1 == len(re.findall(r"const uint4\*\)&A", source))
    assert "?" not in source.partition("__global__")[2]


@needs_cuda_compiler
def test_text_of_packed_vectors_compiles():
    source = tilelang.compile(rows, target={"kind": "cuda", "arch": "sm_90a"}).get_kernel_source()
    assert "tl_pack<" in source
    assert "tl_lane<half_t>" in source
    assert compile_cuda(source, "sm_90a")


@given(st.integers(-9, 9), st.integers(-5, 5), st.integers(1, 9))
def test_ramps_are_arithmetic_progressions(base, stride, lanes):
    assert [base + i * stride for i in range(lanes)] == values(T.Ramp(base, stride, lanes))
    assert [base] * lanes == values(T.broadcast(base, lanes))
    if lanes > 1:
        assert [2 * (base + i * stride) - i for i in range(lanes)] == values(
            T.ramp(base, stride, lanes) * 2 - T.Ramp(0, 1, lanes)
        )


def test_shuffles_pick_lanes_of_all_vectors():
    assert [7, 0, 5] == values(T.Shuffle([T.Ramp(5, 1, 3), 0], [2, 3, 0]))
    assert "int32x2" == T.Shuffle([1, 2], [1, 0]).dtype
    assert [8, 9] == values(T.vectorlow("int32x2", T.Ramp(8, 1, 4)))


def test_a_lane_of_any_vector_expression_is_a_scalar():
    vector = Var("v", T.bfloat16x2)
    assert "bfloat16" == T.extract_lane(vector, T.int32(1)).dtype


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda v: T.extract_lane(1, 0), TypeError, "T.extract_lane: expects a PrimExpr, got 1"),
        (lambda v: T.extract_lane(as_expr(1), 0), ValueError, "T.extract_lane: expects a vector expression, got int32"),
        (lambda v: T.extract_lane(v, v), TypeError, "T.extract_lane: the lane must be a compile-time integer"),
        (lambda v: T.extract_lane(v, -1), IndexError, "T.extract_lane: lane -1 is out of bounds of bfloat16x2"),
        (lambda v: T.extract_lane(v, 2), ProgramLaneError, "T.extract_lane: lane 2 is out of bounds of bfloat16x2"),
        (lambda v: T.Ramp(0, 1, 0), ValueError, "T.Ramp: the number of lanes must be a positive constant, got 0"),
        (lambda v: T.Ramp(v, 1, 2), TypeError, "T.Ramp: expects scalars, got bfloat16x2"),
        (lambda v: T.Shuffle([1, 2], [2]), IndexError, "T.Shuffle: the index 2 names no lane"),
        (lambda v: T.Shuffle([], []), ValueError, "T.Shuffle: needs at least one vector and one index"),
        (lambda v: v + T.Ramp(0, 1, 4), ValueError, "vectors of bfloat16x2 and int32x4 differ in lanes"),
        (
            lambda v: T.vectorlow("bfloat16x2", v), ValueError,
            "T.vectorlow: bfloat16x2 has 2 lanes, but the result has 1",
        ),
    ],
)  # fmt: skip
def test_mistakes(make, kind, message):
    with pytest.raises(kind, match=re.escape(message)) as caught:
        make(Var("v", T.bfloat16x2))
    assert isinstance(caught.value, ProgramError)
