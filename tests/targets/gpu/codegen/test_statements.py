"""Statements that all languages of GPUs print alike, in each of them."""

import pytest
from thread_kernels import buffer, index, kernel

from tilelang.dtypes import FLOAT32, as_dtype
from tilelang.errors import CompilerBug
from tilelang.ir.buffer import Scope
from tilelang.ir.expr import Load, as_expr, cast
from tilelang.ir.launch import LaunchPlan
from tilelang.ir.stmt import Alloc, CallStmt, For, ForKind, Seq, Store
from tilelang.targets.amd.codegen import hip
from tilelang.targets.gpu.isa.sync import SYNC_THREADS
from tilelang.targets.nvidia.codegen import cuda

ZERO = as_expr(0)
in_each_language = pytest.mark.parametrize("emit", [cuda.emit, hip.emit], ids=["cuda", "hip"])


def text_of(emit, params, body, **more):
    text = emit(kernel("test", params, body, **more)).text
    return text[text.index('extern "C"') :]


@in_each_language
def test_shared_buffers_stand_at_the_places_of_the_plan(emit):
    a = buffer("A", (4,), "float32")
    first, second = buffer("X", (64,), "float32", Scope.SHARED), buffer("Y", (64,), "float32", Scope.SHARED)
    body = [Alloc(first), Alloc(second), Store(a, (ZERO,), Load(second, (ZERO,), a.dtype))]
    text = text_of(emit, [a], body, plan=LaunchPlan(shared_offsets=((first, 0), (second, 256)), shared_bytes=512))
    assert "float* const X = (float*)tl_shared;" in text
    assert "float* const Y = (float*)(tl_shared + 256);" in text


@in_each_language
def test_a_shared_buffer_without_a_place_is_a_bug(emit):
    with pytest.raises(CompilerBug, match="'X' has no offset in shared memory"):
        text_of(emit, [], [Alloc(buffer("X", (64,), "float16", Scope.SHARED))])


@in_each_language
def test_arrays_of_a_thread_are_aligned_for_short_vectors(emit):
    a, local = buffer("A", (8,), "float32"), buffer("x", (2, 4), "float32", Scope.LOCAL)
    body = [Alloc(local), Store(a, (as_expr(4),), Load(local, (as_expr(1), ZERO), as_dtype("float32x4")))]
    text = text_of(emit, [a], body)
    assert "alignas(16) float x[8];" in text
    assert "*)&A[4] = *(const uint" in text


@in_each_language
def test_loops_that_synchronize_threads_stay_loops(emit):
    a, i = buffer("A", (64,), "float32"), index("i")
    store = Store(a, (i,), cast(0.0, FLOAT32))

    def lines(kind, body, trips=64):
        return text_of(emit, [a], [For(i, ZERO, as_expr(trips), 1, kind, body)]).splitlines()

    barrier = Seq((CallStmt(SYNC_THREADS, ()), store))
    assert "#pragma unroll 1" in lines(ForKind.SERIAL, barrier)
    assert "#pragma unroll" in lines(ForKind.UNROLLED, store)
    assert not any("#pragma" in line for line in lines(ForKind.SERIAL, store))
    few = 3 if emit is cuda.emit else 1
    assert not any("#pragma" in line for line in lines(ForKind.SERIAL, barrier, few))
    assert "#pragma unroll 1" in lines(ForKind.SERIAL, barrier, few + 2)
