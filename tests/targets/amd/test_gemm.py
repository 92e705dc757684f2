"""Tiled gemms on AMD's GPUs, from the program to what its threads do."""

import re

import numpy as np
import pytest
from hip_kernels import needs_clang

import tilelang.language as T
from tilelang.jit.program import lowered
from tilelang.options import CompileOptions
from tilelang.targets.amd.runtime.device_code import build
from tilelang.targets.target import Target


def tiled(m, n, k, tile, dtype, accum, *, threads=128, num_stages=2, trans_a=False, trans_b=False, out=None):
    """C = A @ B by tiles of (rows, columns, depth)."""
    rows, columns, depth = tile
    out = out or accum

    @T.prim_func
    def main(
        A: T.Tensor((k, m) if trans_a else (m, k), dtype),
        B: T.Tensor((n, k) if trans_b else (k, n), dtype),
        C: T.Tensor((m, n), out),
    ):
        with T.Kernel(T.ceildiv(n, columns), T.ceildiv(m, rows), threads=threads) as (bx, by):
            a = T.alloc_shared((depth, rows) if trans_a else (rows, depth), dtype)
            b = T.alloc_shared((columns, depth) if trans_b else (depth, columns), dtype)
            c = T.alloc_fragment((rows, columns), accum)
            T.clear(c)
            for i in T.Pipelined(T.ceildiv(k, depth), num_stages=num_stages):
                if trans_a:
                    T.copy(A[i * depth, by * rows], a)
                else:
                    T.copy(A[by * rows, i * depth], a)
                if trans_b:
                    T.copy(B[bx * columns, i * depth], b)
                else:
                    T.copy(B[i * depth, bx * columns], b)
                T.gemm(a, b, c, transpose_A=trans_a, transpose_B=trans_b)
            T.copy(c, C[by * rows, bx * columns])

    rng = np.random.default_rng(0)
    low = 0 if dtype.startswith("uint") else -3
    a, b = (
        rng.integers(low, 4, shape).astype(T.dtype(dtype).numpy)
        for shape in ((k, m) if trans_a else (m, k), (n, k) if trans_b else (k, n))
    )
    return main, a, b, np.zeros((m, n), T.dtype(out).numpy)


DTYPES = [
    ("gfx90a", "float16", "float32"), ("gfx90a", "int8", "int32"), ("gfx90a", "float64", "float64"),
    ("gfx942", "bfloat16", "float32"), ("gfx942", "float8_e4m3fnuz", "float32"), ("gfx942", "float32", "float32"),
    ("gfx942", "uint8", "int32"),  # without an instruction
    ("gfx950", "float16", "float32"), ("gfx950", "float8_e5m2", "float32"), ("gfx950", "int8", "int32"),
    ("gfx1100", "float16", "float32"), ("gfx1100", "uint8", "int32"), ("gfx1100", "float32", "float32"),
    ("gfx1151", "bfloat16", "float32"), ("gfx1200", "float8_e4m3fn", "float32"), ("gfx1201", "float16", "float32"),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("arch", "dtype", "accum"), DTYPES)
def test_every_dtype(check_program, arch, dtype, accum):
    for trans_a, trans_b in ((False, False), (True, True)):
        main = tiled(64, 96, 128, (64, 32, 64), dtype, accum, trans_a=trans_a, trans_b=trans_b)
        check_program(*main, arch=arch)


@pytest.mark.slow(every=16)
@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"])
@pytest.mark.parametrize(("size", "tile"), [((70, 50, 45), (64, 64, 32)), ((5, 9, 3), (16, 16, 16))])
def test_tiles_that_whole_instructions_do_not_cover(check_program, arch, size, tile):
    check_program(*tiled(*size, tile, "float16", "float32"), arch=arch)


@pytest.mark.slow(every=8)
@pytest.mark.parametrize(
    ("arch", "trans_b"), [("gfx942", False), ("gfx950", True), ("gfx950", False), ("gfx1100", True), ("gfx1201", False)]
)
def test_main_loops_have_no_bank_conflicts(check_program, arch, trans_b):
    main = tiled(128, 128, 128, (128, 128, 64), "float16", "float32", threads=256, trans_b=trans_b, out="float16")
    _, counters = check_program(*main, arch=arch)
    for traffic in ("shared load", "shared store"):
        assert counters.traffic[traffic].transactions == counters.traffic[traffic].ideal


@pytest.mark.slow(every=24)
@needs_clang
@pytest.mark.parametrize(("arch", "tile", "threads", "count"), [
    ("gfx90a", (128, 128, 64), 256, 32),
    ("gfx942", (256, 256, 64), 512, 64),
    ("gfx950", (256, 256, 64), 512, 64),  # clang makes one of two iterations
    ("gfx1100", (128, 128, 32), 128, 32),
    ("gfx1201", (128, 128, 32), 128, 32),
])  # fmt: skip
@pytest.mark.parametrize("trans_b", [False, True])
def test_compiled_kernels_keep_tiles_in_registers(arch, tile, threads, count, trans_b):
    """A wave executes each matrix instruction of its part of a tile once per iteration, and nothing spills."""
    main = tiled(4096, 4096, 4096, tile, "float16", "float32", threads=threads, trans_b=trans_b, out="float16")[0]
    target = Target("hip", arch)
    text = target.family.backend().emit(lowered(main, target, CompileOptions()))
    code = build(text, arch, "clang")
    assert count == len(re.findall(r"^\s+v_(?:mfma|wmma)", code.assembly(), re.M))
    for used in code.resources.values():
        assert 0 == used.spill_bytes == used.local_bytes
        assert used.registers <= 256
