from typing import Any

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.ir.compare import digest
from tilelang.ir.func import PrimFunc
from tilelang.ir.printer import to_text

WAYS = {"reference": "cpu", "cc": "cpu", "simulator": {"kind": "cuda", "arch": "sm_90a"}}


def rows(assumed: bool = True) -> PrimFunc:
    N = T.dynamic("N")

    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32"), m: T.int32):
        if assumed:
            T.assume(N % 128 == 0)
        with T.Kernel(T.ceildiv(N, 128), threads=128) as bx:
            if assumed:
                T.assume(m + 1 > N)
            T.assume(bx < 5)  # nothing that a call could check
            if m > 3:
                T.assume(m > 5)  # nor does this hold of all calls
            for i in T.Parallel(128):
                B[bx * 128 + i] = A[bx * 128 + i]

    return main


def test_conditions_of_dims_and_scalars_belong_to_the_function() -> None:
    func = rows()
    assert ["N % 128 == 0", "m + 1 > N"] == [to_text(condition) for condition in func.assumptions]
    assert "    T.assume(N % 128 == 0)\n    T.assume(m + 1 > N)\n" in to_text(func)
    assert digest(func) != digest(rows(assumed=False))


@pytest.mark.parametrize("backend", WAYS)
def test_every_call_is_checked(backend: str) -> None:
    kernel: Any = tilelang.compile(rows(), target=WAYS[backend], execution_backend=backend)  # type: ignore[arg-type]
    for n, m, message in ((256, 256, ""), (200, 256, "Assume: N % 128 == 0"), (256, 255, r"Assume: m \+ 1 > N")) * 2:
        a, b = np.arange(n, dtype=np.float32), np.zeros(n, np.float32)
        if message:
            with pytest.raises(RuntimeError, match=message):
                kernel(a, b, m)
        else:
            kernel(a, b, m)
            assert np.array_equal(a, b)


def test_the_compiler_uses_what_is_assumed() -> None:
    guarded, free = (tilelang.compile(rows(assumed), target="cpu").get_kernel_source() for assumed in (False, True))
    assert "tl_min" in guarded or "if (" in guarded
    body = free[free.index("main_block") :]
    assert "tl_min" not in body.split('extern "C"')[0]


def test_what_is_known_is_decided_at_once() -> None:
    def assuming(n: int) -> PrimFunc:
        @T.prim_func
        def main(A: T.Tensor((n,), "float32")):
            T.assume(n % 4 == 0)
            with T.Kernel(1):
                A[0] = 1

        return main

    assert () == assuming(8).assumptions
    with pytest.raises(RuntimeError, match="Assume: "):
        assuming(6)
