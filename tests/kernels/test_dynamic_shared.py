"""Shared memory of dynamic size, on every executor."""

from typing import Any

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.errors import ProgramError
from tilelang.ir.func import PrimFunc

n = T.dynamic("n")


@T.prim_func
def mirrored(A: T.Tensor((n, 4), "float32"), B: T.Tensor((n, 4), "float32"), m: T.int32):
    with T.Kernel(2, threads=128) as b:
        s = T.alloc_shared((n, 4), "float32")
        c = T.alloc_shared((128,), "float32")
        t = T.alloc_shared(m + 1, "float16")
        T.copy(A, s)
        T.fill(c, b)
        for i in T.Parallel(m + 1):
            t[i] = i
        for i in T.Parallel(n):
            for j in T.serial(2):
                B[i, b * 2 + j] = s[n - 1 - i, b * 2 + j] + c[i % 128] + t[i % (m + 1)]


def compiled(func: PrimFunc, way: str) -> Any:
    if way in ("reference", "cpu"):
        return tilelang.compile(func, target="cpu", execution_backend={"cpu": "auto"}.get(way, way))
    return tilelang.compile(func, target={"kind": "cuda", "arch": way}, execution_backend="simulator")


@pytest.mark.parametrize("way", ["reference", "cpu", "sm_90a", "sm_80"])
def test_sizes_are_computed_at_each_launch(way: str) -> None:
    kernel = compiled(mirrored, way)
    for rows, m in ((5, 6), (128, 0)):
        a = np.random.default_rng(1).standard_normal((rows, 4)).astype(np.float32)
        b = np.zeros_like(a)
        kernel(a, b, m)
        expected = a[::-1] + (np.arange(rows) % (m + 1)).astype(np.float32)[:, None]
        expected[:, 2:] += 1
        np.testing.assert_allclose(expected, b, rtol=1e-6)


def test_more_than_a_block_has_is_refused_at_the_launch() -> None:
    a = np.zeros((16000, 4), np.float32)
    with pytest.raises(RuntimeError, match="mirrored: shared memory: 256640 bytes requested, 232448 available on sm_90a"):
        compiled(mirrored, "sm_90a")(a, a.copy(), 6)


@pytest.mark.parametrize("arch", ["sm_90a", "sm_80"])
def test_the_host_computes_the_size(arch: str) -> None:
    kernel = tilelang.compile(mirrored, target={"kind": "cuda", "arch": arch})
    (launch,) = kernel._runner.program.source.launches
    factor = 128 if "n_div128" in launch.shared_text else 1
    names = {"m": 6, "n": 256 // factor, "n_div128": 256 // factor}
    assert 512 + 256 * 16 + 128 == eval(launch.shared_text, {}, names)
    assert 512 == launch.shared_bytes


def test_a_kernel_may_have_no_other_shared_memory() -> None:
    @T.prim_func
    def main(A: T.Tensor((n,), "int32"), B: T.Tensor((n,), "int32")):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((n,), "int32")
            T.copy(A, s)
            T.copy(s, B)

    source = tilelang.compile(main, target={"kind": "cuda", "arch": "sm_90a"}).get_kernel_source()  # which compiles it
    assert "int32_t* const s = (int32_t*)tl_shared;" in source


def test_sizes_do_not_depend_on_the_block() -> None:
    with pytest.raises(ProgramError, match="extent bx \\* 4 of dimension 0 is only known when the kernel runs"):

        @T.prim_func
        def main(A: T.Tensor((4,), "float32")):
            with T.Kernel(4) as bx:
                T.clear(T.alloc_shared((bx * 4,), "float32"))
