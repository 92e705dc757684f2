"""Minima and maxima of a kernel that drops NaN."""

import tilelang.language as T
from tilelang.ir.printer import to_text
from tilelang.options import CompileOptions
from tilelang.passes.base import PassContext
from tilelang.passes.tile.use_minnum_maxnum import use_minnum_maxnum

DROPS = PassContext(CompileOptions(pass_configs=(("tl.nan_propagate", False),)))


@T.prim_func
def kernel(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "int32")):
    with T.Kernel(1) as _:
        m = T.alloc_fragment((1,), "float32")
        T.reduce_max(A, m)
        T.cummax(A)
        for i in T.Parallel(8):
            A[i] = T.min(A[i], m[0])
            B[i] = T.max(B[i], 3)


def test_only_floats_are_concerned() -> None:
    text = to_text(use_minnum_maxnum(kernel, DROPS))
    assert "nan_propagate=False" in text
    assert "T.fmax(a, b)" in text
    assert "A[i] = T.fmin(A[i], m[0])" in text
    assert "B[i] = T.max(B[i], 3)" in text


def test_nothing_changes_without_the_option() -> None:
    assert use_minnum_maxnum(kernel, PassContext()) is kernel
