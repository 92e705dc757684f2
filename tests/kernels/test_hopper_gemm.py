"""Gemms of every dtype, transposition and size on Hopper, warp-specialized, against the reference."""

import dataclasses

import numpy as np
import pytest
from device_text import needs_cuda_compiler
from harness import assert_same, run_reference_on_copies
from tiled_gemm import tiled_gemm

import tilelang
import tilelang.language as T
from tilelang.dtypes import as_dtype
from tilelang.ir.specialization import Specialization
from tilelang.ir.stmt import CallStmt, Launch
from tilelang.ir.visit import walk
from tilelang.options import CompileOptions
from tilelang.passes.base import PassContext
from tilelang.passes.runner import run_passes
from tilelang.sim.run import simulate
from tilelang.targets.nvidia.backend import BACKEND
from tilelang.targets.nvidia.codegen.cuda import emit
from tilelang.targets.nvidia.machines import MACHINES
from tilelang.targets.nvidia.runtime.device_code import build
from tilelang.targets.target import Target
from tilelang.transforms.specialize_symbols import specialize

TARGET = Target("cuda", "sm_90a")
ALL_TIMINGS = [(lazy, seed) for lazy in (False, True) for seed in (0, 1, 2)]
STAYS = {"tl.persistent": True}


@pytest.fixture(autouse=True)
def few_multiprocessors(monkeypatch):
    """Blocks that stay have several tiles each."""
    monkeypatch.setitem(MACHINES, "sm_90a", dataclasses.replace(MACHINES["sm_90a"], groups=(2,)))


def lowered(func, *, roles=True, **pass_configs):
    options = CompileOptions.from_user({key.replace("_", ".", 1): value for key, value in pass_configs.items()})
    made = run_passes(func, BACKEND.passes, PassContext(options, TARGET))
    (launch,) = (s for s in walk(made.body) if isinstance(s, Launch))
    assert roles == (launch.plan.schedule is not None), launch.plan.notes
    return made


def check(func, *arguments, timings=((False, 0), (True, 1)), roles=True, **pass_configs):
    """The simulator agrees with the reference, bit by bit: elements are small integers."""
    expected, made = run_reference_on_copies(func, arguments), lowered(func, roles=roles, **pass_configs)
    for lazy, seed in timings:
        actual = [np.array(a) for a in arguments]
        simulate(made, actual, target=TARGET, lazy=lazy, seed=seed)
        for want, got in zip(expected, actual, strict=True):
            assert_same(want, got)
    return made


def draw(shape, dtype="float16", seed=0):
    low = 0 if dtype.startswith("uint") else -3
    return np.random.default_rng(seed).integers(low, 4, shape).astype(as_dtype(dtype).numpy)


def product(sizes, tile, *, dtype="float16", other=None, sums=None, out="float16", ta=False, tb=False, pitch=None):
    """A gemm with B in another dtype if there is an `other`."""
    transposed = {"trans_a": ta, "trans_b": tb}
    return tiled_gemm(
        sizes, tile, dtype=dtype, dtype_b=other, accum=sums, out=out, num_stages=3, pitch=pitch, **transposed
    )


def tensors(sizes, *, dtype="float16", other=None, out="float16", ta=False, tb=False, **_):
    m, n, k = sizes
    a, b = draw((k, m) if ta else (m, k), dtype), draw((n, k) if tb else (k, n), other or dtype, 1)
    return a, b, np.zeros((m, n), as_dtype(out).numpy)


KINDS = [
    {"dtype": "bfloat16", "out": "bfloat16"},
    {"dtype": "float16", "sums": "float16"},
    {"dtype": "tfloat32", "out": "float32", "tb": True},
    {"dtype": "float8_e4m3fn", "tb": True},
    {"dtype": "float8_e5m2", "out": "bfloat16", "tb": True},
    {"dtype": "float8_e4m3fn", "other": "float8_e5m2", "tb": True},
    {"dtype": "float8_e5m2", "other": "float8_e4m3fn", "out": "bfloat16", "tb": True},
    {"dtype": "int8", "out": "int32", "tb": True},
    {"dtype": "uint8", "out": "int32", "tb": True},
]


