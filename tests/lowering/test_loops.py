"""Operators as parallel loops; what most of them mean is tested with the pass that makes them."""

import numpy as np
import pytest
from harness import run_everywhere

import tilelang
import tilelang.language as T
from tilelang.dtypes import FLOAT32, INT32
from tilelang.errors import NoLowering
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.builder import Builder
from tilelang.ir.expr import Var, as_expr, const, int_const
from tilelang.ir.stmt import Alloc, ParallelLoop, Store
from tilelang.lowering.loops import copied_if_overlapping, expand_fill, move, parallel, scratch
from tilelang.lowering.regions import whole
from tilelang.ops.fill import Fill

FLAGS = "-O1"
S = Buffer("S", tuple(as_expr(e) for e in (8, 1, 6)), FLOAT32, Scope.SHARED)
N = Var("n", INT32, index=True)


def test_units_take_no_loop():
    build = Builder()
    move(build, whole(S), whole(Buffer("D", (as_expr(8), as_expr(6)), FLOAT32, Scope.FRAGMENT)))
    (loop,) = build.statements
    assert [8, 6] == [int_const(e) for e in loop.extents]
    assert isinstance(loop.body, Store)


def test_a_single_element_takes_no_loop_at_all():
    build = Builder()
    parallel(build, (), lambda at: build.emit(Store(S, (as_expr(0),) * 3, const(1, FLOAT32))))
    assert [Store] == [type(s) for s in build.statements]


def test_scratch_is_allocated_where_it_is_asked_for():
    build = Builder()
    made = scratch(build, "t", (4,), FLOAT32, Scope.SHARED)
    assert [Alloc] == [type(s) for s in build.statements]
    assert (4,) == made.static_extent


def test_only_what_may_overlap_is_copied():
    build = Builder()
    other = Buffer("O", S.shape, FLOAT32, Scope.SHARED)
    assert whole(S).buffer is copied_if_overlapping("T.copy", whole(S), whole(other), build).buffer
    assert [] == build.statements
    assert Scope.FRAGMENT is copied_if_overlapping("T.copy", whole(S), whole(S), build).buffer.scope
    assert [Alloc, ParallelLoop] == [type(s) for s in build.statements]


def test_an_overlap_of_unknown_extents_is_refused():
    part = Region(S, (as_expr(0),) * 3, (N, as_expr(1), as_expr(6)))
    with pytest.raises(NoLowering, match="whose extents are not constant"):
        copied_if_overlapping("T.copy", part, whole(S), Builder())


def test_a_value_that_must_be_computed_is_computed_once():
    build = Builder()
    expand_fill(Fill(whole(S), Var("x", FLOAT32) + 1.0), build)
    assert ["Bind", "ParallelLoop"] == [type(s).__name__ for s in build.statements]


@pytest.mark.slow(every=24)
@pytest.mark.parametrize("clear", [True, False])
@pytest.mark.parametrize(("transpose_a", "transpose_b"), [(False, False), (True, True)])
@pytest.mark.parametrize(
    ("dtype", "other", "accum"),
    [
        ("float16", "float16", "float32"),
        ("int8", "int8", "int32"),
        ("float8_e5m2", "float8_e4m3fn", "float32"),
        ("float32", "bfloat16", "float32"),
    ],
)
def test_a_gemm_of_regions_of_symbolic_size(dtype, other, accum, transpose_a, transpose_b, clear):
    m, n, k = T.dynamic("m"), T.dynamic("n"), T.dynamic("k")
    shape_a, shape_b = (k, m) if transpose_a else (m, k), (n, k) if transpose_b else (k, n)

    @T.prim_func
    def main(A: T.Tensor(shape_a, dtype), B: T.Tensor(shape_b, other), C: T.Tensor((m, n), accum)):
        with T.Kernel(1, threads=64):
            a = T.alloc_shared((16, 16), dtype)
            b = T.alloc_shared((16, 16), other)
            c = T.alloc_shared((16, 16), accum)
            T.copy(A, a[0 : shape_a[0], 0 : shape_a[1]])
            T.copy(B, b[0 : shape_b[0], 0 : shape_b[1]])
            T.copy(C, c[0:m, 0:n])
            T.gemm(
                a[0 : shape_a[0], 0 : shape_a[1]],
                b[0 : shape_b[0], 0 : shape_b[1]],
                c[0:m, 0:n],
                transpose_A=transpose_a,
                transpose_B=transpose_b,
                clear_accum=clear,
            )
            T.copy(c[0:m, 0:n], C)

    sizes = {"m": 7, "n": 5, "k": 9}
    arguments = [
        np.random.randint(-3, 4, tuple(sizes[e.name] for e in shape)).astype(T.dtype(name).numpy)
        for shape, name in ((shape_a, dtype), (shape_b, other), ((m, n), accum))
    ]
    run_everywhere(main, *arguments)


