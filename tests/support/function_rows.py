"""The CUDA text of a call of a function of the language, for tables with a row per function."""

from collections.abc import Callable
from typing import Any

import tilelang
import tilelang.language as T

TARGET = {"kind": "cuda", "arch": "sm_90a"}


def cuda_of(call: Callable[[Any, Any, Any], Any], **kernel: Any) -> str:
    """The CUDA text of a kernel that makes one call, of a tensor of 128 int32, the thread and two barriers."""

    @T.prim_func
    def main(A: T.Tensor((128,), "int32")):
        with T.Kernel(2, threads=128, **kernel):
            tx = T.get_thread_binding()
            bar = T.alloc_barrier([1, 1])
            value = call(A, tx, bar)
            A[tx] = 0 if value is None else T.cast(value, "int32")

    return tilelang.compile(main, target=TARGET).get_kernel_source()
