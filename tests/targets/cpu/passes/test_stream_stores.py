"""Streaming stores for results larger than the caches that are not read."""

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.ir.stmt import CallStmt
from tilelang.ir.visit import walk
from tilelang.passes.runner import run_passes
from tilelang.targets.cpu.backend import BACKEND
from tilelang.targets.cpu.passes import stream_stores

LARGE = stream_stores.LARGE_BYTES // 4


def scale(size, block=1024, in_place=False):
    @T.prim_func
    def main(A: T.Tensor((size,), "float32"), B: T.Tensor((size,), "float32")):
        with T.Kernel(T.ceildiv(size, block)) as bx:
            for i in T.Parallel(block):
                B[bx * block + i] = (B if in_place else A)[bx * block + i] * 2.0

    return main


def streams(func):
    return any(isinstance(s, CallStmt) for s in walk(run_passes(func, BACKEND.passes).body))


def test_only_large_results_that_are_not_read_are_streamed():
    assert streams(scale(LARGE))
    assert not streams(scale(LARGE // 2))
    assert not streams(scale(LARGE, in_place=True))


def test_rows_that_are_not_whole_lines_are_not_streamed():
    @T.prim_func
    def main(A: T.Tensor((LARGE // 8, 24), "float32")):
        with T.Kernel(LARGE // 8) as bx:
            for i in T.Parallel(16):
                A[bx, i] = 1.0

    assert not streams(main)


@pytest.mark.parametrize("offset", [0, 4, 1])
def test_results_do_not_depend_on_alignment(monkeypatch, offset):
    monkeypatch.setattr(stream_stores, "LARGE_BYTES", 1024)
    func = scale(4096 + 16, block=512)
    a = np.random.rand(4112).astype(np.float32)
    memory = np.zeros(4112 + 64, np.float32)
    first = -memory.ctypes.data // 4 % 16 + offset  # `offset` elements after the start of a cache line
    b = memory[first : first + 4112]
    kernel = tilelang.compile(func, target="cpu", compile_flags="-O1")
    kernel(a, b)
    np.testing.assert_array_equal(a * 2, b)
    assert not memory[:first].any()
    assert not memory[first + 4112 :].any()
