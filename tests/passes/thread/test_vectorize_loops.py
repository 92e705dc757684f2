"""Loops become vector lanes where iterations allow it, and folds get scalars of their own."""

import numpy as np
import pytest
from harness import run_everywhere

import tilelang.language as T
from tilelang.ir.stmt import For, ForKind
from tilelang.ir.visit import walk
from tilelang.passes.runner import run_passes
from tilelang.targets.cpu.backend import BACKEND

FLAGS = "-O2"


def kinds(func):
    """Per innermost loop, whether it is a vector loop and the operators of its reductions."""
    found = [s for s in walk(run_passes(func, BACKEND.passes).body) if isinstance(s, For)]
    inner = [s for s in found if not any(isinstance(t, For) for t in walk(s.body))]
    return [(s.kind is ForKind.VECTORIZED, "".join(r.op for r in s.reductions)) for s in inner]


def fold(update, shape=(37,)):
    @T.prim_func
    def main(A: T.Tensor(shape, "float32"), B: T.Tensor((1,), "float32")):
        with T.Kernel(1):
            s = T.alloc_fragment(shape, "float32")
            m = T.alloc_fragment((1,), "float32")
            T.copy(A, s)
            m[0] = 1.0
            for j in T.Parallel(shape[0]):
                m[0] = update(m[0], s[j])
            B[0] = m[0]

    return main


def test_an_elementwise_loop_is_a_vector_loop():
    @T.prim_func
    def main(A: T.Tensor((64,), "float32")):
        with T.Kernel(1):
            for i in T.Parallel(64):
                A[i] = A[i] * 2.0

    assert [(True, "")] == kinds(main)


@pytest.mark.parametrize(
    ("update", "ops"),
    [
        (lambda m, x: m + x, "+"),
        (lambda m, x: m - x * x, "+"),
        (lambda m, x: m * x, "*"),
        (lambda m, x: T.max(m, x), "max|"),
        (lambda m, x: T.min(x * 2.0, m), "min|"),
        (lambda m, x: T.max(T.max(m, x), -x), "max|"),
        (lambda m, x: T.fmax(m, x), "max|"),
        (lambda m, x: T.fmin(-x, T.fmin(m, x)), "min|"),
    ],
)
def test_folds_are_recognized_and_agree_with_the_reference(update, ops):
    func = fold(update)
    assert (True, ops) in kinds(func)
    run_everywhere(func, np.random.uniform(0.5, 1.5, 37).astype(np.float32), np.zeros(1, np.float32), rtol=1e-4)


@pytest.mark.parametrize("place", [0, 17, 36])
def test_nan_wins_wherever_it_stands(place):
    x = np.random.uniform(-1, 1, 37).astype(np.float32)
    x[place] = np.nan
    for update in (lambda m, x: T.max(m, x), lambda m, x: T.min(m, x)):
        assert np.isnan(run_everywhere(fold(update), x, np.zeros(1, np.float32), compile_flags=FLAGS)[1][0])


@pytest.mark.parametrize("start", [np.nan, -np.inf, 2.0])
@pytest.mark.parametrize("values", [[np.nan] * 9, [-np.inf] * 9, [np.nan] * 8 + [-np.inf], [np.nan, *range(8)]])
def test_folds_that_drop_nan_do_so_unless_there_is_nothing_else(start, values):
    @T.prim_func
    def main(A: T.Tensor((9,), "float32"), B: T.Tensor((2,), "float32")):
        with T.Kernel(1):
            s = T.alloc_fragment((9,), "float32")
            T.copy(A, s)
            for j in T.Parallel(9):
                B[0] = T.fmax(B[0], s[j])
            for j in T.Parallel(9):
                B[1] = T.fmin(B[1], s[j])

    assert ["max|", "min|"] == [ops for _, ops in kinds(main) if ops]
    run_everywhere(main, np.array(values, np.float32), np.full(2, start, np.float32), compile_flags=FLAGS)


def test_infinities_and_a_nan_to_start_from():
    @T.prim_func
    def main(A: T.Tensor((33,), "float32"), B: T.Tensor((3,), "float32")):
        with T.Kernel(1):
            m = T.alloc_var("float32", init=-T.infinity("float32"))
            n = T.alloc_var("float32")
            n = B[0]
            k = T.alloc_var("float32", init=T.infinity("float32"))
            for j in T.Parallel(33):
                m = T.max(m, A[j])
                n = T.max(n, A[j])
                k = T.min(k, A[j])
            B[0] = m
            B[1] = n
            B[2] = k

    a = np.full(33, -np.inf, np.float32)
    run_everywhere(main, a, np.array([np.nan, 0, 0], np.float32), compile_flags=FLAGS)


