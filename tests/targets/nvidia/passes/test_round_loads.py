"""The copy engine rounds what only gemms read, and nothing else."""

import numpy as np
import pytest

import tilelang
import tilelang.language as T

HOPPER = {"kind": "cuda", "arch": "sm_90a"}


def gemm(extra: bool = False, dtype: str = "tfloat32"):
    """C = A @ B^T; with `extra` the first column of each tile of B is stored to D as it is."""

    @T.prim_func
    def main(
        A: T.Tensor((64, 128), dtype),
        B: T.Tensor((64, 128), dtype),
        C: T.Tensor((64, 64), "float32"),
        D: T.Tensor((4, 64), dtype),
    ):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((64, 32), dtype), T.alloc_shared((64, 32), dtype)
            c = T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[0, k * 32], a)
                T.copy(B[0, k * 32], b)
                T.gemm(a, b, c, transpose_B=True)
                if extra:
                    for i in T.Parallel(64):
                        D[k, i] = b[i, 0]
            T.copy(c, C)

    return main


def compiled(func, backend: str = "simulator"):
    return tilelang.compile(func, target=HOPPER, execution_backend=backend)


def arguments():
    rng = np.random.default_rng(0)
    given = [rng.standard_normal((64, 128)).astype(np.float32) for _ in range(2)]
    return [*given, np.zeros((64, 64), np.float32), np.zeros((4, 64), np.float32)]


def rounded(kernel) -> set[str]:
    """The tensors of which elements are rounded on their way."""
    return {line.split("'")[1] for line in kernel.show_ir("lower_to_threads").splitlines() if ", rounded" in line}


@pytest.mark.parametrize(
    ("func", "tensors"), [(gemm(), {"A", "B"}), (gemm(extra=True), {"A"}), (gemm(dtype="float16"), set())]
)
def test_tiles_that_only_gemms_read_are_rounded(func, tensors):
    assert tensors == rounded(compiled(func))


def test_products_are_those_of_rounded_elements():
    kernel = compiled(gemm())
    assert "wgmma" in kernel.explain()
    expected, found = arguments(), arguments()
    compiled(gemm(), "reference")(*expected)
    kernel(*found)
    np.testing.assert_allclose(expected[2], found[2], rtol=0, atol=1e-5)


def test_what_threads_read_keeps_its_bits():
    found = arguments()
    compiled(gemm(extra=True))(*found)
    np.testing.assert_array_equal(found[1][:, ::32].T, found[3])
