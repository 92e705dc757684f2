"""`T.print` in HIP records what the reference interpreter prints."""

import importlib.util

import numpy as np
import pytest
from hip_kernels import needs_clang

import tilelang
import tilelang.language as T
from tilelang.sim.tile_interp import run_reference

needs_decoder = pytest.mark.skipif(importlib.util.find_spec("tinygrad") is None, reason="needs tinygrad's decoder")


@T.prim_func
def printing(A: T.Tensor((2, 3), "float32"), B: T.Tensor((4,), "int8"), C: T.Tensor((2,), "bool")):
    with T.Kernel(1, threads=1) as bx:
        s = T.alloc_shared((2, 2, 3), "float64")
        u = T.alloc_shared((3,), "uint64")
        T.fill(s, 1.5)
        T.fill(u, 2**63)
        T.print(A[0, 1])
        T.print(B[2], msg='quoted "text" \\ 100%:')
        T.print(bx + 7, msg="block")
        T.print(A)
        T.print(s, msg="wide")
        T.print(u)
        T.print(B[1] > 0, msg="truth=")
        T.print(C)
        T.print(B[2:6], msg="tail")


def arguments():
    return [
        np.array([[1, np.nan, -np.inf], [0.1, 1e-30, -0.0]], np.float32),
        np.array([-1, 5, 127, -128], np.int8),
        np.array([True, False]),
    ]


def executed(func, arch, arrays):
    from amd_execution import execute

    return execute(tilelang.compile(func, target={"kind": "hip", "arch": arch})._runner.code, arrays)


@needs_clang
@needs_decoder
@pytest.mark.slow(every=12)
@pytest.mark.parametrize("arch", ["gfx942", "gfx1100", "gfx1200"])
def test_scalars_and_tiles_of_every_kind(arch):
    lines = []
    run_reference(printing, arguments(), printer=lines.append)
    assert [f"{line}\n" for line in lines] == executed(printing, arch, arguments())


@needs_clang
@needs_decoder
def test_each_thread_of_each_block_prints():
    @T.prim_func
    def main(A: T.Tensor((2, 64), "int32")):
        with T.Kernel(2, threads=64) as bx:
            i = T.get_thread_binding()
            A[bx, i] = A[bx, i] + 1
            T.print(A[bx, i], msg="now")

    a = np.arange(128, dtype=np.int32).reshape(2, 64)
    assert {f"now: {n}\n" for n in range(1, 129)} == set(executed(main, "gfx942", [a]))


@needs_clang
def test_only_a_kernel_that_prints_takes_memory_for_it():
    @T.prim_func
    def main(A: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            A[T.get_thread_binding()] = 1

    silent, talking = (tilelang.compile(f, target={"kind": "hip", "arch": "gfx942"}) for f in (main, printing))
    assert "tl_print" not in silent.get_kernel_source()
    assert "const tl_printer tl_print" in talking.get_kernel_source()