@pytest.mark.slow(every=24)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: "-".join(map(str, kind.values())))
def test_every_dtype_at_all_timings(kind):
    sizes, tile = (72, 48, 80), (64, 32, 512 // as_dtype(kind["dtype"]).bits)
    timings = ALL_TIMINGS[KINDS.index(kind) % 3 :: 3]  # of each kind a third, of all kinds all
    check(product(sizes, tile, **kind), *tensors(sizes, **kind), timings=timings, tl_persistent=True)


@pytest.mark.slow(every=8)
@pytest.mark.parametrize(
    ("dtype", "ta", "tb"),
    [("float16", ta, tb) for ta in (False, True) for tb in (False, True)] + [("bfloat16", True, False)],
)
def test_every_orientation_of_16_bits(dtype, ta, tb):
    kind = {"dtype": dtype, "out": "float32", "ta": ta, "tb": tb}
    sizes = (136, 40, 80)
    check(product(sizes, (128, 32, 32), **kind), *tensors(sizes, **kind), timings=[(True, 1)])


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "tfloat32"])
def test_what_is_not_contiguous_along_k_is_multiplied_otherwise(dtype):
    sizes = (64, 32, 64)
    kind = {"dtype": dtype, "out": "float32"}
    check(product(sizes, (64, 32, 32), **kind), *tensors(sizes, **kind), timings=[(True, 0)], roles=False)


@pytest.mark.slow
@pytest.mark.parametrize(("columns", "tb"), [(8, True), (24, False), (40, True), (136, True), (200, False)])
def test_any_number_of_columns(columns, tb):
    sizes = (64, 2 * columns - 8, 40)
    check(product(sizes, (64, columns, 32), tb=tb), *tensors(sizes, tb=tb), timings=[(True, 1)])


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "depth", "ta"), [(64, 16, True), (128, 48, False), (192, 32, True), (256, 64, True)])
def test_any_number_of_rows_and_any_depth(rows, depth, ta):
    sizes = (rows - 8, 24, 2 * depth - 8)
    check(product(sizes, (rows, 32, depth), ta=ta), *tensors(sizes, ta=ta), timings=[(True, 1)])


ROWS = [(48, False), (40, True), (16, False), (8, False), (32, True), (80, False), (96, True), (104, False), (208, False)]


def check_rows(rows, ta, persistent, timings):
    sizes = (rows + 8, 72, 80)
    check(product(sizes, (rows, 64, 32), ta=ta), *tensors(sizes, ta=ta), timings=timings, tl_persistent=persistent)


@pytest.mark.slow(every=16)
@pytest.mark.parametrize(("rows", "ta"), ROWS)
def test_rows_that_no_instruction_has(rows, ta):
    check_rows(rows, ta, rows % 32 == 16, [(rows % 16 == 0, 1)])


@pytest.mark.slow(every=72)
@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize(("rows", "ta"), ROWS)
def test_rows_that_no_instruction_has_at_all_timings(rows, ta, persistent):
    check_rows(rows, ta, persistent, ALL_TIMINGS)


@pytest.mark.slow(every=8)
@pytest.mark.parametrize("tile", [(12, 64, 32), (64, 64, 24), (64, 64, 40), (64, 36, 32)])
def test_what_whole_instructions_do_not_divide_is_multiplied_by_warps(tile):
    sizes = (tile[0] + 8, 72, 80)
    made = check(product(sizes, tile), *tensors(sizes), roles=False)
    assert any("mma_m16n8k" in s.routine.name for s in walk(made.body) if isinstance(s, CallStmt))


@pytest.mark.parametrize("sizes", [(100, 72, 40), (1, 72, 40), (65, 136, 8)])
def test_sizes_that_tiles_do_not_divide(sizes):
    check(product(sizes, (64, 64, 32)), *tensors(sizes))


@pytest.mark.parametrize("sizes", [(72, 1, 40), (30, 67, 33)])
def test_rows_that_no_map_can_describe_are_copied_by_threads(sizes):
    check(product(sizes, (64, 64, 32)), *tensors(sizes), timings=[(True, 1)], roles=False)


@pytest.mark.parametrize("pass_configs", [{}, {"tl_ping_pong": True, "tl_persistent": True}])
def test_a_tile_of_one_step(pass_configs):
    sizes = (136, 72, 32)
    check(product(sizes, (64, 32, 32)), *tensors(sizes), timings=ALL_TIMINGS[:4], **pass_configs)


