"""Layouts that the user asks for, of loops, fragments and shared memory."""

import numpy as np
import pytest
from distributed_tiles import distribute, fragments, launches, nests

import tilelang
import tilelang.language as T
from tilelang.errors import ProgramError, ProgramWarning
from tilelang.layout.thread_values import Fragment, digit


def vector_of(layout: Fragment | None) -> int:
    assert layout is not None
    first = layout.value[0]
    return first.size if first.stride[-1] == 1 else 1


def test_the_user_decides_about_loops():
    layout = T.Fragment((64, 8), lambda i, j: (i, j))

    @T.prim_func
    def f(A: T.Tensor((64, 8), T.float32), B: T.Tensor((64, 8), T.float32), C: T.Tensor((512,), T.float32)):
        with T.Kernel(1, threads=64) as _:
            x = T.alloc_fragment((64, 8), T.float32)
            for i, j in T.Parallel(64, 8, loop_layout=layout):
                x[i, j] = A[i, j]
            T.copy(x, B)
            for i in T.Parallel(512, coalesced_width=2):
                C[i] = C[i] + 1

    result = distribute(f)
    first, _, last = nests(result)
    assert layout.thread_values.same_owners(fragments(result)["x"])
    assert first.layout is not None
    assert layout.thread_values.same_owners(first.layout)
    assert 2 == vector_of(last.layout)


def test_wishes_that_cannot_be_met():
    many = T.Fragment((64,), lambda i, copy: (i + 64 * copy, 0), replicate=2)

    @T.prim_func
    def loop(A: T.Tensor((64,), T.float32)):
        with T.Kernel(1, threads=64) as _:
            for i in T.Parallel(64, loop_layout=many):
                A[i] = 0

    @T.prim_func
    def tile(A: T.Tensor((64,), T.float32)):
        with T.Kernel(1, threads=64) as _:
            x = T.alloc_fragment((64,), T.float32)
            T.annotate_layout({x: many})
            T.copy(A, x)

    @T.prim_func
    def memory(A: T.Tensor((64,), T.float32)):
        with T.Kernel(1, threads=64) as _:
            x = T.alloc_fragment((64,), T.float32)
            T.annotate_layout({x: lambda i: 63 - i})
            T.copy(A, x)

    for func, message in (
        (loop, "T.Parallel: the layout of the loop is for 128 threads, but the kernel has 64"),
        (tile, "T.annotate_layout: the layout of 'x' is for 128 threads, but the kernel has 64"),
        (memory, "T.annotate_layout: 'x' is a fragment, but its layout is one of memory"),
    ):
        with pytest.raises(ProgramError, match=message) as caught:
            distribute(func)
        assert caught.value.loc is not None


