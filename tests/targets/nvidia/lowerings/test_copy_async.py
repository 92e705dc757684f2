"""Asynchronous copies write every element once, in the largest chunks that are proven to be aligned."""

import numpy as np
import pytest
from answers import accepted, constraints, reason
from gpu import assert_simulates, lower_func, outcomes
from hypothesis import given
from hypothesis import strategies as st
from thread_kernels import buffer, index

import tilelang.language as T
from tilelang.dtypes import INT32
from tilelang.ir.buffer import Region, Scope
from tilelang.ir.builder import Builder
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import as_expr, const
from tilelang.ir.stmt import CallStmt, For, If, Seq, Store
from tilelang.ir.visit import walk
from tilelang.layout.layout import Layout
from tilelang.layout.shared_memory import contiguous_elements, padded
from tilelang.layout.thread_values import digit, fragment
from tilelang.lowering.chunks import chunk_elements
from tilelang.lowering.lowering import LoweringContext
from tilelang.lowering.regions import whole
from tilelang.ops.copy import Copy
from tilelang.options import CompileOptions
from tilelang.targets.nvidia.isa.cp_async import SIZES
from tilelang.targets.nvidia.lowerings.copy_async import AsyncCopy
from tilelang.targets.target import Target

BX, K, M, N8 = index("bx"), index("k"), index("M"), index("N_div8") * 8
THREAD = index("t")


def region(source, start, extent):
    return Region(source, tuple(map(as_expr, start)), tuple(map(as_expr, extent)))


def context(arch="sm_80", threads=128, **more):
    return LoweringContext(Target("cuda", arch), CompileOptions(), threads, **more)


def tile(shape, dtype="float16"):
    return buffer("S", shape, dtype, Scope.SHARED)


def copy(shape=(64, 32), dtype="float16", source=(1024, 1024), start=None, **more):
    start = (BX * shape[0], K * shape[1]) if start is None else start
    a = buffer("A", source, dtype)
    return Copy(region(a, start, shape), whole(tile(shape, dtype)), **more)


# -- what is refused -------------------------------------------------------------------------------------------


def test_what_it_cannot_do_is_refused_in_words():
    plain, lowering = copy(), AsyncCopy()
    assert "" == reason(lowering, plain, context())
    assert "sm_75 has no cp.async" == reason(lowering, plain, context("sm_75"))
    back = Copy(plain.dst, plain.src)
    assert "copies from global to shared memory only" == reason(lowering, back, context())
    wide = Copy(plain.src, whole(tile((64, 32), "float32")))
    assert "does not convert float16 to float32" == reason(lowering, wide, context())
    mine = copy(layout=fragment((64, 32), [digit(128, 0, 1)], [digit(16, 1, 0)]))
    assert "the user fixes which thread copies what" == reason(lowering, mine, context())
    symbolic = Copy(region(buffer("A", (M, 32), "float16"), (0, 0), (M, 32)), plain.dst)
    assert "the extents are not constant" == reason(lowering, symbolic, context())
    assert "there is nothing to copy" == reason(lowering, copy((0, 32)), context())
    torn = "chunks of 4 bytes or more are not proven to be aligned and in one row"
    assert torn == reason(lowering, copy(start=(0, K)), context())
    assert () == constraints(lowering, plain, context())


@pytest.mark.parametrize(
    "op,elements",
    [
        (copy(), 8),
        (copy(dtype="float32"), 4),
        (copy(dtype="int8"), 16),
        (copy(dtype="float64"), 2),
        (copy((64, 12)), 4),  # rows of 24 bytes
        (copy((64, 6)), 2),
        (copy((64, 3)), 0),
        (copy((64, 3), "float32"), 1),
        (copy(start=(BX, K * 8 + 4)), 4),
        (copy(start=(BX, K * 8 + 1)), 0),
        (copy(source=(M, N8)), 8),
        (copy(source=(M, M)), 0),  # rows begin anywhere
        (copy(source=(M, 1030)), 2),
        (copy(dtype="float32", source=(M, M)), 1),
        (copy(coalesced_width=4), 4),
        (copy(coalesced_width=16), 0),
        (Copy(region(buffer("A", (8, 1024), "float16"), (BX, K * 32), (1, 32)), whole(tile((32,)))), 8),
        (Copy(region(buffer("A", (1024, 8), "float16"), (K * 32, 0), (32, 1)), whole(tile((32,)))), 0),  # a column
        (Copy(whole(buffer("A", (32,), "float16", alignment_bytes=2)), whole(tile((32,)))), 0),
        (Copy(whole(buffer("A", (64, 32), "float16", strides=(const(40, INT32), const(1, INT32)))),
              whole(tile((64, 32)))), 8),
        (Copy(whole(buffer("A", (64, 32), "float16", strides=(const(1, INT32), const(64, INT32)))),
              whole(tile((64, 32)))), 0),
    ],
)  # fmt: skip
def test_chunks_are_as_large_as_is_proven(op, elements):
    assert elements == chunk_elements(op, SIZES)
    assert bool(elements) is not reason(AsyncCopy(), op, context()).startswith("chunks")