# -- calls ---------------------------------------------------------------------------------------------------------
def placed(array, *, first=0, pitch=None):
    """A copy whose first element is so many elements behind a multiple of 128 bytes, with rows a pitch apart."""
    pitch = pitch or array.shape[1]
    memory = np.full(array.shape[0] * pitch + 128, 99, array.dtype)
    begin = -memory.ctypes.data % 128 + first * array.itemsize
    strides = (pitch * array.itemsize, array.itemsize)
    copy = np.ndarray(array.shape, array.dtype, memory, begin, strides)
    copy[...] = array
    return copy


def call(kernel, sizes, *, first=(0, 0, 0), pitch=None, ta=False, tb=False):
    a, b, c = tensors(sizes, ta=ta, tb=tb)
    wide = [x.astype(np.float32) for x in (a.T if ta else a, b.T if tb else b)]
    a, b, c = (placed(x, first=at, pitch=pitch) for x, at in zip((a, b, c), first, strict=True))
    kernel.simulate(a, b, c, lazy=True, seed=1)
    np.testing.assert_array_equal((wide[0] @ wide[1]).astype(np.float16), c)


def compiled(func, **pass_configs):
    return tilelang.compile(
        func, target={"kind": "cuda", "arch": "sm_90a"}, execution_backend="simulator", pass_configs=pass_configs
    )


@pytest.mark.slow(every=8)
@pytest.mark.parametrize(("ta", "tb"), [(False, False), (True, True)])
def test_sizes_that_only_the_call_knows(ta, tb):
    sizes = [T.dynamic(name) for name in "MNK"]
    kernel = compiled(product(sizes, (64, 32, 32), ta=ta, tb=tb))
    for size in ((72, 40, 72), (1, 8, 8), (30, 33, 33), (64, 8, 0)):
        call(kernel, size, ta=ta, tb=tb)


@pytest.mark.slow(every=12)
@pytest.mark.parametrize("first", [(1, 0, 0), (0, 3, 0), (0, 0, 5), (4, 4, 4)])
def test_tensors_that_begin_where_no_map_can(first):
    call(compiled(product((72, 40, 40), (64, 32, 32)), **STAYS), (72, 40, 40), first=first)


@pytest.mark.slow(every=12)
@pytest.mark.parametrize(("ta", "tb"), [(False, False), (False, True), (True, False), (True, True)])
def test_odd_sizes_with_rows_that_lie_apart(ta, tb):
    func = product((69, 69, 69), (64, 64, 32), ta=ta, tb=tb, pitch=72)
    lowered(func)
    call(compiled(func), (69, 69, 69), pitch=72, ta=ta, tb=tb)


def test_a_distance_of_rows_that_only_the_call_knows():
    kernel = compiled(product((40, 33, 35), (64, 32, 32), pitch=T.dynamic("pitch")))
    for pitch in (128, 40, 37):
        call(kernel, (40, 33, 35), pitch=pitch)


# -- what stands around a product ----------------------------------------------------------------------------------
M, N, K = 136, 40, 80
BM, BN, BK = 64, 32, 32


