"""Quads of threads load the words of which each thread unpacks one byte."""

import numpy as np
import pytest
from dequantized_gemm import dequantized
from gpu import assert_simulates, lower_func
from harness import simulate_on_copies

import tilelang.language as T
from tilelang.ir.expr import Load
from tilelang.ir.visit import expressions, walk, walk_expr


def loaded(func, name, arch="sm_90a"):
    """The dtypes that threads load from a buffer."""
    body = lower_func(func, arch).body
    found = (e for s in walk(body) for value in expressions(s) for e in walk_expr(value) if isinstance(e, Load))
    return {str(e.dtype) for e in found if e.buffer.name == name}


@pytest.mark.parametrize(("depth", "width"), [(128, 16), (64, 16), (32, 16), (16, 8)])
def test_an_operand_of_wgmma_is_unpacked_from_words(depth, width):
    func = dequantized(16, 64, depth)
    assert {f"uint8x{width}"} == loaded(func, "W_b")
    rng = np.random.default_rng(depth)
    a = rng.integers(-3, 4, (16, depth * 3)).astype(np.float16)
    w = rng.integers(0, 256, (3, 64, depth // 2)).astype(np.uint8)
    assert_simulates(func, a, w, np.full((16, 64), np.nan, np.float32), arch="sm_90a", seeds=(0,))


def test_bytes_of_other_rows_are_loaded_one_by_one():
    assert {"uint8"} == loaded(dequantized(16, 64, 64, along_k=False), "W_b")


def unpacked(start, step):
    """A row of pairs for each thread, of the bytes from `start(thread)` on in steps."""

    @T.prim_func
    def main(W: T.Tensor((256,), "uint8"), O: T.Tensor((32, 16), "float16")):
        with T.Kernel(1, threads=32):
            thread = T.get_thread_binding()
            w, o = T.alloc_shared((256,), "uint8"), T.alloc_local((16,), "float16")
            T.copy(W, w)
            for i in T.unroll(8):
                for j in T.unroll(2):
                    byte = w[start(thread) + i * step]
                    o[i * 2 + j] = T.cast((byte >> T.cast(j * 4, "uint8")) & 15, "float16") - 8
            for i in T.serial(16):
                O[thread, i] = o[i]

    return main


@pytest.mark.parametrize(
    ("start", "step", "width"),
    [
        (lambda t: t % 4, 4, 16),
        (lambda t: t % 4 + t // 4 * 16, 4, 16),
        (lambda t: t % 4 + t // 4 * 8, 4, 8),  # vectors of 16 bytes would not be aligned
        (lambda t: t % 4 + 4 + t // 4 * 4, 4, 1),
        (lambda t: t % 4, 8, 1),  # every other word
        (lambda t: t % 2, 4, 1),  # half of each word
        (lambda t: 3 - t % 4, 4, 1),  # the other way round
        (lambda t: t, 4, 1),  # words, but vectors of them would not be aligned
    ],
)
def test_only_words_that_a_quad_shares_are_widened(start, step, width):
    func = unpacked(start, step)
    assert {f"uint8x{width}" if width > 1 else "uint8"} == loaded(func, "w")
    w = np.random.default_rng(step).integers(0, 256, 256).astype(np.uint8)
    bytes_ = w[np.array([[start(thread) + i * step for i in range(8)] for thread in range(32)])]
    expected = np.stack([bytes_ & 15, bytes_ >> 4], -1).reshape(32, 16).astype(np.float16) - 8
    got = simulate_on_copies(func, [w, np.full((32, 16), np.nan, np.float16)], "sm_90a")[1]
    np.testing.assert_array_equal(expected, got)


def test_threads_that_are_no_quads_load_single_bytes():
    """Here four iterations share a word, and a thread needs all of it."""

    @T.prim_func
    def main(W: T.Tensor((64,), "uint8"), O: T.Tensor((4, 16), "float16")):
        with T.Kernel(1, threads=32):
            w, o = T.alloc_shared((64,), "uint8"), T.alloc_local((16,), "float16")
            T.copy(W, w)
            for n in T.serial(4):
                for i in T.unroll(8):
                    for j in T.unroll(2):
                        o[i * 2 + j] = T.cast((w[n + i * 4] >> T.cast(j * 4, "uint8")) & 15, "float16")
                for i in T.serial(16):
                    O[n, i] = o[i]

    assert {"uint8"} == loaded(main, "w")
