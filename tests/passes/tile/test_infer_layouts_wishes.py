"""Layouts that the user asks for, of loops, fragments and shared memory."""


import pytest
from spread_tiles import fragments, launches, nests, spread

import tilelang.language as T
from tilelang.errors import ProgramError
from tilelang.layout.thread_values import Fragment


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

    result = spread(f)
    first, _, last = nests(result)
    assert layout.thread_values.same_owners(fragments(result)["x"])
    assert first.layout is not None
    assert layout.thread_values.same_owners(first.layout)
    assert 2 == vector_of(last.layout)


def test_wishes_that_cannot_be_met():
    few = T.Fragment((64,), lambda i: (i % 32, i // 32))

    @T.prim_func
    def loop(A: T.Tensor((64,), T.float32)):
        with T.Kernel(1, threads=64) as _:
            for i in T.Parallel(64, loop_layout=few):
                A[i] = 0

    @T.prim_func
    def tile(A: T.Tensor((64,), T.float32)):
        with T.Kernel(1, threads=64) as _:
            x = T.alloc_fragment((64,), T.float32)
            T.annotate_layout({x: few})
            T.copy(A, x)

    @T.prim_func
    def memory(A: T.Tensor((64,), T.float32)):
        with T.Kernel(1, threads=64) as _:
            x = T.alloc_fragment((64,), T.float32)
            T.annotate_layout({x: lambda i: 63 - i})
            T.copy(A, x)

    for func, message in (
        (loop, "T.Parallel: the layout of the loop is for 32 threads, but the kernel has 64"),
        (tile, "T.annotate_layout: the layout of 'x' is for 32 threads, but the kernel has 64"),
        (memory, "T.annotate_layout: 'x' is a fragment, but its layout is one of memory"),
    ):
        with pytest.raises(ProgramError, match=message) as caught:
            spread(func)
        assert caught.value.loc is not None


def test_the_users_layout_of_shared_memory_wins():
    @T.prim_func
    def f(A: T.Tensor((32, 32), T.float32), B: T.Tensor((32, 32), T.float32)):
        with T.Kernel(1, threads=128) as _:
            s = T.alloc_shared((32, 32), T.float32)
            T.annotate_layout({s: lambda i, j: (i, i ^ j)})
            T.copy(A, s)
            for i, j in T.Parallel(32, 32):
                B[i, j] = s[j, i]

    ((_, layout),) = launches(spread(f))[0].plan.shared_layouts
    assert (3, 6) == layout(3, 5)
