"""Statements that CUDA has its own way of: memory, atomics, loops, assertions."""

import numpy as np
import pytest
from cuda_host import needs_compiler, run_source, sequential_source
from thread_kernels import buffer, index, kernel

import tilelang.language as T
from tilelang.dtypes import FLOAT32, INT32, as_dtype
from tilelang.errors import CompilerBug
from tilelang.ir.buffer import Region, Scope
from tilelang.ir.expr import Load, Var, as_expr, cast, const
from tilelang.ir.launch import LaunchPlan
from tilelang.ir.stmt import Alloc, Atomic, AtomicOp, Bind, CallStmt, For, ForKind, MemoryOrder, Seq, Store
from tilelang.isa.instruction import Effect, Instruction
from tilelang.targets.gpu.isa.sync import SYNC_THREADS
from tilelang.targets.gpu.isa.warp import shuffle
from tilelang.targets.nvidia.codegen.cuda import emit

ZERO = as_expr(0)


def text_of(params, body, **more):
    text = emit(kernel("test", params, body, **more)).text
    return text[text.index('extern "C"') :]


def test_shared_buffers_stand_at_the_places_of_the_plan():
    a = buffer("A", (4,), "float16")
    first, second = buffer("X", (64,), "float16", Scope.SHARED), buffer("Y", (64,), "float32", Scope.SHARED)
    view = buffer("Z", (64,), "uint32", Scope.SHARED, view_of=second)
    body = [Alloc(first), Alloc(second), Alloc(view), Store(a, (ZERO,), Load(first, (ZERO,), a.dtype))]
    text = text_of([a], body, plan=LaunchPlan(shared_offsets=((first, 0), (second, 128)), shared_bytes=384))
    assert "extern __shared__ __align__(1024) unsigned char tl_shared[];" in text
    assert "half_t* const X = (half_t*)tl_shared;" in text
    assert "float* const Y = (float*)(tl_shared + 128);" in text
    assert "uint32_t* const Z = (uint32_t*)Y;" in text


def test_a_shared_buffer_without_a_place_is_a_bug():
    shared = buffer("X", (64,), "float16", Scope.SHARED)
    with pytest.raises(CompilerBug, match="'X' has no offset in shared memory"):
        text_of([], [Alloc(shared)])


def test_a_fragment_is_a_bug():
    with pytest.raises(CompilerBug, match=r"'F' of scope local\.fragment in the program of a thread"):
        text_of([], [Alloc(buffer("F", (64,), "float16", Scope.FRAGMENT))])


def test_arrays_of_a_thread_are_aligned_for_short_vectors():
    a, local = buffer("A", (8,), "float32"), buffer("x", (2, 4), "float32", Scope.LOCAL)
    quad = as_dtype("float32x4")
    text = text_of([a], [Alloc(local), Store(a, (as_expr(4),), Load(local, (as_expr(1), ZERO), quad))])
    assert "alignas(16) float x[8];" in text
    assert "*(uint4*)&A[4] = *(const uint4*)&x[1 * 4];" in text


def test_views_of_constant_parameters_are_constant():
    a, b = buffer("A", (8,), "float32"), buffer("B", (8,), "uint32")
    view = buffer("bits", (8,), "uint32", view_of=a)
    text = text_of([a, b], [Alloc(view), Store(b, (ZERO,), Load(view, (ZERO,), b.dtype))])
    assert "const uint32_t* const bits = (const uint32_t*)A;" in text


def test_loops_are_unrolled_as_they_are_meant():
    a, i = buffer("A", (64,), "float32"), index("i")
    store = Store(a, (i,), cast(0.0, FLOAT32))
    barrier = Seq((CallStmt(SYNC_THREADS, ()), store))

    def pragma(kind, body, trips=64, factor=None):
        loop = For(i, ZERO, as_expr(trips), 1, kind, body, unroll_factor=factor)
        lines = text_of([a], [loop]).splitlines()
        return next(before for before, line in zip(lines, lines[1:], strict=False) if "for (int i" in line).strip()

    assert "#pragma unroll" == pragma(ForKind.UNROLLED, store)
    assert "#pragma unroll 4" == pragma(ForKind.UNROLLED, store, factor=4)
    assert "#pragma unroll" == pragma(ForKind.VECTORIZED, store)
    assert "#pragma unroll 1" == pragma(ForKind.SERIAL, barrier)
    assert not pragma(ForKind.SERIAL, barrier, trips=3).startswith("#")
    assert not pragma(ForKind.SERIAL, store).startswith("#")