def around(form, rows=BM):
    """A product with something before, between or behind."""
    bm = rows

    @T.prim_func
    def main(
        A: T.Tensor((M, K), "float16"),
        B: T.Tensor((K, N), "float16"),
        G: T.Tensor((K, N), "float16"),
        bias: T.Tensor((N,), "float16"),
        R: T.Tensor((M, N), "float16"),
        C: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(T.ceildiv(N, BN), T.ceildiv(M, bm), threads=128) as (bx, by):
            A_s = T.alloc_shared((bm, BK), "float16")
            B_s = T.alloc_shared((BK, BN), "float16")
            C_l = T.alloc_fragment((bm, BN), "float32")
            if form == "residual":
                R_s = T.alloc_shared((bm, BN), "float16")
                T.copy(R[by * bm, bx * BN], R_s)
            if form == "bias":
                bias_s = T.alloc_shared((BN,), "float16")
                T.copy(bias[bx * BN], bias_s)
            if form == "old sums":
                T.copy(C[by * bm, bx * BN], C_l)
            else:
                T.clear(C_l)
            if form in ("gated", "two loops"):
                G_s = T.alloc_shared((BK, BN), "float16")
            if form in ("gated", "chained"):
                D_l = T.alloc_fragment((bm, BN), "float32")
                T.clear(D_l)
            if form == "scaled operand":
                A_l = T.alloc_fragment((bm, BK), "float16")
            for k in T.Pipelined(T.ceildiv(K, BK), num_stages=3):
                T.copy(A[by * bm, k * BK], A_s)
                T.copy(B[k * BK, bx * BN], B_s)
                if form == "scaled operand":
                    T.copy(A_s, A_l)
                    for i, j in T.Parallel(bm, BK):
                        A_l[i, j] = A_l[i, j] * 2.0
                    T.gemm(A_l, B_s, C_l)
                elif form == "cleared":
                    T.gemm(A_s, B_s, C_l, clear_accum=(k % 2 == 0))
                elif form == "halves":
                    T.gemm(A_s[:, 0:16], B_s[0:16, :], C_l)
                    T.gemm(A_s[:, 16:32], B_s[16:32, :], C_l)
                else:
                    T.gemm(A_s, B_s, C_l)
                if form == "gated":
                    T.copy(G[k * BK, bx * BN], G_s)
                    T.gemm(A_s, G_s, D_l)
            if form == "two loops":
                for i, j in T.Parallel(bm, BN):
                    C_l[i, j] = T.max(C_l[i, j], 0.0)
                A2_s = T.alloc_shared((bm, BK), "float16")
                for k in T.Pipelined(T.ceildiv(K, BK), num_stages=2):
                    T.copy(A[by * bm, k * BK], A2_s)
                    T.copy(G[k * BK, bx * BN], G_s)
                    T.gemm(A2_s, G_s, C_l)
            for i, j in T.Parallel(bm, BN):
                if form == "bias":
                    C_l[i, j] = T.max(C_l[i, j] + bias_s[j], 0.0)
                elif form == "residual":
                    C_l[i, j] = C_l[i, j] + R_s[i, j]
                elif form == "gated":
                    C_l[i, j] = C_l[i, j] * T.max(D_l[i, j], 0.0)
            if form == "added":
                T.atomic_add(C[by * bm, bx * BN], C_l)
            elif form == "in slices":
                for part in T.serial(2):
                    T.copy(C_l[:, part * 16 : part * 16 + 16], C[by * bm, bx * BN + part * 16])
            elif form == "mixed":  # by no digits of the indices, so that threads cannot hold the sums
                for i, j in T.Parallel(bm, BN):
                    C[by * bm + i, bx * BN + j] = C_l[(i * 5 + 3) % bm, j]
            else:
                T.copy(C_l, C[by * bm, bx * BN])

    return main


FORMS = (
    "bias", "residual", "gated", "old sums", "scaled operand", "cleared", "halves", "two loops", "added",
    "in slices",
)  # fmt: skip


@pytest.mark.slow(every=12)
@pytest.mark.parametrize("form", FORMS)
def test_what_stands_around_a_product(form):
    arguments = [draw((M, K)), draw((K, N), seed=1), draw((K, N), seed=2), draw((N,), seed=3), draw((M, N), seed=4)]
    rows = 128 if form == "gated" else BM
    timings = [(bool(FORMS.index(form) % 2), 1)]
    check(around(form, rows), *arguments, draw((M, N), "float32", 5), timings=timings, tl_persistent=True)


def test_blocks_share_sums_that_threads_cannot_hold():
    arguments = [draw((M, K)), draw((K, N), seed=1), draw((K, N), seed=2), draw((N,), seed=3), draw((M, N), seed=4)]
    made = check(around("mixed"), *arguments, draw((M, N), "float32", 5), tl_split=2)
    notes = [note.text for s in walk(made.body) if isinstance(s, Launch) for note in s.plan.notes]
    assert any(note.startswith("'C_l_own' is kept in shared memory") for note in notes)
    assert any("split-K over clusters of 2 blocks" in note for note in notes)


def in_levels(sizes, tile, form, every=2):
    """A product of float8 whose sums are added to others every few steps, since the matrix units keep fewer bits."""
    (m, n, k), (bm, bn, bk) = sizes, tile

    @T.prim_func
    def main(
        A: T.Tensor((m, k), "float8_e4m3fn"), B: T.Tensor((n, k), "float8_e4m3fn"), C: T.Tensor((m, n), "float32")
    ):
        with T.Kernel(T.ceildiv(n, bn), T.ceildiv(m, bm), threads=128) as (bx, by):
            A_s = T.alloc_shared((bm, bk), "float8_e4m3fn")
            B_s = T.alloc_shared((bn, bk), "float8_e4m3fn")
            few = T.alloc_fragment((bm, bn), "float32")
            all_ = T.alloc_fragment((bm, bn), "float32")
            T.clear(all_)
            if form == "a condition":
                for ko in T.Pipelined(T.ceildiv(k, bk), num_stages=3):
                    T.copy(A[by * bm, ko * bk], A_s)
                    T.copy(B[bx * bn, ko * bk], B_s)
                    T.gemm(A_s, B_s, few, transpose_B=True, clear_accum=(ko % every == 0))
                    if ko % every == every - 1 or ko == T.ceildiv(k, bk) - 1:
                        for i, j in T.Parallel(bm, bn):
                            all_[i, j] += few[i, j]
            else:
                for outer in T.serial(T.ceildiv(k, bk * every)):
                    T.clear(few)
                    for inner in T.Pipelined(every, num_stages=3):
                        T.copy(A[by * bm, (outer * every + inner) * bk], A_s)
                        T.copy(B[bx * bn, (outer * every + inner) * bk], B_s)
                        T.gemm(A_s, B_s, few, transpose_B=True)
                    for i, j in T.Parallel(bm, bn):
                        all_[i, j] += few[i, j]
            T.copy(all_, C[by * bm, bx * bn])

    return main


@pytest.mark.parametrize("form", ["a condition", "two loops"])
def test_sums_in_levels(form):
    sizes = (72, 32, 320)
    arguments = draw((72, 320), "float8_e4m3fn"), draw((32, 320), "float8_e4m3fn", 1), np.zeros((72, 32), np.float32)
    check(in_levels(sizes, (64, 32, 64), form), *arguments, tl_persistent=True)


# -- code ----------------------------------------------------------------------------------------------------------
LARGE = (4096, 4096, 4096)


def with_residual(columns):
    """A product to whose sums each thread adds elements that it loads itself."""

    @T.prim_func
    def main(
        A: T.Tensor((4096, 1024), "float16"),
        R: T.Tensor((4096, 4096), "float16"),
        C: T.Tensor((4096, 4096), "float16"),
    ):
        with T.Kernel(4096 // columns, 32, threads=256) as (bx, by):
            A_s = T.alloc_shared((128, 64), "float16")
            B_s = T.alloc_shared((columns, 64), "float16")
            C_l = T.alloc_fragment((128, columns), "float32")
            T.clear(C_l)
            for k in T.Pipelined(16, num_stages=4):
                T.copy(A[by * 128, k * 64], A_s)
                T.copy(A[bx * columns, k * 64], B_s)
                T.gemm(A_s, B_s, C_l, transpose_B=True)
            for i, j in T.Parallel(128, columns):
                C_l[i, j] += R[by * 128 + i, bx * columns + j]
            T.copy(C_l, C[by * 128, bx * columns])

    return main


@pytest.mark.slow(every=8)
@needs_cuda_compiler
@pytest.mark.parametrize(
    "func",
    [
        product(LARGE, (128, 256, 64), ta=True, tb=True),
        product(LARGE, (128, 224, 64), dtype="bfloat16", out="bfloat16"),
        product((3001, 3001, 3001), (192, 128, 64), pitch=3008),
        product(LARGE, (128, 256, 128), dtype="float8_e4m3fn", tb=True),
        product(LARGE, (128, 256, 32), dtype="tfloat32", out="float32", tb=True),
        product([T.dynamic(name) for name in "MNK"], (128, 256, 64)),
        product((960, 4096, 4096), (96, 256, 64)),
        in_levels(LARGE, (128, 128, 128), "a condition", 4),
        around("gated", 128),
        with_residual(128),
        with_residual(256),
    ],
    ids=["TT", "bfloat16", "padded", "float8", "tfloat32", "sizes", "rows", "levels", "gated", "loads", "wide loads"],
)
def test_code_has_no_spills_and_no_waits_between_products(func):
    made = build(emit(lowered(func) if not func.symbols else aligned(func)), TARGET.arch, "nvrtc")
    (used,) = made.resources.values()
    assert (0, False, ()) == (used.spill_bytes, used.serialized, made.warnings)


def aligned(func):
    """The program for calls whose sizes divide evenly."""
    return lowered(specialize(func, Specialization(tuple((symbol.name, 128) for symbol in func.symbols))))