def test_layouts_for_some_of_the_threads_are_obeyed_by_these():
    half = T.Fragment((64,), lambda i: (i // 2, i % 2))

    @T.prim_func
    def f(A: T.Tensor((64, 8), "float32"), B: T.Tensor((64, 8), "float32"), C: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=128):
            x = T.alloc_fragment((64, 8), "float32")
            r = T.alloc_fragment((64,), "float32")
            s = T.alloc_shared((64, 8), "float32")
            T.annotate_layout({x: T.Fragment((64, 8), lambda i, j: (i, j)), r: half})
            T.copy(A, x)
            T.reduce_sum(x, r, dim=1)
            for i, j in T.Parallel(64, 8, loop_layout=T.Fragment((64, 8), lambda i, j: (i // 2, i % 2 * 8 + j))):
                s[i, j] = x[i, j] + r[i]
            T.copy(s, B)
            T.copy(r, C)
            for i in T.Parallel(64, loop_layout=half):
                T.atomic_add(C[i], 1.0)  # by one of those that would hold the same

    held = fragments(distribute(f))
    assert (128, 2) == (held["x"].threads, held["x"].replication)
    assert (128, 4) == (held["r"].threads, held["r"].replication)
    a = np.arange(512, dtype=np.float32).reshape(64, 8)
    b, c = np.zeros_like(a), np.zeros(64, np.float32)
    tilelang.compile(f, execution_backend="simulator", target={"kind": "cuda", "arch": "sm_80"})(a, b, c)
    np.testing.assert_array_equal(a + a.sum(axis=1, keepdims=True), b)
    np.testing.assert_array_equal(a.sum(axis=1) + 1, c)


def test_threads_of_a_layout_count_from_the_first():
    @T.prim_func
    def f(A: T.Tensor((64, 4), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=128):
            x = T.alloc_fragment((64, 4), "float32")
            r = T.alloc_fragment((64,), "float32")
            T.annotate_layout({x: T.Fragment((64, 4), lambda i, j: (32 + i, j))})
            T.copy(A, x)
            T.reduce_sum(x, r, dim=1)
            T.copy(r, B)

    assert (128, 2) == (fragments(distribute(f))["x"].threads, fragments(distribute(f))["x"].replication)
    a, b = np.arange(256, dtype=np.float32).reshape(64, 4), np.zeros(64, np.float32)
    tilelang.compile(f, execution_backend="simulator", target={"kind": "cuda", "arch": "sm_80"})(a, b)
    np.testing.assert_array_equal(a.sum(axis=1), b)


@pytest.mark.parametrize("interleaved", [False, True])
def test_threads_that_do_not_divide_the_kernels_hold_layouts(interleaved):
    """The other threads hold nothing; where they would hold what is the others', the compiler chooses the layout."""
    row = (lambda i, j: (j % 48, i * 8 + j // 48)) if interleaved else (lambda i, j: (j // 8, i * 8 + j % 8))

    @T.prim_func
    def f(A: T.Tensor((2, 384), "float32"), B: T.Tensor((2, 384), "float32"), C: T.Tensor((2,), "float32")):
        with T.Kernel(1, threads=128):
            x = T.alloc_fragment((2, 384), "float32")
            r = T.alloc_fragment((2,), "float32")
            T.annotate_layout(
                {x: T.Fragment((2, 384), row), r: T.Fragment((2,), lambda i, copy: (copy, i), replicate=48)}
            )
            T.copy(A, x)
            T.reduce_sum(x, r, dim=1)
            for i, j in T.Parallel(2, 384):
                B[i, j] = x[i, j] + r[i]
            T.copy(r, C)

    def compiled():
        held = fragments(distribute(f))
        assert (128, 128) == (held["r"].threads, held["r"].replication)
        return held, tilelang.compile(f, execution_backend="simulator", target={"kind": "cuda", "arch": "sm_80"})

    if interleaved:
        text = "the layout of 'x' is for 48 threads, but the kernel has 128: the compiler chooses another"
        with pytest.warns(ProgramWarning, match=text):
            _, kernel = compiled()
    else:
        held, kernel = compiled()
        assert Fragment((2, 384), (digit(128, 0, 8),), (digit(8, 0, 1), digit(2, 1, 0))).same_owners(held["x"])
    a = np.arange(768, dtype=np.float32).reshape(2, 384)
    b, c = np.zeros_like(a), np.zeros(2, np.float32)
    kernel(a, b, c)
    np.testing.assert_array_equal(a.sum(axis=1), c)
    np.testing.assert_array_equal(a + c[:, None], b)


def test_every_thread_holds_what_scalar_code_names_whatever_the_annotation():
    @T.prim_func
    def f(A: T.Tensor((2, 4), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            x = T.alloc_fragment((2, 4), "float32")
            T.annotate_layout({x: T.Fragment((2, 4), lambda i, j, copy: (i * 32 + j * 8 + copy, 0), replicate=8)})
            T.copy(A, x)
            B[tx] = x[tx // 32, tx % 32 // 8]

    assert 64 == fragments(distribute(f))["x"].replication
    a, b = np.arange(8, dtype=np.float32).reshape(2, 4), np.zeros(64, np.float32)
    tilelang.compile(f, execution_backend="simulator", target={"kind": "cuda", "arch": "sm_80"})(a, b)
    np.testing.assert_array_equal(np.repeat(a.reshape(-1), 8), b)


def test_the_users_layout_of_shared_memory_wins():
    @T.prim_func
    def f(A: T.Tensor((32, 32), T.float32), B: T.Tensor((32, 32), T.float32)):
        with T.Kernel(1, threads=128) as _:
            s = T.alloc_shared((32, 32), T.float32)
            T.annotate_layout({s: lambda i, j: (i, i ^ j)})
            T.copy(A, s)
            for i, j in T.Parallel(32, 32):
                B[i, j] = s[j, i]

    ((_, layout),) = launches(distribute(f))[0].plan.shared_layouts
    assert (3, 6) == layout(3, 5)