def test_results_of_instructions_have_names():
    a, got = buffer("A", (4,), "float32"), Var("got", FLOAT32)
    value = Load(a, (ZERO,), FLOAT32)
    call = CallStmt(shuffle("xor", FLOAT32), (const(-1, INT32), value, as_expr(16), as_expr(32)), result=got)
    text = text_of([a], [call, Store(a, (ZERO,), got + value)])
    assert "    const float got = " in text
    assert "A[0] = got + A[0];" in text


def test_a_region_is_the_address_of_its_first_element():
    a, i = buffer("A", (4, 8), "float16"), index("i")
    touch = Instruction("touch", {"cuda": "touch({0}, {1}, {2})"}, {}, lambda *_: None)
    one = as_expr(1)
    regions = [Region(a, start, (one, one)) for start in ((i, as_expr(2)), (ZERO, ZERO))]
    call = CallStmt(touch, (*regions, i * 2), writes=tuple(regions))
    text = text_of([a], [For(i, ZERO, as_expr(4), 1, ForKind.SERIAL, call)])
    assert "touch(&A[i * 8 + 2], A, i * 2);" in text


def test_a_routine_without_a_text_is_a_bug():
    nothing = Instruction("nothing", {}, {}, lambda *_: None)
    with pytest.raises(CompilerBug, match="routine nothing has no cuda text"):
        text_of([], [CallStmt(nothing, ())])


def test_atomics_are_as_strong_as_was_asked_for():
    a, before = buffer("A", (4,), "int32"), Var("before", INT32)
    shared = buffer("X", (4,), "int32", Scope.SHARED)
    plan = LaunchPlan(shared_offsets=((shared, 0),), shared_bytes=16)
    one, order = const(1, INT32), MemoryOrder

    def line(op, order=MemoryOrder.RELAXED, target=a, value=one, result=None):
        atomic = Atomic(op, target, (ZERO,), value, result, order)
        lines = text_of([a], [Alloc(shared), atomic], plan=plan).splitlines()
        return lines[-2].strip()

    assert "atomicAdd(A, 1);" == line(AtomicOp.ADD)
    assert "const int32_t before = atomicAdd(A, 1);" == line(AtomicOp.ADD, result=before)
    assert "tl_atomic_add_int32_release(A, 1);" == line(AtomicOp.ADD, order.RELEASE)
    assert "tl_atomic_add_int32_acq_rel(A, 1);" == line(AtomicOp.ADD, order.ACQ_REL)
    assert "tl_atomic_load_4_acquire(A)" in line(AtomicOp.LOAD, order.ACQUIRE, value=None, result=before)
    assert "tl_atomic_store_4_seq_cst(A" in line(AtomicOp.STORE, order.SEQ_CST)
    # only the block sees its shared memory
    assert "atomicAdd(X, 1);" == line(AtomicOp.ADD, target=shared)
    assert "tl_atomic_add_int32_release_block(X, 1);" == line(AtomicOp.ADD, order.RELEASE, target=shared)


@needs_compiler
def test_a_failed_assertion_is_reported_by_its_number():
    @T.prim_func
    def main(A: T.Tensor((8,), "int32")):
        with T.Kernel(8) as bx:
            T.device_assert(A[bx] >= 0, "no negative numbers")
            T.device_assert(A[bx] < 100, "no large numbers")
            A[bx] = A[bx] + 1

    source = sequential_source(main)
    assert ["no negative numbers", "no large numbers"] == [message for message, *_ in source.asserts]
    assert "failure" == source.launches[0].arguments[-1].kind
    assert "tl_fail(tl_failed, 1);" in source.text
    assert "tl_fail(tl_failed, 2);" in source.text
    assert 0 == run_source(main, source, [np.arange(8, dtype=np.int32)])


