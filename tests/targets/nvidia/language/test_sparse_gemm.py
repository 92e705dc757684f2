import numpy as np
import pytest
from fake_cuda import needs_nvrtc
from gpu import simulate_func
from harness import run_everywhere
from hypothesis import given, settings
from hypothesis import strategies as st

import tilelang
import tilelang.language as T
from tilelang.dtypes import as_dtype
from tilelang.errors import NoLowering, ProgramError

HOPPER = {"kind": "cuda", "arch": "sm_90a"}


def halved(rng, M, K, dtype, codes):
    """A matrix of which half the elements are zero, those that are kept, and their codes."""
    wide = as_dtype(dtype).bits == 32
    size = 2 if wide else 4
    kept = np.sort(np.array([rng.permutation(size)[: size // 2] for _ in range(M * K // size)]), axis=1)
    dense = np.zeros((M * K // size, size), as_dtype(dtype).numpy)
    values = rng.integers(1, 5, kept.shape).astype(dense.dtype)
    np.put_along_axis(dense, kept, values, axis=1)
    numbers = np.where(kept[:, 0] == 0, 0b0100, 0b1110) if wide else kept[:, 0] | kept[:, 1] << 2
    halves = numbers.reshape(-1, 2)
    packed = (halves[:, 0] | halves[:, 1] << 4).astype(np.uint8)
    return dense.reshape(M, K), values.reshape(M, K // 2), packed.view(codes).reshape(M, -1)


def sparse(M, N, K, dtype, codes, accumulator, turned=(False, False, False), function=T.gemm_sp, scope="shared"):
    factor = np.dtype(codes).itemsize * 8 // (2 if as_dtype(dtype).bits == 32 else 1)
    shapes = [(M, K // 2), (M, K // factor), (K, N)]
    a_shape, e_shape, b_shape = (shape[::-1] if flag else shape for shape, flag in zip(shapes, turned, strict=True))
    alloc = T.alloc_fragment if scope == "fragment" else T.alloc_shared

    @T.prim_func
    def main(
        A: T.Tensor(a_shape, dtype),
        E: T.Tensor(e_shape, codes),
        B: T.Tensor(b_shape, dtype),
        C: T.Tensor((M, N), accumulator),
    ):
        with T.Kernel(1, threads=128):
            a, e, b = alloc(a_shape, dtype), alloc(e_shape, codes), T.alloc_shared(b_shape, dtype)
            c = T.alloc_fragment((M, N), accumulator)
            T.copy(A, a)
            T.copy(E, e)
            T.copy(B, b)
            T.fill(c, 1)
            function(a, e, b, c, transpose_A=turned[0], transpose_E=turned[1], transpose_B=turned[2])
            T.copy(c, C)

    return main


def operands(rng, M, N, K, dtype, codes, turned=(False, False, False)):
    dense, values, packed = halved(rng, M, K, dtype, codes)
    b = rng.integers(0, 4, (K, N)).astype(dense.dtype)
    expected = dense.astype(np.float64) @ b.astype(np.float64) + 1
    parts = [np.ascontiguousarray(x.T) if flag else x for x, flag in zip((values, packed, b), turned, strict=True)]
    return parts, expected


@pytest.mark.slow(every=8)
@pytest.mark.parametrize(
    ("dtype", "codes", "accumulator"),
    [
        ("float16", "int16", "float32"),
        ("bfloat16", "int8", "float32"),
        ("float32", "int32", "float32"),
        ("int8", "uint8", "int32"),
        ("uint8", "int16", "int32"),
        ("float8_e4m3fn", "int32", "float32"),
    ],
)
def test_a_tile_with_elements_left_out_is_multiplied(dtype, codes, accumulator):
    parts, expected = operands(np.random.default_rng(1), 16, 8, 64, dtype, codes)
    func = sparse(16, 8, 64, dtype, codes, accumulator)
    result = run_everywhere(func, *parts, np.zeros((16, 8), accumulator))
    np.testing.assert_array_equal(expected, result[3])


@settings(max_examples=2)
@given(st.tuples(*[st.booleans()] * 3), st.sampled_from(["shared", "fragment"]), st.integers(0, 99))
def test_operands_may_be_transposed_and_lie_in_fragments(turned, scope, seed):
    parts, expected = operands(np.random.default_rng(seed), 32, 16, 32, "float16", "int16", turned)
    func = sparse(32, 16, 32, "float16", "int16", "float32", turned, scope=scope)
    np.testing.assert_array_equal(expected, simulate_func(func, [*parts, np.zeros((32, 16), np.float32)])[3])


def test_warpgroups_do_it():
    parts, expected = operands(np.random.default_rng(2), 64, 32, 64, "float16", "int16")
    func = sparse(64, 32, 64, "float16", "int16", "float32", function=T.wgmma_gemm_sp)
    result = simulate_func(func, [*parts, np.zeros((64, 32), np.float32)], "sm_90a")
    np.testing.assert_array_equal(expected, result[3])
    with pytest.raises(NoLowering, match="T.wgmma_gemm_sp: sm_80 cannot do that"):
        simulate_func(func, [*parts, np.zeros((64, 32), np.float32)], "sm_80")


def test_stages_of_a_pipeline_are_written_out_in_turn():
    @T.prim_func
    def main(
        A: T.Tensor((64, 96), "float16"),
        E: T.Tensor((64, 12), "int16"),
        B: T.Tensor((192, 16), "float16"),
        C: T.Tensor((64, 16), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a, e = T.alloc_shared((64, 32), "float16"), T.alloc_shared((64, 4), "int16")
            b, c = T.alloc_shared((64, 16), "float16"), T.alloc_fragment((64, 16), "float32")
            T.fill(c, 1)
            for k in T.Pipelined(3, num_stages=2):
                T.copy(A[0, k * 32], a)
                T.copy(E[0, k * 4], e)
                T.copy(B[k * 64, 0], b)
                T.gemm_sp(a, e, b, c)
            T.copy(c, C)

    parts, expected = operands(np.random.default_rng(3), 64, 16, 192, "float16", "int16")
    for arch in ("sm_80", "sm_90a"):
        result = simulate_func(main, [*parts, np.zeros((64, 16), np.float32)], arch)
        np.testing.assert_array_equal(expected, result[3])


@needs_nvrtc
def test_the_text_for_a_gpu_compiles():
    func = sparse(64, 32, 64, "bfloat16", "int16", "float32")
    assert 0 == tilelang.compile(func, target=HOPPER).resources.spill_bytes


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda a, e, b, c: T.gemm_sp(a, e[:, 0:1], b, c), AssertionError,
         "T.gemm_sp: A keeps (16, 32) of float16, but E is (16, 1) of int16"),
        (lambda a, e, b, c: T.gemm_sp(a, e, b[0:32, :], c), AssertionError,
         "T.gemm: A is (16, 64) and B is (32, 8), so K is 64 on one side and 32 on the other"),
        (lambda a, e, b, c: T.gemm_sp(a, c, b, c), ValueError, "T.gemm_sp: 'c' holds codes in float32"),
        (lambda a, e, b, c: T.gemm_sp(a, T.alloc_local((16, 4), "int16"), b, c), ProgramError,
         "T.gemm_sp: E 'local' is (16, 4) in scope 'local', but a matrix of constant extents in shared memory or a "
         "fragment is needed"),
        (lambda a, e, b, c: T.gemm_sp(a, e, b, c, wg_wait=9), ValueError, "T.gemm_sp: wg_wait is 9"),
    ],
)  # fmt: skip
def test_operands_that_do_not_fit_are_refused(call, kind, message):
    with pytest.raises(kind) as caught:

        @T.prim_func
        def main(A: T.Tensor((16,), "float16")):
            with T.Kernel(1, threads=32):
                a, e = T.alloc_shared((16, 32), "float16"), T.alloc_shared((16, 4), "int16")
                b, c = T.alloc_shared((64, 8), "float16"), T.alloc_fragment((16, 8), "float32")
                call(a, e, b, c)

    assert message == caught.value.message
