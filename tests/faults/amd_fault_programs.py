"""The programs for AMD's GPUs into which faults are seeded, each with small integers, so that sums are exact."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from by_hand import ThreadProgram
from gpu import lower_func

import tilelang.language as T
from tilelang.ir.func import PrimFunc
from tilelang.targets.amd.isa.barriers import BARRIER_SIGNAL, BARRIER_WAIT, S_BARRIER, lds_barrier
from tilelang.targets.amd.isa.direct_to_lds import DIRECT_LOADS
from tilelang.targets.amd.isa.wait_counters import (
    WAIT_FOR_DIRECT_LOADS,
    Counters,
    wait_for_lds,
    wait_for_stores,
)


@dataclasses.dataclass(frozen=True)
class AmdProgram:
    """A program of a machine.

    Attributes:
        arch: The machine.
        make: Gives the program of a thread, its arguments, and what the last one holds afterwards.
        without: Kinds of faults that are none here.
    """

    arch: str
    make: Callable[[], tuple[PrimFunc, list[Any], np.ndarray]]
    without: frozenset[str] = frozenset()


def integers(*shape, dtype="float16", seed=0):
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(dtype)


def gemm(arch, size=(40, 64, 96), tile=(32, 32, 32), stages=2, threads=64):
    """C = A @ B, of which the sums go through shared memory that the tiles had."""
    (m, n, k), (rows, columns, depth) = size, tile

    @T.prim_func
    def main(A: T.Tensor((m, k), "float16"), B: T.Tensor((k, n), "float16"), C: T.Tensor((m, n), "float32")):
        with T.Kernel(T.ceildiv(n, columns), T.ceildiv(m, rows), threads=threads) as (bx, by):
            a = T.alloc_shared((rows, depth), "float16")
            b = T.alloc_shared((depth, columns), "float16")
            sums = T.alloc_shared((rows, columns), "float32")
            c = T.alloc_fragment((rows, columns), "float32")
            T.clear(c)
            for i in T.Pipelined(T.ceildiv(k, depth), num_stages=stages):
                T.copy(A[by * rows, i * depth], a)
                T.copy(B[i * depth, bx * columns], b)
                T.gemm(a, b, c)
            T.copy(c, sums)
            for i, j in T.Parallel(rows, columns):
                C[by * rows + i, bx * columns + j] = sums[rows - 1 - i, columns - 1 - j]

    def make():
        a, b = integers(m, k), integers(k, n, seed=1)
        product = np.zeros((-(-m // rows) * rows, n), np.float32)
        product[:m] = a.astype(np.float32) @ b.astype(np.float32)
        tiles = product.reshape(-1, rows, n // columns, columns)
        expected = tiles[:, ::-1, :, ::-1].reshape(-1, n)[:m]
        return lower_func(main, arch), [a, b, np.zeros((m, n), np.float32)], expected

    return AmdProgram(arch, make)


def in_ping_pong():
    """C = A @ B by two groups of waves, one of which multiplies while the other loads."""
    k, depth = 96, 32

    @T.prim_func
    def main(A: T.Tensor((128, k), "float16"), B: T.Tensor((k, 128), "float16"), C: T.Tensor((128, 128), "float32")):
        with T.Kernel(1, threads=512):
            a, b = T.alloc_shared((128, depth), "float16"), T.alloc_shared((depth, 128), "float16")
            c = T.alloc_fragment((128, 128), "float32")
            T.clear(c)
            for i in T.Pipelined(k // depth, num_stages=2):
                T.copy(A[0, i * depth], a)
                T.copy(B[i * depth, 0], b)
                T.gemm(a, b, c)
            T.copy(c, C)

    def make():
        a, b = integers(128, k), integers(k, 128, seed=1)
        expected = a.astype(np.float32) @ b.astype(np.float32)
        return lower_func(main, "gfx942"), [a, b, np.zeros((128, 128), np.float32)], expected

    return AmdProgram("gfx942", make)


def stencil(arch, stages):
    """Sums of neighbors in tiles that are loaded ahead."""

    @T.prim_func
    def main(A: T.Tensor((64, 128), "float32"), C: T.Tensor((16, 128), "float32")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((16, 128), "float32")
            total = T.alloc_fragment((16, 128), "float32")
            T.clear(total)
            for k in T.Pipelined(4, num_stages=stages):
                T.copy(A[k * 16, 0], tile)
                for i, j in T.Parallel(16, 128):
                    total[i, j] += tile[15 - i, j] + tile[i, 127 - j]
            T.copy(total, C)

    def make():
        a = integers(64, 128, dtype="float32")
        tiles = a.reshape(4, 16, 128)
        expected = (tiles[:, ::-1] + tiles[:, :, ::-1]).sum(axis=0)
        return lower_func(main, arch), [a, np.zeros((16, 128), np.float32)], expected

    # the wait behind the loop is for tiles that share its memory, and there are none
    return AmdProgram(arch, make, frozenset(("wait for direct loads removed",)))


def exchange(arch, counters, *, split=False):
    """Waves exchange values through LDS, round after round, with waits and barriers by hand."""

    def make():
        p = ThreadProgram()
        a, out, t = p.tensor("A", (4, 128)), p.tensor("out", (4, 128)), p.thread

        def meet():
            p.call(wait_for_lds(counters))
            for instruction in (BARRIER_SIGNAL, BARRIER_WAIT) if split else (S_BARRIER,):
                p.call(instruction)

        with p.kernel(1, threads=128):
            tile = p.shared("tile", (128,))
            with p.serial(0, 4) as k:
                p.store(tile, (t,), p.load(a, k, t) + 0)
                meet()
                p.store(out, (k, t), p.load(tile, (t + 64) % 128) + 0)
                meet()
        values = integers(4, 128, dtype="float32")
        return p.finish(), [values, np.zeros_like(values)], np.roll(values, 64, axis=1)

    return AmdProgram(arch, make)


def through_global_memory(arch, counters):
    """Waves exchange values through global memory, each after a wait for its stores."""

    def make():
        p = ThreadProgram()
        a, middle, out, t = p.tensor("A", (128,)), p.tensor("middle", (128,)), p.tensor("out", (128,)), p.thread
        with p.kernel(1, threads=128):
            p.store(middle, (t,), p.load(a, t) + 1)
            p.call(wait_for_stores(counters))
            p.call(S_BARRIER)
            p.store(out, (t,), p.load(middle, (t + 64) % 128) + 0)
        values = integers(128, dtype="float32")
        zeros = np.zeros_like(values)
        return p.finish(), [values, zeros, zeros.copy()], np.roll(values + 1, 64)

    return AmdProgram(arch, make)


def by_syncthreads():
    """Waves exchange values through global memory in each iteration, ordered by barriers of the block."""

    @T.prim_func
    def main(A: T.Tensor((128,), "float32"), middle: T.Tensor((128,), "float32"), C: T.Tensor((4, 128), "float32")):
        with T.Kernel(1, threads=128):
            t = T.get_thread_binding(0)
            for k in T.serial(4):
                middle[t] = A[t] + k
                T.sync_threads()
                C[k, t] = middle[(t + 64) % 128]
                T.sync_threads()

    def make():
        a = integers(128, dtype="float32")
        expected = np.roll(a, 64) + np.arange(4, dtype=np.float32)[:, None]
        return lower_func(main, "gfx1100"), [a, np.zeros_like(a), np.zeros((4, 128), np.float32)], expected

    return AmdProgram("gfx1100", make)


def ring(stages, *, width=4):
    """Waves load tiles of LDS for each other, `stages` - 1 ahead, two loads a tile."""
    load, lanes = DIRECT_LOADS[width], width // 4

    def make():
        p = ThreadProgram()
        shape = (6, 2, 128 * lanes)
        a, out, t = p.tensor("A", shape), p.tensor("out", (6, 128)), p.thread

        def fill(k):
            for n in range(2):
                target, source = p.at(tile, k % stages, n, t * lanes), p.at(a, k, n, t * lanes)
                p.call_on(load, (target, source, k < 6), reads=(source,), writes=(target,))

        with p.kernel(1, threads=128):
            tile = p.shared("tile", (stages, *shape[1:]))
            for first in range(stages - 1):
                fill(T.int32(first))
            with p.serial(0, 6) as k:
                p.call(WAIT_FOR_DIRECT_LOADS, 2 * (stages - 2))
                p.call(lds_barrier(Counters.LOADS_AND_STORES))
                fill(k + (stages - 1))
                other = (t + 64) % 128 * lanes
                p.store(out, (k, t), p.load(tile, k % stages, 0, other) + p.load(tile, k % stages, 1, other))
        values = integers(*shape, dtype="float32")
        expected = np.roll(values.sum(axis=1)[:, ::lanes], 64, axis=1)
        return p.finish(), [values, np.zeros((6, 128), np.float32)], expected

    return AmdProgram("gfx950", make)


PROGRAMS = {
    "gemm, through registers, two stages": gemm("gfx942"),
    "gemm, through registers, three stages": gemm("gfx942", stages=3, threads=128),
    "gemm, gfx90a": gemm("gfx90a", tile=(32, 64, 32), threads=128),
    "gemm, gfx1100": gemm("gfx1100", stages=3),
    "gemm, gfx1200": gemm("gfx1200"),
    # loads of two stages do not run beyond the loop, so that the wait behind it waits for none
    "gemm, direct loads, two stages": dataclasses.replace(
        gemm("gfx950", tile=(32, 64, 32), threads=128), without=frozenset({"wait for direct loads removed"})
    ),
    "gemm, direct loads, three stages": gemm("gfx950", (40, 64, 128), tile=(32, 64, 32), stages=3, threads=128),
    "gemm, direct loads, four stages": gemm("gfx950", (40, 64, 160), tile=(32, 64, 32), stages=4, threads=128),
    "gemm, in ping-pong": in_ping_pong(),
    "stencil, through registers": stencil("gfx942", 2),
    "stencil, direct loads": stencil("gfx950", 3),
    "exchange by s_barrier": exchange("gfx942", Counters.LOADS_AND_STORES),
    "exchange by s_barrier, gfx1100": exchange("gfx1100", Counters.SEPARATE_STORES),
    "exchange by a split barrier": exchange("gfx1200", Counters.ALL_SEPARATE, split=True),
    "exchange through global memory": through_global_memory("gfx942", Counters.LOADS_AND_STORES),
    "exchange through global memory, gfx1100": through_global_memory("gfx1100", Counters.SEPARATE_STORES),
    "exchange through global memory, gfx1200": through_global_memory("gfx1200", Counters.ALL_SEPARATE),
    "exchange through global memory by T.sync_threads": by_syncthreads(),
    "ring of two tiles": ring(2),
    "ring of three tiles": ring(3),
    "ring of four tiles, 16 bytes": ring(4, width=16),
}
