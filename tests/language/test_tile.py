from collections.abc import Callable

import pytest

import tilelang.language as T
from tilelang.dtypes import INT32
from tilelang.errors import ProgramError, StagingError
from tilelang.ir.expr import Binary, Const, Var
from tilelang.language.proxy import BufferProxy
from tilelang.language.stage import Stager
from tilelang.ops.copy import Copy, Transpose
from tilelang.ops.fill import Fill
from tilelang.ops.gemm import Gemm
from tilelang.ops.im2col import Im2Col

Tensor = Callable[..., BufferProxy]
Box = Callable[..., list[str]]
k = Var("k", INT32, index=True)


def test_copy_of_a_position_into_a_tile(tensor: Tensor, stager: Stager, box: Box) -> None:
    a, s = tensor("A", (100, 64), "float16"), T.alloc_shared((32, 16), "float32")
    T.copy(a[k * 32, 16], s)
    copy = stager.statements[-1]
    assert isinstance(copy, Copy)
    assert ["k * 32+32", "16+16"] == box(copy.src)


def test_copy_accepts_what_steers_gpus(tensor: Tensor, stager: Stager) -> None:
    a, s = tensor("A", (32,)), T.alloc_shared((32,))
    T.copy(a, dst=s, coalesced_width=8, disable_tma=True, eviction_policy="evict_first", loop_layout=None)
    T.async_copy(a, s)
    assert [Copy, Copy] == [type(x) for x in stager.statements[1:]]


def test_copy_of_different_extents_is_an_error(stager: Stager) -> None:
    with pytest.raises(ProgramError, match=r"T.copy: 'shared' is \(64, 32\) but 'fragment' is \(32, 32\)"):
        T.copy(T.alloc_shared((64, 32)), T.alloc_fragment((32, 32)))


def test_an_unknown_option_is_an_error(tensor: Tensor, stager: Stager) -> None:
    with pytest.raises(StagingError, match="T.copy: got an unexpected keyword argument 'disable_tam'"):
        T.copy(tensor("A", (4,)), tensor("B", (4,)), disable_tam=True)


def test_transpose(stager: Stager) -> None:
    T.transpose(T.alloc_shared((4, 8)), T.alloc_shared((8, 4)))
    assert isinstance(stager.statements[-1], Transpose)
    with pytest.raises(ProgramError, match="T.transpose"):
        T.transpose(T.alloc_shared((4, 8)), T.alloc_shared((4, 8)))


def test_im2col(tensor: Tensor, stager: Stager) -> None:
    T.c2d_im2col(tensor("I", (1, 8, 8, 4)), T.alloc_shared((16, 4)), k, 0, 3, 1, 1, 1)
    op = stager.statements[-1]
    assert isinstance(op, Im2Col)
    assert (3, 1, 1, 1) == (op.kernel, op.stride, op.dilation, op.pad)
    with pytest.raises(ProgramError, match="kernel must be an int"):
        T.im2col(tensor("I", (1, 8, 8, 4)), T.alloc_shared((16, 4)), k, 0, k, 1, 1, 1)


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
    with pytest.raises(ProgramError, match="T.gemm: .* K is 16 on one side and 8 on the other"):
        T.gemm(T.alloc_shared((8, 16)), T.alloc_shared((8, 4)), T.alloc_fragment((8, 4)))


def test_gemm_options_are_checked(tensor: Tensor, stager: Stager) -> None:
    a, b, c = T.alloc_shared((8, 8)), T.alloc_shared((8, 8)), T.alloc_fragment((8, 8))
    with pytest.raises(ProgramError, match="policy is 'square'"):
        T.gemm(a, b, c, policy="square")  # type: ignore[arg-type]
    with pytest.raises(ProgramError, match="transpose_A must be known while the kernel is staged"):
        T.gemm(a, b, c, transpose_A=k == 0)  # type: ignore[arg-type]
    with pytest.raises(ProgramError, match="T.gemm: 'shared' is given as one element"):
        T.gemm(a[0, 0], b, c)  # type: ignore[arg-type]


def test_fill_converts_the_value(stager: Stager, box: Box) -> None:
    s = T.alloc_fragment((4, 8), "float16")
    T.fill(s[1:3], 0.1)  # type: ignore[arg-type]
    T.clear(s)
    T.fill(s[0, 0], k)  # type: ignore[arg-type]
    first, second, third = stager.statements[1:]
    assert isinstance(first, Fill)
    assert isinstance(second, Fill)
    assert isinstance(third, Fill)
    assert ("float16", ["1+2", "0+8"]) == (first.value.dtype, box(first.dst))
    assert (0.0, "float16") == (second.value.value, third.value.dtype)  # type: ignore[attr-defined]
    assert ["0+1", "0+1"] == box(third.dst)


def test_a_mutable_scalar_can_be_cleared(stager: Stager) -> None:
    T.clear(T.alloc_var("float32"))
    assert isinstance(stager.statements[-1], Fill)


def test_options_of_copies_and_loops_are_checked():
    def staged(body):
        @T.prim_func
        def f(A: T.Tensor((16,), T.float32), B: T.Tensor((16,), T.float32)):
            with T.Kernel(1) as _:
                body(A, B)

        return f

    for body, message in (
        (lambda a, b: T.copy(a, b, coalesced_width=3), "T.copy: coalesced_width is 3"),
        (lambda a, b: T.copy(a, b, eviction_policy="soon"), "T.copy: eviction_policy is 'soon'"),
        (lambda a, b: T.copy(a, b, loop_layout=1), "T.copy: loop_layout is 1, not a Fragment"),
        (lambda a, b: T.Parallel(4, 4, loop_layout=T.Fragment(4, lambda i: (i, 0))), "T.Parallel: loop_layout has 1 dimensions"),
    ):
        with pytest.raises(ProgramError) as caught:
            staged(body)
        assert caught.value.message.startswith(message)
