"""The programs for Hopper into which faults are seeded: pipelines of TMA loads, wgmma, clusters.

Tiles and sizes make small simulations, in which every stage index wraps around within a tile and from one tile to the
next. Arguments are small integers, so that results are exact and any difference is an error.
"""

import math
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass

import numpy as np
from attention_programs import latent, latent_attention
from by_hand import ThreadProgram
from counted_tiles import counted_tiles, operands_and_tiles
from left_out_steps import left_out_steps, masked_operands
from programs_with_faults import example
from several_loads import several_loads
from specialized import gemm_kernel
from tensor_copies import Engine, plan_of, tensor_map

import tilelang.language as T
from tilelang.dtypes import BOOL, as_dtype
from tilelang.ir.expr import Const, Var
from tilelang.ir.func import Level, PrimFunc
from tilelang.options import CompileOptions
from tilelang.passes.base import Pass, PassContext
from tilelang.passes.runner import run_passes
from tilelang.sim.run import simulate
from tilelang.targets.gpu.isa.warp import ELECT
from tilelang.targets.nvidia.backend import BACKEND
from tilelang.targets.nvidia.isa.cluster import (
    CLUSTER_ARRIVE_RELAXED,
    CLUSTER_WAIT,
    mbarrier_arrive_remote,
)
from tilelang.targets.nvidia.isa.mbarrier import FENCE_MBARRIER_INIT, MBARRIER_INIT
from tilelang.targets.nvidia.isa.tma import tma_load
from tilelang.targets.nvidia.isa.wgmma import MATRIX_DESCRIPTOR, WGMMA_COMMIT, WGMMA_FENCE, atom_of, wgmma, wgmma_wait
from tilelang.targets.nvidia.passes import persist_grid
from tilelang.targets.target import Target

TARGET = Target("cuda", "sm_90a")
_PIPELINES = [step.name for step in BACKEND.passes].index("lower_pipelines")
_keeps_pipelines = ContextVar("keeps_pipelines", default=False)


def lowered(func, *, blocks=1, **pass_configs):
    """The thread-level program; a persistent one has `blocks` blocks."""
    few = Pass("persist_grid", lambda f, _: persist_grid.persist(f, blocks), Level.TILE, Level.TILE)
    passes = [few if step.name == few.name else step for step in BACKEND.passes]
    passes = passes[:_PIPELINES] if _keeps_pipelines.get() else passes
    options = CompileOptions.from_user({f"tl.{name}": value for name, value in pass_configs.items()})
    return run_passes(func, passes, PassContext(options, TARGET))


def with_pipelines(make):
    """What `make` makes, but at tile level, before pipelines are lowered."""
    token = _keeps_pipelines.set(True)
    try:
        return make()
    finally:
        _keeps_pipelines.reset(token)


def without_pipelines(func):
    """The thread-level program of one with pipelines."""
    return run_passes(func, BACKEND.passes[_PIPELINES:], PassContext(CompileOptions(), TARGET))


def ints(*shape, dtype="float16", seed=0):
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(dtype)


def gemm(sizes, tile, *, blocks=1, **pass_configs):
    """A tiled gemm."""

    def make():
        m, n, k = sizes
        a, b = ints(m, k), ints(k, n, seed=1)
        made = lowered(gemm_kernel(m, n, k, *tile), blocks=blocks, **{"stages": 2, **pass_configs})
        want = (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16)
        return made, [a, b, np.zeros((m, n), np.float16)], want

    return make