@pytest.mark.parametrize(
    ("at", "text"),
    [
        (lambda k, i: (k + i * 2, i), "&A[k * 64] + i * 129"),
        (lambda k, i: (i, k), "&A[k] + i * 64"),
        (lambda k, i: (as_expr(0), i), "A + i"),
        (lambda k, i: (k, i // 2), "&A[k * 64 + (i >> 1)]"),
        (lambda k, i: (k, as_expr(3)), "&A[k * 64 + 3]"),
    ],
)
def test_what_unrolled_loops_change_is_added_to_addresses_last(at, text):
    touch = Instruction("touch", {"cuda": "touch({0})"}, {"cuda": None}, lambda *_: None)
    a, k, i = buffer("A", (64, 64), "float32"), index("k"), index("i")
    place = Region(a, at(k, i), (as_expr(1), as_expr(1)))
    inner = For(i, ZERO, as_expr(4), 1, ForKind.UNROLLED, CallStmt(touch, (place,), (place,)))
    assert f"touch({text});" in text_of([a], [For(k, ZERO, as_expr(8), 1, ForKind.SERIAL, inner)])


@pytest.mark.parametrize(
    ("at", "text"),
    [
        (lambda n, k, i: n + k * 8 + i * 2, "(&A[(int64_t)n + k * 8])[i * 2]"),
        (lambda n, k, i: n + i * k, "A[(int64_t)n + i * k]"),
        (lambda n, k, i: k * 8 + i, "A[k * 8 + i]"),  # whose width is known not to be exceeded
    ],
)
def test_what_unrolled_loops_change_stands_apart_where_data_makes_a_place_wide(at, text):
    a, k, i, n = buffer("A", (4096,), "float32"), index("k"), index("i"), Var("n", INT32)
    store = Store(a, (at(n, k, i),), const(0.0, FLOAT32))
    inner = For(i, ZERO, as_expr(4), 1, ForKind.UNROLLED, store)
    first = Bind(n, cast(Load(a, (ZERO,), FLOAT32), INT32))
    lines = text_of([a], [first, For(k, ZERO, as_expr(8), 1, ForKind.SERIAL, inner)])
    assert f"{text} = 0.0f;" in lines


def test_pipelined_loops_keep_pointers():
    copy = Instruction("move", {"cuda": "move({0})"}, {"cuda": None}, lambda *_: None, effect=Effect.COMMIT)
    rows = index("N")
    a, k, i = buffer("A", (64, rows), "float32"), index("k"), index("i")
    place = Region(a, (k * 8 + i * 2, k * 4), (as_expr(1), as_expr(1)))
    inner = For(i, ZERO, as_expr(4), 1, ForKind.UNROLLED, CallStmt(copy, (place,), (place,)))
    text = text_of([a], [For(k, as_expr(1), as_expr(8), 1, ForKind.SERIAL, inner)], symbols=[rows])
    assert "A_at = &A[8 * N + 4];" in text
    assert "++k, A_at += (8 * N + 4))" in text
    assert "move(A_at + i * (2 * N));" in text


def test_unrolled_loops_share_an_address():
    a, i, j, row = buffer("A", (64, 64), "float32"), index("i"), index("j"), index("row")
    store = Store(a, (row * 2 + i * 8, j * 4 + 1), const(0.0, FLOAT32))
    nest = For(i, ZERO, as_expr(8), 1, ForKind.UNROLLED, For(j, ZERO, as_expr(4), 1, ForKind.UNROLLED, store))
    text = text_of([a], [For(row, ZERO, as_expr(8), 1, ForKind.SERIAL, nest)])
    assert "float* const A_at = &A[row * 2 * 64 + 1];" in text
    assert "A_at[i * 512 + j * 4] = 0.0f;" in text
