"""Reductions across threads as older programs write them."""

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.errors import ProgramError
from tilelang.language.allreduce import Reducer
from tilelang.testing import to_host

SHAPES = [(32, 4), (4, 32), (16, 2, 4), (64, 2), (6, 10)]


def number(index, threads, dims):
    """The number of a thread among those that differ in some dimensions."""
    total = 0
    for dim in dims:
        total = total * (*threads, 1, 1)[dim] + index[dim]
    return total


def gemv(threads, which, dtype="float32", counts=True):
    """Every group of threads that share the indices not in `which` multiplies a row by a vector."""
    folded = [threads[dim] for dim in which]
    rows, parts = int(np.prod(threads)) // int(np.prod(folded)), int(np.prod(folded))

    @T.prim_func
    def main(
        A: T.Tensor((3, rows, parts * 2), dtype),
        x: T.Tensor((parts * 2,), dtype),
        y: T.Tensor((3, rows, parts), dtype),
    ):
        with T.Kernel(1, threads=threads) as _:
            index = T.get_thread_bindings()
            row = number(index, threads, [dim for dim in (0, 1, 2) if dim not in which])
            part = number(index, threads, which)
            mine = T.alloc_local((1,), dtype)
            total = T.alloc_local((1,), dtype)
            for n in T.serial(3):
                T.clear(mine)
                for k in T.serial(2):
                    mine[0] += A[n, row, part * 2 + k] * x[part * 2 + k]
                with T.attr(
                    T.comm_reducer(lambda a, b: a + b, [T.cast(0, dtype)]),
                    "reduce_scope",
                    T.reinterpret(T.uint64(0), dtype="handle"),
                ):
                    T.evaluate(
                        T.tvm_thread_allreduce(
                            T.uint32(1),
                            mine[0],
                            True if counts else part % 2 == 0,
                            total[0],
                            *[index[dim] for dim in which],
                            dtype="handle",
                        )
                    )
                y[n, row, part] = total[0]

    return main, rows, parts


@pytest.mark.slow(every=12)
@pytest.mark.parametrize("counts", [True, False])
@pytest.mark.parametrize("threads", SHAPES)
def test_threads_that_differ_in_the_given_indices_share_a_sum(threads, counts):
    for which in [(0,), (1,), (0, 1), (2,)]:
        if which[-1] >= len(threads):
            continue
        func, rows, parts = gemv(threads, which, counts=counts)
        rng = np.random.default_rng(0)
        a, x = (rng.integers(-4, 5, shape).astype(np.float32) for shape in ((3, rows, parts * 2), (parts * 2,)))
        kernel = tilelang.compile(func, out_idx=[2], target="cuda", execution_backend="simulator")
        sums = (a * x).reshape(3, rows, parts, 2).sum(axis=-1)[:, :, :: 1 if counts else 2].sum(axis=-1)
        for seed in (0, 1) if counts else (2,):
            y = kernel.simulate(a, x, seed=seed)
            np.testing.assert_array_equal(np.broadcast_to(sums[..., None], y.shape), y)


def test_lanes_fold_by_shuffles_and_others_by_shared_memory():
    def text(which):
        return tilelang.compile(gemv((16, 8), which)[0], target="cuda").get_kernel_source()

    assert "shfl" in text((0,)) and "parts" not in text((0,))
    assert "shfl" not in text((1,)) and "parts" in text((1,))
    assert "shfl" in text((0, 1)) and "parts" in text((0, 1))


def test_any_function_folds():
    @T.prim_func
    def main(A: T.Tensor((4, 32), "int32"), B: T.Tensor((4, 32), "int32")):
        with T.Kernel(4, threads=32) as bx:
            tx = T.get_thread_binding(0)
            most = T.alloc_local((1,), "int32")
            T.attr(T.comm_reducer(lambda a, b: T.max(a, b), [T.int32(-100)]), "reduce_scope", 0)
            T.tvm_thread_allreduce(1, A[bx, tx], tx > 3, most[0], tx)
            B[bx, tx] = most[0]

    kernel = tilelang.compile(main, out_idx=[1], target="cuda", execution_backend="simulator")
    a = np.random.default_rng(0).integers(-50, 50, (4, 32)).astype(np.int32)
    np.testing.assert_array_equal(np.broadcast_to(a[:, 4:].max(axis=1, keepdims=True), a.shape), kernel(a))


@pytest.mark.parametrize("threads", [(1024,), (2, 512), (32, 32), (48, 16)])
def test_values_of_many_threads_are_added_in_pairs(threads):
    @T.prim_func
    def main(B: T.Tensor(threads, "bfloat16")):
        with T.Kernel(1, threads=threads):
            index = T.get_thread_bindings()[: len(threads)]
            total = T.alloc_local((1,), "bfloat16")
            with T.attr(T.comm_reducer(lambda a, b: a + b, [T.bfloat16(0)]), "reduce_scope", 0):
                T.tvm_thread_allreduce(1, T.bfloat16(1), True, total[0], *index)
            B[index] = total[0]

    kernel = tilelang.compile(main, out_idx=[0], target={"kind": "cuda", "arch": "sm_90a"}, execution_backend="simulator")
    # one after another, sums of ones in bfloat16 end at 256
    np.testing.assert_array_equal(np.full(threads, np.prod(threads), np.float32), to_host(kernel()).astype(np.float32))


def test_a_reducer_says_how():
    with pytest.raises(ProgramError, match="3 is no function"):
        T.comm_reducer(3, [0])
    for wrong in (0, [0, 1], []):
        with pytest.raises(ProgramError, match="a list of one value"):
            T.comm_reducer(lambda a, b: a, wrong)
    assert isinstance(T.comm_reducer(lambda a, b: a, [0]), Reducer)


def staged(body):
    @T.prim_func
    def main(A: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding(0)
            total = T.alloc_local((1,), "float32")
            body(A, tx, total)

    return main


def add():
    return T.comm_reducer(lambda a, b: a + b, [0])


def without(A, tx, total):
    with T.attr(add(), "reduce_scope", 0):
        pass
    T.tvm_thread_allreduce(1, A[tx], True, total[0], tx)


def inside(arguments):
    def body(A, tx, total):
        with T.attr(add(), "reduce_scope", 0):
            T.tvm_thread_allreduce(*arguments(A, tx, total))

    return body


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (without, "there is no combine function"),
        (lambda A, tx, total: T.attr(3, "reduce_scope", 0), "3 does not state how threads combine values"),
        (inside(lambda A, tx, total: (2, A[tx], True, total[0], tx)), "reduces 2 values at once"),
        (inside(lambda A, tx, total: (1, A[tx], True, 3, tx)), "the result goes to 3, which is no element"),
        (inside(lambda A, tx, total: (1, A[tx], True, total[0], tx + 1)), "is no index of the executing thread"),
        (inside(lambda A, tx, total: (1, A[tx], True, total[0], A[tx])), "A[thread] is no index of the executing thread"),
        (inside(lambda A, tx, total: (1, A[tx], True, total[0], 3)), "3 is no index of the executing thread"),
        (inside(lambda A, tx, total: (1, A[tx], True, total[0], "x")), "index is 'x', not a number"),
        (inside(lambda A, tx, total: (1, A, True, total[0], tx)), "value is the tile 'A'"),
    ],
)
def test_misuse_is_told(body, message):
    with pytest.raises(ProgramError) as caught:
        staged(body)
    assert message in str(caught.value)
