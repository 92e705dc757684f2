"""Products written instruction by instruction, for every way that tiles can lie."""

from typing import Any

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.errors import NoLowering, ProgramError
from tilelang.ir.func import PrimFunc
from tilelang.targets.nvidia.language.mma_emitter import TensorCoreIntrinEmitter

HOPPER = {"kind": "cuda", "arch": "sm_90a"}


def product(dtype: str, sums: str, turned: tuple[bool, bool], columns: int = 16, **options: Any) -> PrimFunc:
    emitter = TensorCoreIntrinEmitter(
        dtype, dtype, sums, *turned, 2, 1, warp_row_tiles=16, warp_col_tiles=columns, chunk=64, **options
    )
    m, n, k = 32, columns, 64
    a_shape, b_shape = (k, m) if turned[0] else (m, k), (n, k) if turned[1] else (k, n)
    pieces = (m // emitter.micro_size_x, n // emitter.micro_size_y, emitter.micro_size_x, emitter.micro_size_y)

    @T.prim_func
    def main(A: T.Tensor(a_shape, dtype), B: T.Tensor(b_shape, dtype), C: T.Tensor((m, n), sums)) -> None:
        with T.Kernel(1, threads=emitter.threads):
            A_s, B_s = T.alloc_shared(a_shape, dtype), T.alloc_shared(b_shape, dtype)
            C_s = T.alloc_shared(pieces, sums)
            A_local = T.alloc_local((emitter.warp_rows * emitter.local_size_a,), dtype)
            B_local = T.alloc_local((emitter.warp_cols * emitter.local_size_b,), dtype)
            C_local = T.alloc_local((emitter.warp_rows * emitter.warp_cols * emitter.local_size_out,), sums)
            T.annotate_layout({A_s: T.make_swizzled_layout(A_s)})
            T.clear(C_local)
            T.copy(A, A_s)
            T.copy(B, B_s)
            for ki in T.serial(k // emitter.micro_size_k):
                emitter.ldmatrix_a(A_local, A_s, ki)
                emitter.ldmatrix_b(B_local, B_s, ki)
                emitter.mma(A_local, B_local, C_local)
            emitter.stmatrix(C_local, C_s)
            for i, j in T.Parallel(m, n):
                C[i, j] = C_s[i // 16, j // emitter.micro_size_y, i % 16, j % emitter.micro_size_y]

    return main


CASES = {
    "halves": ("float16", "float32", (False, True)),
    "halves turned": ("float16", "float32", (True, False)),
    "halves in narrow pieces": ("float16", "float16", (False, False), 8),
    "bytes": ("int8", "int32", (False, True)),
    "bytes turned": ("int8", "int32", (True, False)),
    "words": ("float32", "float32", (False, True), 8),
}


@pytest.mark.parametrize("name", CASES)
def test_products_by_hand(name: str) -> None:
    dtype, sums, turned, *rest = CASES[name]
    kernel = tilelang.compile(
        product(dtype, sums, turned, *rest), execution_backend="simulator", target=HOPPER  # type: ignore[arg-type]
    )
    random = np.random.default_rng(0)
    n = rest[0] if rest else 16
    a, b = random.integers(-3, 4, (32, 64)).astype(dtype), random.integers(-3, 4, (64, n)).astype(dtype)
    c = np.zeros((32, n), sums)
    kernel(np.ascontiguousarray(a.T) if turned[0] else a, np.ascontiguousarray(b.T) if turned[1] else b, c)
    assert np.array_equal(a.astype("int32") @ b.astype("int32"), c)


def test_the_instructions_are_those_of_the_warp() -> None:
    text = tilelang.compile(product("float16", "float32", (False, True)), target=HOPPER).get_kernel_source()
    assert "ldmatrix.sync.aligned.m8n8.x4.shared" in text
    assert "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32" in text


def test_sizes_of_pieces() -> None:
    emitter = TensorCoreIntrinEmitter(
        "float16", "float16", "float32", b_transposed=True, warp_row_tiles=64, warp_col_tiles=32, chunk=32
    )
    assert (16, 16, 16) == (emitter.micro_size_x, emitter.micro_size_y, emitter.micro_size_k)
    assert (4, 2, 8, 8, 8) == (
        *(emitter.warp_rows, emitter.warp_cols),
        *(emitter.local_size_a, emitter.local_size_b, emitter.local_size_out),
    )
    assert (4, 2) == (emitter.mma_num_inst_m, emitter.mma_num_inst_n)
    assert (5, 1, 0) == emitter.extract_thread_binding(69)
    assert (5, 0, 1) == emitter.extract_thread_binding(69, is_m_first=True)


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({}, AssertionError, "TensorCoreIntrinEmitter: a warp of 8 x 8 is not made of pieces of 16 x 8"),
        (
            {"warp_row_tiles": 16, "chunk": 24},
            AssertionError,
            "TensorCoreIntrinEmitter: chunk is 24, no multiple of the 16 of an instruction",
        ),
        (
            {"a_dtype": "float64", "warp_row_tiles": 16},
            NoLowering,
            "TensorCoreIntrinEmitter: no instruction multiplies float64 by float16 into float16",
        ),
        ({"reduce_k": 2}, NoLowering, "TensorCoreIntrinEmitter: only with reduce_k=1 and num_elems_per_byte=1"),
    ],
)
def test_what_no_emitter_writes(arguments: dict[str, Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind) as caught:
        TensorCoreIntrinEmitter(**arguments)
    assert message == caught.value.message  # type: ignore[attr-defined]


def test_operands_are_buffers_of_each_thread() -> None:
    emitter = TensorCoreIntrinEmitter(warp_row_tiles=16)
    with pytest.raises(ProgramError, match="mma: 'f' is no flat buffer of each thread"):

        @T.prim_func
        def main(A: T.Tensor((4,), "float16")) -> None:
            with T.Kernel(1, threads=128):
                f = T.alloc_fragment((16,), "float16")
                emitter.mma(f, f, f)


@pytest.mark.parametrize("name", ["WithLadderTransform", "SM120"])
def test_kin_that_is_not_offered(name: str) -> None:
    with pytest.raises(NoLowering) as caught:
        getattr(T, f"TensorCoreIntrinEmitter{name}")("float16", chunk=3)
    assert "write T.gemm" == caught.value.hint
