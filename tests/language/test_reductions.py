"""`T.reduce_*` and `T.reduce`: what they emit, what NaN does, and functions that carry an index."""

import numpy as np
import pytest
from fake_cuda import needs_nvrtc
from harness import run_everywhere

import tilelang
import tilelang.language as T
from tilelang.errors import ProgramError, ProgramValueError
from tilelang.language.stage import Stager
from tilelang.ops.reduce import Reduce, ReduceOp


@pytest.mark.parametrize("op", list(ReduceOp))
def test_every_reduction_has_its_function(op: ReduceOp, stager: Stager) -> None:
    src, dst = T.alloc_fragment((4, 8), "int32"), T.alloc_fragment((4,), "int32")
    getattr(T, f"reduce_{op.value}")(src, dst)
    T.reduce(src, dst, op.value, 1, False)
    first, second = stager.statements[2:]
    assert isinstance(first, Reduce)
    assert isinstance(second, Reduce)
    assert (op, 1, True) == (first.op, first.dim, first.clear)
    assert (op, 1, False) == (second.op, second.dim, second.clear)


def test_reductions_of_regions_count_the_users_dimensions(stager: Stager) -> None:
    src, dst = T.alloc_fragment((2, 4, 8)), T.alloc_fragment((8,))
    T.reduce_sum(src[1], dst, dim=0, batch=4)  # type: ignore[arg-type]
    T.reduce_max(dst, T.alloc_var("float32"), dim=0)
    op = stager.statements[2]
    assert isinstance(op, Reduce)
    assert 1 == op.dim


def test_bad_reductions(stager: Stager) -> None:
    src = T.alloc_fragment((4, 8))
    with pytest.raises(ValueError, match="T.reduce: unknown operator 'mean'"):
        T.reduce(src, T.alloc_fragment((4,)), "mean")
    with pytest.raises(ProgramValueError, match="T.reduce_sum: .* is reduced along dimension 1, but"):
        T.reduce_sum(src, T.alloc_fragment((8,)), dim=1)
    with pytest.raises(ValueError, match="has no dimension 2"):
        T.reduce_sum(src, T.alloc_fragment((8,)), dim=2)
    with pytest.raises(ValueError, match="T.reduce_max: batch must be >= 1, got 0"):
        T.reduce_max(src, T.alloc_fragment((4,)), batch=0)
    with pytest.raises(ValueError, match="only integers and bool have bits"):
        T.reduce_bitor(src, T.alloc_fragment((4,)))
    with pytest.raises(ValueError, match="T.reduce: clear=False with a function"):
        T.reduce(src, T.alloc_fragment((4,)), lambda a, b: a + b, 1, False)
    with pytest.raises(ValueError, match="T.reduce: 1 tiles come in, but 2 go out"):
        T.reduce(src, (T.alloc_fragment((4,)), T.alloc_fragment((4,))), lambda a, b: a + b)


def test_the_published_names_and_positions(stager: Stager) -> None:
    src, dst = T.alloc_fragment((4, 8)), T.alloc_fragment((4,))
    for name in ("sum", "max", "min", "absmax"):
        getattr(T, f"reduce_{name}")(buffer=src, out=dst, dim=1, clear=True, batch=2, annotations={})
    for name in ("max", "min", "absmax"):
        getattr(T, f"reduce_{name}")(src, dst, 1, True, 1, False, None)
    T.reduce_abssum(src, dst, 1, 2, None)
    T.reduce(buffer=src, out=dst, reduce_type="max", dim=1, clear=True, batch=1, annotations=None)
    folds = [s for s in stager.statements if isinstance(s, Reduce)]
    assert [True] * 4 + [False] * 3 + [True] * 2 == [op.nan_propagate for op in folds]


def nan_kernel() -> object:
    @T.prim_func
    def f(A: T.Tensor((5, 40), "float16"), B: T.Tensor((6, 5), "float16"), C: T.Tensor((2, 5), "float32")):
        with T.Kernel(1, threads=64) as _:
            a, out = T.alloc_fragment((5, 40), "float16"), T.alloc_fragment((5,), "float16")
            T.copy(A, a)
            T.reduce_max(a, out, nan_propagate=False)
            T.copy(out, B[0, :])
            T.reduce_min(a, out, nan_propagate=False)
            T.copy(out, B[1, :])
            T.reduce_absmax(a, out, nan_propagate=False)
            T.copy(out, B[2, :])
            T.reduce_max(a, out)
            T.copy(out, B[3, :])
            T.fill(out, 1)
            T.reduce_min(a, out, clear=False, nan_propagate=False)
            T.copy(out, B[4, :])
            T.reduce_absmax(a, out)
            T.copy(out, B[5, :])
            m = T.alloc_fragment((5,), "float32")
            T.fill(m, T.float32(float("nan")))
            for i, j in T.Parallel(5, 40):
                m[i] = T.fmax(m[i], A[i, j])
            T.copy(m, C[0, :])
            for i, j in T.Parallel(5, 40):
                m[i] = T.fmin(m[i], A[i, j])
            T.copy(m, C[1, :])

    return f


def with_nan() -> np.ndarray:
    a = np.random.default_rng(0).integers(-9, 9, (5, 40)).astype(np.float16)
    a[1, 3] = a[3, :] = a[4, 39] = np.nan
    return a


