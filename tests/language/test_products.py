from collections.abc import Callable

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.dtypes import INT32
from tilelang.errors import ProgramError
from tilelang.ir.expr import Binary, Const, Var
from tilelang.ir.visit import walk
from tilelang.language.proxy import BufferProxy
from tilelang.language.stage import Stager
from tilelang.ops.gemm import Gemm

Tensor = Callable[..., BufferProxy]
k = Var("k", INT32, index=True)


def test_gemm_in_its_forms(stager: Stager) -> None:
    a, b = T.alloc_shared((2, 8, 16), "float16"), T.alloc_shared((4, 16), "float16")
    c = T.alloc_fragment((8, 4), "float32")
    T.gemm(a[k % 2], b, c, transpose_B=True)  # type: ignore[arg-type,index]
    T.gemm(a[0], b, c, transpose_b=True, policy=T.GemmWarpPolicy.FullRow, clear_accum=True, k_pack=2, wg_wait=-1)  # type: ignore[arg-type]
    T.gemm(a[0], b, c, False, True, clear_accum=k == 0)  # type: ignore[arg-type]
    for wrong in (-2, 8):
        with pytest.raises(ProgramError, match=f"wg_wait is {wrong}"):
            T.gemm(a[0], b, c, transpose_B=True, wg_wait=wrong)  # type: ignore[arg-type]
    with pytest.raises(ProgramError, match="wg_wait must be an int known while the kernel is staged"):
        T.gemm(a[0], b, c, transpose_B=True, wg_wait=k)  # type: ignore[arg-type]
    for unknown in (0, 3):
        with pytest.raises(ProgramError, match=f"k_pack is {unknown}"):
            T.gemm(a[0], b, c, transpose_B=True, k_pack=unknown)  # type: ignore[arg-type]
    first, second, third = stager.statements[3:]
    assert isinstance(first, Gemm)
    assert isinstance(second, Gemm)
    assert isinstance(third, Gemm)
    assert (False, True, None) == (first.transpose_a, first.transpose_b, first.clear_accum)
    assert isinstance(second.clear_accum, Const)
    assert T.GemmWarpPolicy.FullRow is second.policy
    assert (0, -1, 0) == (first.wait, second.wait, third.wait)
    assert isinstance(third.clear_accum, Binary)


def test_gemm_of_sizes_that_do_not_fit(stager: Stager) -> None:
    with pytest.raises(AssertionError, match="T.gemm: .* K is 16 on one side and 8 on the other"):
        T.gemm(T.alloc_shared((8, 16)), T.alloc_shared((8, 4)), T.alloc_fragment((8, 4)))
    with pytest.raises(AssertionError, match="M is 8 on one side and 4 on the other"):
        T.gemm(A=T.alloc_shared((8, 16)), B=T.alloc_shared((16, 4)), C=T.alloc_fragment((4, 4)))
    with pytest.raises(AssertionError, match="N is 4 on one side and 8 on the other"):
        T.gemm(A=T.alloc_shared((8, 16)), B=T.alloc_shared((16, 4)), C=T.alloc_fragment((8, 8)))


def test_gemm_takes_a_barrier_that_it_does_not_touch() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            a, b, c = T.alloc_shared((8, 16)), T.alloc_shared((16, 4)), T.alloc_fragment((8, 4))
            T.gemm(a, b, c, False, False, T.GemmWarpPolicy.Square, False, T.alloc_barrier(1), {"order": 1})
            with pytest.raises(ProgramError, match="T.gemm: "):
                T.gemm(a, b, c, mbar=a)

    assert 1 == sum(isinstance(stmt, Gemm) for stmt in walk(kernel.body))


def test_gemm_options_are_checked(tensor: Tensor, stager: Stager) -> None:
    a, b, c = T.alloc_shared((8, 8)), T.alloc_shared((8, 8)), T.alloc_fragment((8, 8))
    with pytest.raises(ProgramError, match="policy is 'square'"):
        T.gemm(a, b, c, policy="square")  # type: ignore[arg-type]
    with pytest.raises(ProgramError, match="transpose_A must be known while the kernel is staged"):
        T.gemm(a, b, c, transpose_A=k == 0)  # type: ignore[arg-type]
    with pytest.raises(ProgramError, match="T.gemm: 'shared' is given as one element"):
        T.gemm(a[0, 0], b, c)  # type: ignore[arg-type]


@pytest.mark.parametrize(("scope", "dtype"), [("fragment", "float16"), ("shared", "float32")])
def test_operands_are_read_before_the_accumulator_changes(scope: str, dtype: str) -> None:
    alloc = T.alloc_fragment if scope == "fragment" else T.alloc_shared

    @T.prim_func
    def kernel(A: T.Tensor((64, 64), dtype), B: T.Tensor((64, 64), dtype)):
        with T.Kernel(1, threads=128):
            a, b = alloc((64, 64), dtype), T.alloc_shared((64, 64), dtype)
            T.copy(A, a)
            T.copy(A, b)
            T.gemm(a, b, a)
            T.copy(a, B)

    a = np.random.default_rng(0).integers(-1, 2, (64, 64)).astype(dtype)
    for target in ("cpu", {"kind": "cuda", "arch": "sm_90a"}, {"kind": "cuda", "arch": "sm_80"}):
        backend = "cc" if target == "cpu" else "simulator"
        result = tilelang.compile(kernel, out_idx=[1], target=target, execution_backend=backend)(a)
        np.testing.assert_array_equal(a + a @ a, result)


def test_parts_of_a_tile_that_lie_apart_are_not_copied(stager: Stager) -> None:
    a, b = T.alloc_shared((2, 16, 16), "float32"), T.alloc_shared((16, 16), "float32")
    T.gemm(a[0], b, a[1])  # type: ignore[arg-type]
    T.gemm(a[k], b, a[k + 1])  # type: ignore[arg-type,index]
    assert ["Alloc", "Alloc", "Gemm", "Gemm"] == [type(stmt).__name__ for stmt in stager.statements]
    T.gemm(a[k % 2], b, a[1])  # type: ignore[arg-type,index]
    assert ["Alloc", "Copy", "Gemm"] == [type(stmt).__name__ for stmt in stager.statements[4:]]
