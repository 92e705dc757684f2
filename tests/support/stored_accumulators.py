"""Accumulators of matrix instructions that go to memory through a shared tile."""

import numpy as np

import tilelang.language as T
from tilelang.layout.thread_values import digit, fragment


def accumulator(blocks=(2, 4), warps=(2, 2), turned=False, lanes=None, order=None):
    """What warps hold that have so many blocks of 8 x 8 each along both dimensions."""
    shape = (8 * blocks[0] * warps[0], 8 * blocks[1] * warps[1])
    pair, quad, line = digit(2, 0, 1), digit(4, 0, 2), digit(8, 1, 0)
    thread = [*(lanes or (quad, line)), digit(warps[0], 8 * blocks[0], 0), digit(warps[1], 0, 8 * blocks[1])]
    value = [pair, digit(blocks[1], 0, 8), digit(blocks[0], 8, 0)]
    value = value if order is None else [value[n] for n in order]
    if turned:
        shape = shape[::-1]
        thread, value = ([digit(m.size, *m.stride[::-1]) for m in modes] for modes in (thread, value))
    return fragment(shape, thread, value)


def through_shared(held, dtype="float16", source="float32", layout=None, margin=(0, 0), versions=0):
    """A tile that goes from a fragment to some rows and columns of a shared tile, and from there to memory."""
    rows, columns = held.shape
    top, left = margin
    wide = (rows + top, columns + left)
    at = (versions - 1,) if versions else ()

    @T.prim_func
    def main(A: T.Tensor((rows, columns), source), B: T.Tensor((rows, columns), dtype)):
        with T.Kernel(1, threads=held.threads):
            S = T.alloc_shared((*([versions] if versions else []), *wide), dtype)
            F = T.alloc_fragment((rows, columns), source)
            T.annotate_layout({F: T.Fragment(held.shape, held.owner)})
            if layout is not None:
                T.annotate_layout({S: layout})
            T.copy(A, F)
            part = S[(*at, slice(top, rows + top), slice(left, columns + left))]
            T.copy(F, part)
            T.copy(part, B)

    return main


def blank(func, seed=0):
    """Arguments for a kernel: numbers to copy, and nothing."""
    a, b = func.params
    drawn = np.random.default_rng(seed).standard_normal(a.buffer.static_shape, dtype=np.float32)
    return drawn.astype(a.buffer.dtype.numpy), np.zeros(b.buffer.static_shape, b.buffer.dtype.numpy)