def test_nan_wins_or_is_dropped() -> None:
    a = with_nan()
    _, out, loops = run_everywhere(nan_kernel(), a, np.zeros((6, 5), np.float16), np.zeros((2, 5), np.float32))
    some = np.array([True, True, True, False, True])
    expected = [
        np.where(some, np.nanmax(np.where(some[:, None], a, 0), 1), -np.inf),
        np.where(some, np.nanmin(np.where(some[:, None], a, 0), 1), np.inf),
        np.where(some, np.nanmax(np.where(some[:, None], abs(a), 0), 1), 0),
        a.max(1),
        np.fmin(np.nanmin(np.where(some[:, None], a, 1), 1), 1),
        abs(a).max(1),
    ]
    np.testing.assert_array_equal(expected, out)
    np.testing.assert_array_equal([np.fmax.reduce(a, 1), np.fmin.reduce(a, 1)], loops)


@needs_nvrtc
def test_the_text_of_dropping_nan_compiles() -> None:
    source = tilelang.compile(nan_kernel(), target={"kind": "cuda", "arch": "sm_75"}).get_kernel_source()
    assert "tl_fmax(" in source
    assert "tl_fmin(" in source


@pytest.mark.parametrize("backend", ["cc", "reference", "simulator"])
def test_a_whole_kernel_drops_nan(backend: str) -> None:
    @T.prim_func
    def f(A: T.Tensor((5, 40), "float16"), B: T.Tensor((4, 5), "float16"), C: T.Tensor((5, 40), "float16")):
        with T.Kernel(1, threads=64) as _:
            a, out = T.alloc_fragment((5, 40), "float16"), T.alloc_fragment((5,), "float16")
            T.copy(A, a)
            T.reduce_max(a, out)
            T.copy(out, B[0, :])
            T.reduce_absmax(a, out)
            for i in T.Parallel(5):
                B[1, i] = T.max(A[i, 3], A[i, 39])
                B[2, i] = T.min(A[i, 3], 2)
                B[3, i] = T.clamp(A[i, 3], -1, 1)
            T.cummax(a, dim=1)
            T.copy(a, C)

    a = with_nan()
    target = {"kind": "cuda", "arch": "sm_80"} if backend == "simulator" else "cpu"
    configs = {"tl.nan_propagate": False}
    kernel = tilelang.compile(f, target=target, execution_backend=backend, pass_configs=configs)
    out, running = np.zeros((4, 5), np.float16), np.zeros((5, 40), np.float16)
    kernel(a, out, running)
    some = np.array([True, True, True, False, True])
    best = np.where(some, np.nanmax(np.where(some[:, None], a, 0), 1), -np.inf)
    expected = [best, np.fmax(a[:, 3], a[:, 39]), np.fmin(a[:, 3], 2), a[:, 3].clip(-1, 1)]
    np.testing.assert_array_equal(expected, out)
    np.testing.assert_array_equal(np.fmax.accumulate(a, 1), running)


def test_a_function_carries_an_index_and_folds_in_any_dimension() -> None:
    def better(a, i, b, j):
        first = (a > b) | ((a == b) & (i < j))
        return T.if_then_else(first, a, b), T.if_then_else(first, i, j)

    @T.prim_func
    def f(
        A: T.Tensor((6, 70), "float32"),
        V: T.Tensor((6,), "float32"),
        I: T.Tensor((6,), "int32"),
        P: T.Tensor((70,), "float32"),
        S: T.Tensor((1,), "int32"),
    ):
        with T.Kernel(1, threads=64) as _:
            a, index = T.alloc_fragment((6, 70), "float32"), T.alloc_shared((6, 70), "int32")
            v, where = T.alloc_fragment((6,), "float32"), T.alloc_fragment((6,), "int32")
            p, total = T.alloc_shared((1, 70), "float32"), T.alloc_fragment((1,), "int32")
            T.copy(A, a)
            for i, j in T.Parallel(6, 70):
                index[i, j] = j
            T.reduce((a, index), (v, where), better, dim=1)
            T.copy(v, V)
            T.copy(where, I)
            T.reduce(a, p, lambda x, y: x * y, dim=0)
            T.copy(p, P)
            T.reduce(index[0, 0:20], total, lambda x, y: x | y)
            T.copy(total, S)

    a = np.random.default_rng(1).integers(-3, 3, (6, 70)).astype(np.float32)
    empty = [np.zeros(6, np.float32), np.zeros(6, np.int32), np.zeros(70, np.float32), np.zeros(1, np.int32)]
    _, values, where, products, bits = run_everywhere(f, a, *empty)
    np.testing.assert_array_equal(a.max(1), values)
    np.testing.assert_array_equal(a.argmax(1), where)
    np.testing.assert_array_equal(a.prod(0), products)
    assert 31 == bits[0]


def test_a_function_must_be_an_expression_of_its_parameters(stager: Stager) -> None:
    src, dst = T.alloc_fragment((4, 8)), T.alloc_fragment((4,))
    for function, message in (
        (lambda a, b: (a, b), "the function gives 2 values for 1 tiles"),
        (lambda a, b: a + dst[0], "the function reads or writes memory"),
    ):
        with pytest.raises(ProgramError, match=message):
            T.reduce(src, dst, function)
