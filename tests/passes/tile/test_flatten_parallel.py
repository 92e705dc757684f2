import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.ir.stmt import For, ForKind, If, ParallelLoop
from tilelang.ir.verify import verify
from tilelang.ir.visit import walk
from tilelang.passes.base import PassContext
from tilelang.passes.tile import flatten_parallel, inline_bindings
from tilelang.sim.tile_interp import run_reference


def flat(kernel):
    """The kernel after the pass, checked to mean the same."""
    before = inline_bindings.PASS.run(kernel, PassContext())
    after = flatten_parallel.PASS.run(before, PassContext())
    verify(after)
    shapes = [tuple(e.value for e in p.shape) for p in kernel.params]
    arrays = [np.random.default_rng(n).integers(-8, 9, s).astype(np.float32) for n, s in enumerate(shapes)]
    expected, actual = [a.copy() for a in arrays], [a.copy() for a in arrays]
    run_reference(kernel, expected)
    run_reference(after, actual)
    for x, y in zip(expected, actual, strict=True):
        np.testing.assert_array_equal(x, y)
    return after


def loops(func):
    return [s for s in walk(func.body) if isinstance(s, ParallelLoop)]


def nested(func):
    return any(isinstance(s, ParallelLoop) for loop in loops(func) for s in walk(loop.body))


def test_a_scalar_between_two_loops_gets_an_element_per_iteration():
    @T.prim_func
    def kernel(A: T.Tensor((6, 5), "float32"), B: T.Tensor((6,), "float32")):
        with T.Kernel(1):
            for i in T.Parallel(6):
                total = T.float32(0.0)
                for j in T.Parallel(5):
                    total = total + A[i, j]
                B[i] = B[i] + total

    after = flat(kernel)
    assert [1, 2, 1] == [len(loop.vars) for loop in loops(after)]
    assert not nested(after)


def test_a_bound_value_is_computed_once_before_the_inner_loop_changes_its_operands():
    @T.prim_func
    def kernel(A: T.Tensor((6, 5), "float32"), B: T.Tensor((6,), "float32")):
        with T.Kernel(1):
            for i in T.Parallel(6):
                old = B[i]
                B[i] = old + 1.0
                for j in T.Parallel(5):
                    A[i, j] = A[i, j] * old

    assert not nested(flat(kernel))