# -- what threads do -------------------------------------------------------------------------------------------


def emitted(op, threads, **more):
    build = Builder()
    at = context(threads=threads, thread=THREAD, **more)
    AsyncCopy().lower(op, accepted(AsyncCopy(), op, at), at, build)
    return build.finish()


def touched(stmt, env, out):
    """(element of the destination, element of the source, elements) of everything that one thread copies."""
    match stmt:
        case Seq():
            for child in stmt.body:
                touched(child, env, out)
        case For():
            for value in range(stmt.start.value, stmt.stop.value):
                touched(stmt.body, {**env, stmt.var: value}, out)
        case If():
            if evaluate(stmt.condition, env):
                touched(stmt.then_body, env, out)
        case CallStmt():
            dst, src, _ = stmt.args
            count = dst.static_extent[-1]
            out.append(([int(evaluate(e, env)) for e in dst.start], [int(evaluate(e, env)) for e in src.start], count))
        case Store():
            source = stmt.value.indices
            out.append(([int(evaluate(e, env)) for e in stmt.indices], [int(evaluate(e, env)) for e in source], 1))
    return out


@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=3),
    st.sampled_from([1, 2, 4, 5, 8]),
    st.sampled_from([1, 3, 8, 32, 96]),
    st.sampled_from([None, "swizzled", "padded", "torn"]),
)
def test_every_element_is_copied_by_exactly_one_thread(leading, chunks, threads, how):
    shape = (*leading, chunks * 8)
    op = copy(shape, source=tuple(4 * e for e in shape), start=(8,) * len(shape))
    layouts = {}
    if how is not None and len(shape) > 1:
        last = shape[-2:]
        layout = {
            "swizzled": Layout(last, lambda i, j: i * last[1] * 8 + j // 8 * 64 + (i % 8) * 8 + j % 8),
            "padded": padded(last, 4),
            "torn": padded(last, 1),
        }[how]
        layouts = {op.dst.buffer: layout}
    body = emitted(op, threads, shared_layouts=layouts)
    seen = np.zeros(shape, int)
    for thread in range(threads):
        for dst, src, count in touched(body, {THREAD: thread}, []):
            assert [8 + d for d in dst] == src
            assert 0 == dst[-1] % count
            seen[(*dst[:-1], slice(dst[-1], dst[-1] + count))] += 1
    assert (seen == 1).all()
    widest = min([8, *map(contiguous_elements, layouts.values())])
    sizes = {s.routine.name for s in walk(body) if isinstance(s, CallStmt)}
    assert sizes == ({f"cp_async_{2 * widest}"} if widest > 1 else set())


def test_neighboring_threads_copy_neighboring_chunks_and_rounds_differ_by_a_constant():
    body = emitted(copy((64, 32), start=(0, 0)), 128)
    assert isinstance(body, For)
    firsts = [touched(body, {THREAD: t}, []) for t in range(128)]
    assert [[0, 0], [0, 8], [0, 16], [0, 24], [1, 0]] == [f[0][0] for f in firsts[:5]]
    assert all([f[0][0][0] + 32, f[0][0][1]] == f[1][0] for f in firsts)


# -- on the simulator ------------------------------------------------------------------------------------------


def doubled(rows, columns, tile_rows, tile_columns, threads, dtype="float16", layout=None):
    @T.prim_func
    def main(A: T.Tensor((rows, columns), dtype), B: T.Tensor((rows, columns), dtype)):
        with T.Kernel(T.ceildiv(columns, tile_columns), T.ceildiv(rows, tile_rows), threads=threads) as (bx, by):
            S = T.alloc_shared((tile_rows, tile_columns), dtype)
            if layout is not None:
                T.annotate_layout({S: layout})
            T.copy(A[by * tile_rows, bx * tile_columns], S)
            for i, j in T.Parallel(tile_rows, tile_columns):
                B[by * tile_rows + i, bx * tile_columns + j] = S[i, j] * 2

    return main


@pytest.mark.slow(every=8)
@pytest.mark.parametrize(
    "case,size",
    [
        ((64, 64, 32, 32, 64), 16),
        ((60, 56, 32, 32, 64), 16),  # the last tiles reach beyond the tensor
        ((30, 36, 16, 32, 32), 8),
        ((30, 38, 16, 32, 96), 4),
        ((30, 37, 16, 32, 32), 0),
        ((48, 64, 24, 32, 128), 16),  # some threads have nothing to do
        ((40, 24, 5, 8, 32), 16),
        ((40, 24, 8, 24, 32, "float32"), 16),
        ((40, 23, 8, 8, 32, "float32"), 4),
        ((64, 64, 32, 32, 64, "float16", padded((32, 32), 8)), 16),
        ((64, 64, 32, 32, 64, "float16", padded((32, 32), 1)), 0),
    ],
)
def test_tiles_arrive_whole_on_the_simulator(case, size):
    func = doubled(*case)
    rows, columns, dtype = case[0], case[1], case[5] if len(case) > 5 else "float16"
    a = (np.arange(rows * columns).reshape(rows, columns) % 1000).astype(dtype)
    assert_simulates(func, a, np.zeros_like(a), seeds=(0, 1))
    names = {s.routine.name.removesuffix("_if") for s in walk(lower_func(func).body) if isinstance(s, CallStmt)}
    assert ({f"cp_async_{size}"} if size else set()) == {n for n in names if n.startswith("cp_async_") and n[-1].isdigit()}


@pytest.mark.slow(every=8)
@pytest.mark.parametrize("stages,trips", [(2, 0), (2, 1), (3, 2), (3, 5), (4, 3), (4, 7)])
def test_pipelined_products_are_those_of_the_reference(stages, trips):
    depth = T.dynamic("K")

    @T.prim_func
    def main(A: T.Tensor((16, depth), "float32"), B: T.Tensor((depth, 16), "float32"), C: T.Tensor((16, 16), "float32")):
        with T.Kernel(1, threads=64):
            A_s = T.alloc_shared((16, 8), "float32")
            B_s = T.alloc_shared((8, 16), "float32")
            total = T.alloc_fragment((16, 16), "float32")
            T.clear(total)
            for k in T.Pipelined(depth // 8, num_stages=stages):
                T.copy(A[0, k * 8], A_s)
                T.copy(B[k * 8, 0], B_s)
                T.gemm(A_s, B_s, total)
            T.copy(total, C)

    rng = np.random.default_rng(trips)
    a, b = rng.integers(-4, 4, (16, trips * 8)), rng.integers(-4, 4, (trips * 8, 16))
    assert_simulates(main, a.astype(np.float32), b.astype(np.float32), np.zeros((16, 16), np.float32))


def test_hints_for_the_cache_are_not_taken():
    made = emitted(copy(eviction="evict_first"), 128)
    names = {stmt.routine.name for stmt in walk(made) if isinstance(stmt, CallStmt)}
    assert {"cp_async_16"} == names


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("atomic", [False, True])
def test_what_copies_read_is_written_when_those_of_all_threads_are_complete(atomic, arch):
    """A barrier of the statements between the two does not suffice, since the copies are under way there."""

    @T.prim_func
    def main(A: T.Tensor((256,), "int32"), B: T.Tensor((256,), "int32"), C: T.Tensor((256,), "int32")):
        with T.Kernel(1, threads=128):
            x = T.alloc_shared((256,), "int32")
            y = T.alloc_shared((256,), "int32")
            T.copy(A, x)
            for i in T.Parallel(256):
                y[i] = B[i] + 1
            for i in T.Parallel(256):
                B[i] = y[255 - i]
            for i in T.Parallel(256):
                if atomic:
                    T.atomic_add(A[255 - i], i)
                else:
                    A[255 - i] = i
            T.copy(x, C)

    a, b = np.arange(256, dtype=np.int32) * 3, np.arange(256, dtype=np.int32)
    expected = [a + b[::-1] if atomic else b[::-1], b[::-1] + 1, a]
    for actual in outcomes(main, a, b, np.zeros_like(a), arch=arch):
        np.testing.assert_array_equal(expected, actual)


@pytest.mark.parametrize(("safe", "asynchronous"), [(None, True), (0, True), (7, False)])
def test_other_values_than_0_out_of_bounds_go_through_registers(safe, asynchronous):
    @T.prim_func
    def main(A: T.Tensor((16, 64), "float16"), C: T.Tensor((32, 64), "float16")):
        with T.Kernel(1, threads=64):
            if safe is not None:
                T.annotate_safe_value({A: safe})
            tile = T.alloc_shared((8, 64), "float16")
            for k in T.Pipelined(4, num_stages=3):
                T.copy(A[k * 8, 0], tile)
                for i, j in T.Parallel(8, 64):
                    C[k * 8 + i, j] = tile[7 - i, j]

    calls = [s.routine.name for s in walk(lower_func(main).body) if isinstance(s, CallStmt)]
    assert asynchronous == ("cp_async_16" in calls)
    a = np.random.default_rng(0).integers(-9, 10, (16, 64)).astype(np.float16)
    assert_simulates(main, a, np.zeros((32, 64), np.float16))