@pytest.mark.parametrize(("source", "target"), [("float32", "float32"), ("float32", "bfloat16"), ("int8", "float16")])
def test_tiles_at_the_edges_of_tensors(source, target):
    @T.prim_func
    def main(A: T.Tensor((13, 21), source), B: T.Tensor((13, 21), target)):
        with T.Kernel(3, 2) as (bx, by):
            s = T.alloc_shared((8, 8), source)
            f = T.alloc_fragment((8, 8), target)
            T.copy(A[by * 8, bx * 8], s)
            T.copy(s, f)
            T.copy(f, B[by * 8, bx * 8])

    a = np.random.randint(-50, 50, (13, 21)).astype(T.dtype(source).numpy)
    run_everywhere(main, a, np.zeros((13, 21), T.dtype(target).numpy), compile_flags=FLAGS)


def test_regions_of_many_dimensions():
    @T.prim_func
    def main(A: T.Tensor((2, 3, 5, 7), "int32"), B: T.Tensor((5, 7), "int32"), C: T.Tensor((4, 7), "int32")):
        with T.Kernel(1):
            s = T.alloc_shared((3, 4, 7), "int32")
            T.clear(s)
            T.copy(A[1, 0:3, 1:5, :], s)
            T.copy(s[2, :, :], C)
            T.copy(A[0, 2, :, :], B)

    a = np.arange(210, dtype=np.int32).reshape(2, 3, 5, 7)
    run_everywhere(main, a, np.zeros((5, 7), np.int32), np.zeros((4, 7), np.int32), compile_flags=FLAGS)


def test_strided_tensors():
    @T.prim_func
    def main(A: T.Tensor((5, 7), "int32"), B: T.StridedTensor((5, 7), (T.dyn["s"], 2), "int32")):
        with T.Kernel(1):
            T.copy(A, B)

    a = np.arange(35, dtype=np.int32).reshape(5, 7)
    whole = np.zeros((5, 16), np.int32)
    tilelang.compile(main, target="cpu", compile_flags=FLAGS)(a, whole[:, 0:14:2])
    np.testing.assert_array_equal(a, whole[:, 0:14:2])
    assert not whole[:, 1::2].any()
    assert not whole[:, 14:].any()


def test_transpose_between_tiles_and_in_place():
    @T.prim_func
    def main(A: T.Tensor((4, 6), "int32"), B: T.Tensor((6, 4), "int32"), C: T.Tensor((5, 5), "int32")):
        with T.Kernel(1):
            s = T.alloc_shared((4, 6), "int32")
            t = T.alloc_shared((6, 4), "int32")
            q = T.alloc_shared((5, 5), "int32")
            T.copy(A, s)
            T.transpose(s, t)
            T.copy(t, B)
            T.copy(C, q)
            T.transpose(q, q)
            T.copy(q, C)

    a, c = np.arange(24, dtype=np.int32).reshape(4, 6), np.arange(25, dtype=np.int32).reshape(5, 5)
    results = run_everywhere(main, a, np.zeros((6, 4), np.int32), c, compile_flags=FLAGS)
    np.testing.assert_array_equal(a.T, results[1])
    np.testing.assert_array_equal(c.T, results[2])


def test_a_fill_computes_its_value_once_and_stays_in_its_region():
    @T.prim_func
    def main(A: T.Tensor((6, 6), "int32")):
        with T.Kernel(1):
            s = T.alloc_shared((6, 6), "int32")
            T.fill(s, 1)
            T.fill(s[1:4, 2:5], s[1, 2] + 4)
            T.clear(s[5, :])
            T.copy(s, A)

    expected = np.ones((6, 6), np.int32)
    expected[1:4, 2:5] = 5
    expected[5] = 0
    np.testing.assert_array_equal(expected, run_everywhere(main, np.zeros((6, 6), np.int32), compile_flags=FLAGS)[0])


def test_an_overlapping_source_is_read_before_anything_is_written():
    @T.prim_func
    def main(A: T.Tensor((9,), "int32")):
        with T.Kernel(1):
            s = T.alloc_shared((9,), "int32")
            T.copy(A, s)
            T.copy(s[0:8], s[1:9])
            T.copy(s[0:4], s[5:9])
            T.copy(s, A)

    run_everywhere(main, np.arange(9, dtype=np.int32), compile_flags=FLAGS)