def test_serial_loops_between_parallel_ones_stay_outside():
    @T.prim_func
    def kernel(A: T.Tensor((4, 3, 5), "float32"), B: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            for i in T.Parallel(4):
                B[i] = 0.0
                for k in range(3):
                    B[i] = B[i] + 1.0
                    for j in T.Parallel(5):
                        A[i, k, j] = A[i, k, j] + B[i]

    after = flat(kernel)
    assert not nested(after)
    (serial,) = [s for s in walk(after.body) if isinstance(s, For)]
    assert 2 == len([s for s in walk(serial.body) if isinstance(s, ParallelLoop)])


def test_a_condition_is_asked_once_for_both_sides():
    @T.prim_func
    def kernel(A: T.Tensor((6, 5), "float32"), B: T.Tensor((6,), "float32")):
        with T.Kernel(1):
            for i in T.Parallel(6):
                if B[i] > 0.0:
                    B[i] = -1.0
                    for j in T.Parallel(5):
                        A[i, j] = 0.0
                else:
                    for j in T.Parallel(5):
                        A[i, j] = A[i, j] + B[i]

    assert not nested(flat(kernel))


def test_three_levels_become_flat():
    @T.prim_func
    def kernel(A: T.Tensor((3, 4, 5), "float32"), B: T.Tensor((3, 4), "float32"), C: T.Tensor((3,), "float32")):
        with T.Kernel(1):
            for i in T.Parallel(3):
                C[i] = 1.0
                for j in T.Parallel(4):
                    most = T.float32(-100.0)
                    for k in T.Parallel(5):
                        most = T.max(most, A[i, j, k] * C[i])
                    B[i, j] = most

    after = flat(kernel)
    assert not nested(after)
    assert 3 == max(len(loop.vars) for loop in loops(after))


@pytest.mark.parametrize("triangular", [True, False])
def test_inner_loops_that_depend_on_the_outer_one_run_within_an_iteration(triangular):
    @T.prim_func
    def kernel(A: T.Tensor((6, 6), "float32"), B: T.Tensor((6,), "float32")):
        with T.Kernel(1):
            for i in T.Parallel(6):
                total = T.float32(0.0)
                for j in T.Parallel(i + 1 if triangular else 6):
                    total = total + A[i, j]
                B[i] = total

    after = flat(kernel)
    assert not nested(after)
    assert triangular == any(isinstance(s, For) and s.kind is ForKind.SERIAL for s in walk(after.body))


def test_flat_loops_are_left_alone():
    @T.prim_func
    def kernel(A: T.Tensor((6, 5), "float32")):
        with T.Kernel(1):
            for i, j in T.Parallel(6, 5):
                A[i, j] = A[i, j] + 1.0

    before = inline_bindings.PASS.run(kernel, PassContext())
    assert before.body is flatten_parallel.PASS.run(before, PassContext()).body


def test_loops_of_a_size_known_only_at_run_time_are_joined():
    N = T.dynamic("N")

    @T.prim_func
    def kernel(A: T.Tensor((N, 5), "float32"), B: T.Tensor((3, N, 5), "float32")):
        with T.Kernel(1):
            for i in T.Parallel(3):
                for j, k in T.Parallel(N, 5):
                    B[i, j, k] += A[j, k] * i

    after = flatten_parallel.PASS.run(inline_bindings.PASS.run(kernel, PassContext()), PassContext())
    verify(after)
    assert not nested(after)
    a, b = np.ones((4, 5), np.float32), np.zeros((3, 4, 5), np.float32)
    run_reference(after, [a, b])
    np.testing.assert_array_equal(np.broadcast_to(np.arange(3)[:, None, None], b.shape), b)


@pytest.mark.parametrize(
    ("first", "stop", "extent"), [(0, 8, 8), (0, 16, 16), (4, 8, 8), (0, 7, 32), (0, 40, 32), (12, 12, 32), (0, 0, 32)]
)
def test_iterations_that_a_condition_keeps_idle_are_left_out_where_an_equal_part_remains(first, stop, extent):
    @T.prim_func
    def kernel(A: T.Tensor((80, 5), "float32"), B: T.Tensor((40, 5), "float32")):
        with T.Kernel(1):
            for i, j in T.Parallel(32, 5):
                if i < stop and i >= first:
                    B[i, j] = A[i + 16, j]

    (loop,) = loops(flat(kernel))
    assert [extent, 5] == [e.value for e in loop.extents]
    assert (first > 0 or extent == 32) == isinstance(loop.body, If)


def test_a_half_of_a_product_that_a_condition_selects_stays_in_registers():
    @T.prim_func
    def kernel(A: T.Tensor((32, 16), "float16"), B: T.Tensor((16, 16), "float16"), C: T.Tensor((32, 16), "float32")):
        with T.Kernel(1, threads=32):
            a, b = T.alloc_shared((32, 16), "float16"), T.alloc_shared((16, 16), "float16")
            half = T.alloc_shared((16, 16), "float32")
            c = T.alloc_fragment((32, 16), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c, clear_accum=True)
            for s in range(2):
                for i, j in T.Parallel(32, 16):
                    if i < 16:
                        half[i, j] = c[i + s * 16, j]
                T.copy(half, C[s * 16, 0])

    made = tilelang.compile(kernel, target={"kind": "cuda", "arch": "sm_80"}, execution_backend="simulator")
    a, b = (np.random.default_rng(n).integers(-4, 5, s).astype("float16") for n, s in enumerate([(32, 16), (16, 16)]))
    c = np.zeros((32, 16), "float32")
    made(a, b, c)
    np.testing.assert_array_equal(a.astype("float32") @ b.astype("float32"), c)
    assert "kept in shared memory" not in made.explain()