@pytest.mark.filterwarnings("ignore::tilelang.errors.ProgramWarning")
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "bfloat16", "float64"])
def test_folds_of_other_dtypes(dtype):
    @T.prim_func
    def main(A: T.Tensor((45,), dtype), B: T.Tensor((3,), dtype)):
        with T.Kernel(1):
            s = T.alloc_fragment((45,), dtype)
            m = T.alloc_fragment((3,), dtype)
            T.copy(A, s)
            T.copy(B, m)
            for j in T.Parallel(45):
                m[0] = m[0] + s[j]
                m[1] = T.max(m[1], s[j])
                m[2] = T.min(m[2], s[j])
            T.copy(m, B)

    storage = T.dtype(dtype).numpy
    a = np.random.randint(0, 4, 45).astype(storage)
    run_everywhere(main, a, np.ones(3, storage), compile_flags=FLAGS)


def test_several_statements_in_one_loop_and_folds_along_two_loops():
    @T.prim_func
    def main(A: T.Tensor((8, 16), "float32"), B: T.Tensor((8,), "float32"), C: T.Tensor((2,), "float32")):
        with T.Kernel(1):
            s = T.alloc_fragment((8, 16), "float32")
            rows = T.alloc_fragment((8,), "float32")
            T.copy(A, s)
            T.clear(rows)
            total = T.alloc_var("float32", init=0.0)
            for i, j in T.Parallel(8, 16):
                s[i, j] = s[i, j] * 2.0
                rows[i] += s[i, j]
                total += s[i, j]
            T.copy(rows, B)
            C[0] = total

    assert (True, "++") in kinds(main)
    run_everywhere(main, np.random.rand(8, 16).astype(np.float32), np.zeros(8, np.float32), np.zeros(2, np.float32))


def test_a_recurrence_stays_serial():
    @T.prim_func
    def main(A: T.Tensor((64,), "int32")):
        with T.Kernel(1):
            for i in T.serial(1, 64):
                A[i] = A[i] + A[i - 1]

    assert [(False, "")] == kinds(main)
    run_everywhere(main, np.arange(64, dtype=np.int32), compile_flags=FLAGS)


def test_a_loop_asked_to_be_vectorized_that_cannot_be_stays_right():
    @T.prim_func
    def main(A: T.Tensor((64,), "int32")):
        with T.Kernel(1):
            for i in T.vectorized(8):
                A[i + 1] = A[i] + 1

    assert [(False, "")] == kinds(main)
    run_everywhere(main, np.arange(64, dtype=np.int32), compile_flags=FLAGS)


def test_stores_far_apart_are_left_to_scalar_code():
    @T.prim_func
    def main(A: T.Tensor((16, 16), "int32"), B: T.Tensor((16, 16), "int32")):
        with T.Kernel(1):
            for i, j in T.Parallel(16, 16):
                B[j, i] = A[i, j]

    assert [(False, "")] == kinds(main)


def product(rows, cols, depth, where, bound="constant"):
    @T.prim_func
    def main(
        A: T.Tensor((rows, depth), "float32"),
        B: T.Tensor((depth, cols), "float32"),
        C: T.Tensor((rows, cols), "float32"),
    ):
        with T.Kernel(T.ceildiv(cols, 16), T.ceildiv(rows, 8)) as (bx, by):
            for i, j in T.Parallel(8, 16):
                if where == "scalar":
                    total = T.float32(0.0)
                    for k in T.serial(depth):
                        total += A[by * 8 + i, k] * B[k, bx * 16 + j]
                    C[by * 8 + i, bx * 16 + j] = total
                else:
                    C[by * 8 + i, bx * 16 + j] = 0.0
                    for k in T.serial(depth if bound == "constant" else T.min(depth, j)):
                        C[by * 8 + i, bx * 16 + j] += A[by * 8 + i, k] * B[k, bx * 16 + j]

    return main


@pytest.mark.slow(every=3)
@pytest.mark.parametrize("where", ["scalar", "element"])
@pytest.mark.parametrize("sizes", [(16, 32, 24), (9, 17, 5)])
def test_lanes_run_across_the_columns_of_a_product_not_down_them(where, sizes):
    rows, cols, depth = sizes
    func = product(rows, cols, depth, where)
    loops = [s for s in walk(run_passes(func, BACKEND.passes).body) if isinstance(s, For)]
    assert {"j"} == {s.var.name for s in loops if s.kind is ForKind.VECTORIZED}
    assert not any(s.reductions for s in loops)
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((rows, depth), dtype=np.float32), rng.standard_normal((depth, cols), dtype=np.float32)
    run_everywhere(func, a, b, np.zeros((rows, cols), np.float32), compile_flags=FLAGS)


def test_a_loop_inside_whose_end_differs_among_lanes_is_left_alone():
    func = product(16, 32, 24, "element", bound="varying")
    loops = [s for s in walk(run_passes(func, BACKEND.passes).body) if isinstance(s, For)]
    assert not any(s.var.name == "j" and s.kind is ForKind.VECTORIZED for s in loops)
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((16, 24), dtype=np.float32), rng.standard_normal((24, 32), dtype=np.float32)
    run_everywhere(func, a, b, np.zeros((16, 32), np.float32), compile_flags=FLAGS)