def transposed():
    """Both operands are transposed, in bfloat16."""
    m, n, k = 128, 128, 192

    @T.prim_func
    def main(A: T.Tensor((k, m), "bfloat16"), B: T.Tensor((n, k), "bfloat16"), C: T.Tensor((m, n), "float32")):
        with T.Kernel(2, threads=128) as by:
            A_s = T.alloc_shared((64, 64), "bfloat16")
            B_s = T.alloc_shared((128, 64), "bfloat16")
            C_l = T.alloc_fragment((64, 128), "float32")
            T.clear(C_l)
            for i in T.Pipelined(k // 64, num_stages=2):
                T.copy(A[i * 64, by * 64], A_s)
                T.copy(B[0, i * 64], B_s)
                T.gemm(A_s, B_s, C_l, transpose_A=True, transpose_B=True)
            T.copy(C_l, C[by * 64, 0])

    kind = as_dtype("bfloat16").numpy
    a, b = ints(k, m).astype(kind), ints(n, k, seed=1).astype(kind)
    want = a.astype(np.float32).T @ b.astype(np.float32).T
    return lowered(main, stages=2, persistent=True, ping_pong=False), [a, b, np.zeros((m, n), np.float32)], want


def attention(*, varying, block=64, dtype="float16"):
    """Rings of several tiles, one that is filled once per tile of the grid, and products of what registers hold.

    Weights say which scores are positive, so that all is exact. Tiles of the grid have as many steps each, or not. In 8
    bits values lie along the keys.
    """

    def make():
        rows, keys = 4 * block, 64 * (5 if varying else 3)
        along_keys = dtype.startswith("float8")

        def steps(bx):
            """The first tile ends, and the last one goes on, where the stages begin anew."""
            return T.if_then_else(bx == 0, 4, T.if_then_else(bx == 3, 5, 1))

        @T.prim_func
        def main(
            Q: T.Tensor((rows, 64), dtype),
            K: T.Tensor((keys, 64), dtype),
            V: T.Tensor((64, keys) if along_keys else (keys, 64), dtype),
            O: T.Tensor((rows, 64), "float32"),
        ):
            with T.Kernel(rows // block, threads=2 * block) as bx:
                Q_s = T.alloc_shared((block, 64), dtype)
                K_s = T.alloc_shared((64, 64), dtype)
                V_s = T.alloc_shared((64, 64), dtype)
                scores = T.alloc_fragment((block, 64), "float32")
                weights = T.alloc_fragment((block, 64), dtype)
                out = T.alloc_fragment((block, 64), "float32")
                T.copy(Q[bx * block, 0], Q_s)
                T.clear(out)
                for k in T.Pipelined(steps(bx) if varying else 3, num_stages=3):
                    T.copy(K[k * 64, 0], K_s)
                    T.copy(V[(0, k * 64) if along_keys else (k * 64, 0)], V_s)
                    T.gemm(Q_s, K_s, scores, transpose_B=True, clear_accum=True)
                    for i, j in T.Parallel(block, 64):
                        scores[i, j] = T.if_then_else(scores[i, j] > 0, 1.0, 0.0)
                    T.copy(scores, weights)
                    T.gemm(weights, V_s, out, transpose_B=along_keys)
                T.copy(out, O[bx * block, 0])

        kind = as_dtype(dtype).numpy
        q, k, v = (ints(n, 64, seed=seed).astype(kind) for seed, n in enumerate((rows, keys, keys)))
        weights = (q.astype(np.float32) @ k.astype(np.float32).T > 0).astype(np.float32)
        if varying:
            weights[:64, 256:] = 0
            weights[64:192, 64:] = 0
        want = weights @ v.astype(np.float32)
        made = lowered(main, blocks=1, persistent=True, stages=4 if varying else 3)
        return made, [q, k, np.ascontiguousarray(v.T) if along_keys else v, np.zeros((rows, 64), np.float32)], want

    return make


def in_several_places():
    """A load in front of a loop, that loop and another one fill a tile in turn."""
    a = ints(128, 320)
    want = np.concatenate([rows @ rows.T for rows in a.astype(np.float32).reshape(2, 64, 320)])
    made = lowered(several_loads(), blocks=1, persistent=True, stages=2)
    return made, [a, np.zeros((128, 64), np.float32)], want


def left_out():
    arguments, want = masked_operands()
    return lowered(left_out_steps(), blocks=1, persistent=True, stages=2), [*arguments, np.zeros_like(want)], want


def handed_out():
    """Tiles of different times, whose numbers the producer takes from a counter and passes on through slots."""

    @T.prim_func
    def main(A: T.Tensor((256, 256), "float16"), B: T.Tensor((256, 64), "float16"), C: T.Tensor((256, 64), "float32")):
        with T.Kernel(4, threads=128) as bx:
            A_s = T.alloc_shared((64, 64), "float16")
            B_s = T.alloc_shared((64, 64), "float16")
            C_l = T.alloc_fragment((64, 64), "float32")
            T.clear(C_l)
            for k in T.Pipelined(bx + 1, num_stages=2):
                T.copy(A[bx * 64, k * 64], A_s)
                T.copy(B[k * 64, 0], B_s)
                T.gemm(A_s, B_s, C_l)
            T.copy(C_l, C[bx * 64, 0])

    a, b = ints(256, 256), ints(256, 64, seed=1)
    wide, low = a.astype(np.float32), np.tri(4).repeat(64, axis=0).repeat(64, axis=1)
    want = ((wide * low) @ b.astype(np.float32)).astype(np.float32)
    return lowered(main, persistent=True, stages=2), [a, b, np.zeros((256, 64), np.float32)], want


def alternate():
    """Two warpgroups alternate among tiles, of which each counts those of both."""
    steps = (3, 0, 2, 1, 4, 0, 3)
    arguments, want = operands_and_tiles(steps, 0.0)
    made = lowered(counted_tiles(len(steps)), persistent=True, ping_pong=True, stages=2)
    return made, [*arguments, np.zeros_like(want)], want


def divided_columns():
    """Two warpgroups share scores and divide the columns of values; at a barrier they vote whether a maximum moves."""
    made = lowered(latent(64, 128, 512, 64, 64, threads=256), enable_fast_math=True)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((n, size)).astype(np.float16) for n in (64, 128) for size in (512, 64)]
    for keys in arrays[2:]:
        keys[64:] *= 4  # so that maxima move
    arguments = [*arrays, np.zeros((64, 512), np.float16)]
    copies = [array.copy() for array in arguments]
    simulate(made, copies, target=TARGET)
    np.testing.assert_allclose(copies[-1].astype(np.float64), latent_attention(*arrays), rtol=1e-2, atol=1e-2)
    return made, arguments, copies[-1]


def online_softmax(block=64):
    """Attention whose scores are mostly as large as those before, and in some tiles so much larger that they are computed again.

    Exponentials are powers of 2, of which sums have few bits, so that all is exact.
    """

    def make():
        rows, keys, dim = 4 * block, 320, 128

        @T.prim_func
        def main(
            Q: T.Tensor((rows, dim), "float16"),
            K: T.Tensor((keys, dim), "float16"),
            V: T.Tensor((keys, dim), "float16"),
            O: T.Tensor((rows, dim), "float32"),
        ):
            with T.Kernel(rows // block, threads=2 * block) as bx:
                Q_s = T.alloc_shared((block, dim), "float16")
                K_s = T.alloc_shared((64, dim), "float16")
                V_s = T.alloc_shared((64, dim), "float16")
                scores = T.alloc_fragment((block, 64), "float32")
                weights = T.alloc_fragment((block, 64), "float16")
                out = T.alloc_fragment((block, dim), "float32")
                largest = T.alloc_fragment((block,), "float32")
                total = T.alloc_fragment((block,), "float32")
                T.copy(Q[bx * block, 0], Q_s)
                T.clear(out)
                T.clear(total)
                T.fill(largest, -T.infinity("float32"))
                for k in T.Pipelined(keys // 64, num_stages=3):
                    T.copy(K[k * 64, 0], K_s)
                    T.copy(V[k * 64, 0], V_s)
                    T.gemm(Q_s, K_s, scores, transpose_B=True, clear_accum=True)
                    T.online_softmax(scores, out, largest, total, scale=math.log(2), probabilities=weights)
                    T.gemm(weights, V_s, out)
                for i, j in T.Parallel(block, dim):
                    out[i, j] /= total[i]
                T.copy(out, O[bx * block, 0])

        rng = np.random.default_rng(0)
        q, k, v = (np.zeros((n, dim), np.float16) for n in (rows, keys, keys))
        tile, row = np.divmod(np.arange(rows), block)
        column = np.where(tile % 2, row % 20, row)  # of K, which is a row of scores
        q[np.arange(rows), column + row % 2 * 64] = 1
        k[:] = rng.integers(-3, -1, (keys, dim))
        k[100, np.arange(dim) % 64 >= 20] = 17  # 2 ** 17 does not fit into float16; every other tile has none
        k[290, np.arange(dim) % 64 < 20] = 9
        v[:] = ints(keys, dim, seed=2)
        weights = np.exp2(q.astype(np.float64) @ k.astype(np.float64).T)
        want = (weights @ v.astype(np.float64)).astype(np.float32) / weights.sum(axis=1, keepdims=True).astype(np.float32)
        made = lowered(main, blocks=1, persistent=True, stages=3)
        return made, [q, k, v, np.zeros((rows, dim), np.float32)], want

    return make


def additions():
    """A software-pipelined loop whose results the copy engine adds to a tensor, twice to the same elements.

    Threads read its tiles, too, and not only gemms.
    """

    @T.prim_func
    def main(A: T.Tensor((128, 64), "float16"), B: T.Tensor((448, 64), "float16"), C: T.Tensor((128, 64), "float32")):
        with T.Kernel(1, threads=128):
            A_s = T.alloc_shared((64, 64), "float16")
            B_s = T.alloc_shared((64, 64), "float16")
            scores = T.alloc_fragment((64, 64), "float32")
            weights = T.alloc_fragment((64, 64), "float16")
            out = T.alloc_fragment((64, 64), "float32")
            T.copy(A[64, 0], A_s)
            for k in T.Pipelined(7, num_stages=2):
                T.copy(B[k * 64, 0], B_s)
                T.gemm(A_s, B_s, scores, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(64, 64):
                    weights[i, j] = T.if_then_else(scores[i, j] > B_s[i, j], 1.0, 0.0)
                T.gemm(weights, B_s, out, clear_accum=True)
                T.atomic_add(C[k % 2 * 64, 0], out)

    a, b = ints(128, 64), ints(448, 64, seed=1)
    want = np.zeros((128, 64), np.float32)
    for k in range(7):
        tile = b[k * 64 : k * 64 + 64].astype(np.float32)
        want[k % 2 * 64 : k % 2 * 64 + 64] += (a[64:].astype(np.float32) @ tile.T > tile) @ tile
    return lowered(main, stages=3), [a, b, np.zeros((128, 64), np.float32)], want


def listed():
    """Pages of a list, of which each says where the next one is: both roles follow it, each with a scalar of its own."""

    @T.prim_func
    def main(
        A: T.Tensor((64, 64), "float16"),
        pages: T.Tensor((3, 64, 64), "float16"),
        following: T.Tensor((3,), "int32"),
        C: T.Tensor((64, 64), "float32"),
    ):
        with T.Kernel(1, threads=128):
            A_s = T.alloc_shared((64, 64), "float16")
            page_s = T.alloc_shared((64, 64), "float16")
            C_l = T.alloc_fragment((64, 64), "float32")
            page = T.alloc_var("int32", init=0)
            T.copy(A, A_s)
            T.clear(C_l)
            for _ in T.Pipelined(3, num_stages=2):
                T.copy(pages[page, 0, 0], page_s)
                T.gemm(A_s, page_s, C_l)
                page = following[page]
            for i, j in T.Parallel(64, 64):
                C_l[i, j] = C_l[i, j] + page
            T.copy(C_l, C)

    a, pages, following = ints(64, 64), ints(3, 64, 64, seed=1), np.array([2, -1, 1], np.int32)
    want = a.astype(np.float32) @ pages.astype(np.float32).sum(axis=0) - 1
    return lowered(main, stages=2), [a, pages, following, np.zeros((64, 64), np.float32)], want


def handed_over():
    """The block that comes last lets an engine bring what all blocks computed in global memory."""

    @T.prim_func
    def main(
        A: T.Tensor((2, 64, 64), "float16"),
        W: T.Tensor((2, 64, 64), "float16"),
        count: T.Tensor((1,), "int32"),
        C: T.Tensor((2, 64, 64), "float16"),
    ):
        with T.Kernel(2, threads=128) as bx:
            S = T.alloc_shared((2, 64, 64), "float16")
            come = T.alloc_barrier(1)
            tx = T.get_thread_binding()
            for i in T.serial(32):
                W[bx, i * 2 + tx // 64, tx % 64] = A[bx, i * 2 + tx // 64, tx % 64] + A[bx, i * 2, 0]
            before = T.atomic_add(count[0], 1, memory_order="acq_rel", return_prev=True)
            if before == 1:
                if tx == 0:
                    T.fence_proxy_async("global")
                    for part in T.serial(2):
                        T.tma_copy(W[part, :, :], S[part, :, :], barrier=come)
                    T.barrier_arrive(come)
                T.barrier_wait(come, 0)
                T.copy(S, C)

    a = ints(2, 64, 64)
    want = a + a[:, ::2, :1].repeat(2, axis=1)
    return lowered(main), [a, np.zeros_like(a), np.zeros(1, np.int32), np.zeros_like(a)], want


def by_hand():
    """The example in which roles, ring and barriers are the user's."""
    m, n, k = 128, 128, 256
    factory = example("02_gemm/warp_specialized_gemm.py").warp_specialized
    a, b = ints(m, k), ints(k, n, seed=1)
    want = (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16)
    func = factory.get_tir(m, n, k, block_M=128, block_N=128, block_K=64, stages=2)
    return lowered(func), [a, b, np.zeros((m, n), np.float16)], want


def cluster():
    """Two blocks that each load half of the tiles of B for both by multicast; consumers release stages to both."""
    p = ThreadProgram()
    engine, t, steps, ring = Engine(p), p.thread, 4, 2
    a, b = p.tensor("A", (128, 256), "float16"), p.tensor("B", (256, 64), "float16")
    c = p.tensor("C", (128, 64))
    of_a, of_b = tensor_map(a, (64, 64), 128), tensor_map(b, (64, 32), 128)
    version, turn = (lambda k: k % ring), (lambda k: k // ring % 2)
    with p.kernel(2, threads=160, plan=plan_of(of_a, of_b), cluster=(2, 1, 1)) as (bx,):
        a_s, b_s = (p.shared(name, (ring * 4096,), "float16") for name in ("A_s", "B_s"))
        full, empty = engine.barriers("full", ring), engine.barriers("empty", ring)
        with p.branch(t == 0):
            for i in range(ring):
                p.call(MBARRIER_INIT, p.at(full, i), 1)
                p.call(MBARRIER_INIT, p.at(empty, i), 2)
            p.call(FENCE_MBARRIER_INIT)
        p.call(CLUSTER_ARRIVE_RELAXED)
        p.call(CLUSTER_WAIT)
        with p.branch(t >= 128):
            elected = Var("elected", ELECT.result)
            p.call(ELECT, Const(0xFFFFFFFF, as_dtype("uint32")), result=elected)
            with p.branch(elected), p.serial(0, steps) as k:
                at = version(k)
                engine.wait(empty, at, 1 - turn(k))
                engine.announce(full, at, 16384)
                p.call(tma_load(2), p.at(a_s, at * 4096), of_a.var, p.at(full, at), k * 64, bx * 64)
                half = p.at(b_s, at * 4096 + bx * 2048)
                p.call(tma_load(2, multicast=True), half, of_b.var, p.at(full, at), 0, k * 64 + bx * 32, 3)
        with p.branch(t < 128):
            sums = p.local("sums", (32,))
            multiply = wgmma(atom_of(*map(as_dtype, ("float16", "float16", "float32")), 64), transpose_b=True)
            with p.serial(0, steps) as k:
                at = version(k)
                engine.wait(full, at, turn(k))
                left, right = (Var(name, MATRIX_DESCRIPTOR.result) for name in ("left", "right"))
                p.call(MATRIX_DESCRIPTOR, p.at(a_s, at * 4096), 0, 1024, 1, result=left)
                p.call(MATRIX_DESCRIPTOR, p.at(b_s, at * 4096), 8192, 1024, 1, result=right)
                p.call(WGMMA_FENCE)
                for step in range(4):
                    at_step = (left + step * 2, right + step * 128, Const(True, BOOL)) if step else (left, right, k != 0)
                    p.call(multiply, p.region(sums), *at_step)
                p.call(WGMMA_COMMIT)
                p.call(wgmma_wait(0))
                for rank in range(2):
                    with p.branch(t == 0):
                        p.call(mbarrier_arrive_remote(), p.at(empty, at), rank)
            for place in range(32):
                row = t // 32 * 16 + t // 4 % 8 + place // 2 % 2 * 8
                p.store(c, (bx * 64 + row, place // 4 * 8 + t % 4 * 2 + place % 2), p.load(sums, place))
        p.call(CLUSTER_ARRIVE_RELAXED)
        p.call(CLUSTER_WAIT)
    left, right = ints(128, 256), ints(256, 64, seed=1)
    want = left.astype(np.float32) @ right.astype(np.float32)
    return p.finish(), [left, right, np.zeros((128, 64), np.float32)], want


@dataclass(frozen=True)
class Program:
    """One program.

    Attributes:
        make: Makes it, its arguments, of which the last is the output, and the expected output.
        without: Kinds of faults that do not change its results.
        implied: Waits among its sampled faults that other waits imply, so that without them nothing changes.
    """

    make: Callable[[], tuple[PrimFunc, list[np.ndarray], np.ndarray]]
    without: frozenset[str] = frozenset()
    implied: int = 0


# each array of barriers is published separately, and the last fence publishes all
REPEATED = frozenset({"initialization not published", "block barrier removed"})
NARROW = frozenset({"leading distance altered"})  # no operand is wider than a line of 128 bytes
PROGRAMS = {
    "gemm": Program(
        gemm((128, 64, 192), (64, 64, 64), persistent=True, ping_pong=False, in_flight=0), NARROW
    ),
    "gemm, asynchronous mma": Program(gemm((256, 128, 192), (128, 128, 64), persistent=True, ping_pong=False, consumers=2)),
    "gemm, ping-pong": Program(gemm((256, 64, 192), (64, 64, 64), persistent=True, ping_pong=True), NARROW),
    "gemm, ping-pong with one stage": Program(
        gemm((256, 64, 192), (64, 64, 64), persistent=True, ping_pong=True, stages=1), NARROW
    ),
    "gemm, ping-pong by counters": Program(alternate, NARROW),
    "gemm, split-K in a cluster": Program(gemm((64, 64, 448), (64, 64, 64), split=2, in_flight=0), NARROW),
    "gemm, fewer rows than an instruction": Program(
        gemm((96, 64, 192), (48, 64, 64), persistent=True, ping_pong=False, in_flight=0), NARROW
    ),
    "gemm, loads in several places": Program(in_several_places, NARROW),
    "gemm, steps left out": Program(left_out, NARROW, implied=1),  # all consumers are one warpgroup, with two barriers
    "gemm, transposed": Program(transposed, NARROW),
    "attention": Program(attention(varying=False), NARROW),
    # all tiles begin with the same keys, so that those of another tile serve as well
    "attention, variable lengths": Program(attention(varying=True), NARROW, implied=1),
    # a block has one tile, whose queries fill an empty stage
    "attention in float8": Program(attention(varying=False, dtype="float8_e4m3fn"), NARROW, implied=1),
    # the producer waits for queries, too, where it waits for keys, and no register is written between both gemms
    "attention by an online softmax": Program(online_softmax(), NARROW | {"wgmma fence removed"}, implied=2),
    "additions of a loop": Program(additions, NARROW),
    # the waits for A and B order what the warp barrier behind a number does; launches run one after another
    "gemm, tiles from a counter": Program(handed_out, NARROW, implied=1),
    # one wait is for the gemms of both scores, in one group or two; queries are loaded from row 0 and column 0
    "latent attention": Program(
        divided_columns, frozenset({"wgmma commit removed", "wgmma fence removed", "coordinates swapped"})
    ),
    # the producer's waits for K and V hold it until Q has been read
    "attention, three warpgroups": Program(attention(varying=False, block=192), NARROW, implied=1),
    "gemm, explicit pipeline": Program(by_hand, REPEATED),
    "gemm, clusters of two": Program(
        gemm((64, 256, 192), (64, 64, 64), persistent=True, ping_pong=False, cluster=(2, 1)), NARROW
    ),
    "gemm, clusters of four": Program(
        gemm((128, 128, 256), (64, 64, 64), persistent=False, in_flight=0, cluster=(2, 2)), NARROW
    ),
    "cluster": Program(cluster, NARROW),
    # each page is loaded from row 0 and column 0
    "paged loads": Program(listed, NARROW | {"coordinates swapped"}),
    "release and acquire": Program(handed_over, frozenset({"coordinates swapped", "block barrier removed"})),
}
