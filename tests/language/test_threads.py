import pytest

import tilelang.language as T
from tilelang.errors import ProgramError
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import WARP_SIZE
from tilelang.ir.stmt import Launch, Store
from tilelang.ir.visit import walk
from tilelang.passes.base import PassContext
from tilelang.passes.tile import inline_bindings


def indices(kernel):
    """The thread variable, and the indices of the one store of a kernel."""
    body = inline_bindings.PASS.run(kernel, PassContext()).body
    launch = next(s for s in walk(body) if isinstance(s, Launch))
    store = next(s for s in walk(body) if isinstance(s, Store))
    return launch.thread, store.indices


def test_the_index_along_each_dimension_follows_from_the_linear_one():
    @T.prim_func
    def kernel(A: T.Tensor((8, 4, 2), "float32")):
        with T.Kernel(1, threads=(8, 4, 2)):
            x, y, z = T.get_thread_bindings()
            A[x, y, z] = 1.0

    thread, (x, y, z) = indices(kernel)
    seen = {tuple(int(evaluate(e, {thread: t})) for e in (x, y, z)) for t in range(64)}
    assert {(i, j, k) for i in range(8) for j in range(4) for k in range(2)} == seen
    assert (1, 0, 0) == tuple(int(evaluate(e, {thread: 1})) for e in (x, y, z))


def test_lane_warp_and_warp_group():
    @T.prim_func
    def kernel(A: T.Tensor((32, 8, 2), "float32")):
        with T.Kernel(1, threads=256):
            A[T.get_lane_idx(), T.get_warp_idx(), T.get_warp_group_idx()] = 1.0

    thread, parts = indices(kernel)
    assert (5, 6, 1) == tuple(int(evaluate(e, {thread: 197, WARP_SIZE: 32})) for e in parts)


def test_a_dimension_without_threads_has_index_zero():
    @T.prim_func
    def kernel(A: T.Tensor((32, 8), "float32")):
        with T.Kernel(1, threads=32):
            A[T.get_thread_binding(0), T.get_thread_binding(1)] = 1.0

    thread, parts = indices(kernel)
    assert (7, 0) == tuple(int(evaluate(e, {thread: 7})) for e in parts)


def test_the_older_spelling_names_the_dimension():
    @T.prim_func
    def kernel(A: T.Tensor((32, 8), "float32")):
        with T.Kernel(1, threads=(32, 8)):
            tx = T.thread_binding(0, 32, thread="threadIdx.x")
            ty = T.thread_binding(8, "threadIdx.y")
            A[tx, ty] = 1.0

    thread, parts = indices(kernel)
    assert (7, 3) == tuple(int(evaluate(e, {thread: 103})) for e in parts)


def test_block_bindings_are_the_blocks_own_variables():
    @T.prim_func
    def kernel(A: T.Tensor((3, 4), "float32")):
        with T.Kernel(3, 4) as (bx, by):
            A[T.get_block_binding(0), T.get_block_binding(1)] = T.float32(T.get_block_binding(2))

    launch = next(s for s in walk(kernel.body) if isinstance(s, Launch))
    store = next(s for s in walk(kernel.body) if isinstance(s, Store))
    assert launch.block_vars == store.indices
    assert launch.thread is None


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: T.get_thread_binding(3), "T.get_thread_binding: there is no dimension 3"),
        (lambda: T.thread_binding(64, "threadIdx.x"), "T.thread_binding: 64 threads along x, but the kernel has 128"),
        (lambda: T.thread_binding(64, "blockIdx.x"), "T.thread_binding: 64 blocks along x, but the kernel has 1"),
    ],
)
def test_what_names_no_thread_is_refused(ask, message):
    with pytest.raises(ProgramError) as caught:

        @T.prim_func
        def kernel(A: T.Tensor((4,), "float32")):
            with T.Kernel(1):
                A[0] = ask()

    assert message == caught.value.message
