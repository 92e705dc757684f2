"""`T.argmax`, `T.argmin`, `T.sort`, `T.topk`, `T.gather` and `T.scatter`: everywhere the same as in NumPy."""

import numpy as np
import pytest
from fake_cuda import needs_nvrtc
from harness import run_everywhere
from hypothesis import given, settings
from hypothesis import strategies as st

import tilelang
import tilelang.language as T
from tilelang.errors import ProgramValueError
from tilelang.language.stage import Stager


def numbers(shape: tuple[int, ...], dtype: str, seed: int = 0) -> np.ndarray:
    """Small integers, so that many are equal, with NaN and infinities among floats."""
    rng = np.random.default_rng(seed)
    values = rng.integers(-4, 5, shape).astype(dtype)
    if dtype.startswith("float"):
        for special in (np.nan, np.inf, -np.inf):
            values[rng.random(shape) < 0.07] = special
    return values


def order(a: np.ndarray, *, descending: bool = False) -> np.ndarray:
    """The places of the last dimension in order, NaN as the greatest, equals as they were."""
    if not descending:
        return np.argsort(a, axis=-1, kind="stable")
    return a.shape[-1] - 1 - np.argsort(a[..., ::-1], axis=-1, kind="stable")[..., ::-1]


@settings(max_examples=2)
@given(
    st.sampled_from([(5, 12), (1, 40), (3, 4, 6), (9,)]),
    st.sampled_from(["float32", "float16", "int8"]),
    st.sampled_from([16, 96]),
    st.integers(0, 2),
)
def test_arg_reductions_are_those_of_numpy(shape: tuple[int, ...], dtype: str, threads: int, dim: int) -> None:
    dim %= len(shape)
    left = shape[:dim] + shape[dim + 1 :] or (1,)

    @T.prim_func
    def f(A: T.Tensor(shape, dtype), I: T.Tensor((2, *left), "int64"), V: T.Tensor((2, *left), dtype)):
        with T.Kernel(1, threads=threads) as _:
            a, v = T.alloc_fragment(shape, dtype), T.alloc_fragment(left, dtype)
            where = T.alloc_fragment(left, "int32")
            T.copy(A, a)
            T.argmax(a, where, dim=dim, values=v)
            T.copy(where, I[0, ...])
            T.copy(v, V[0, ...])
            T.argmin(A, I[1, ...], dim, V[1, ...])

    a = numbers(shape, dtype, dim)
    _, places, values = run_everywhere(f, a, np.zeros((2, *left), np.int64), np.zeros((2, *left), dtype))
    np.testing.assert_array_equal([a.argmax(dim).reshape(left), a.argmin(dim).reshape(left)], places)
    np.testing.assert_array_equal([a.max(dim).reshape(left), a.min(dim).reshape(left)], values)


def test_arg_reductions_of_sizes_that_are_known_when_the_kernel_runs() -> None:
    n = T.dynamic("n")

    @T.prim_func
    def f(A: T.Tensor((3, n), "float32"), I: T.Tensor((3,), "int32"), J: T.Tensor((n,), "int32")):
        with T.Kernel(1, threads=32) as _:
            T.argmax(A, I, dim=1)
            T.argmin(A, J, dim=0)

    for size in (1, 37):
        a = numbers((3, size), "float32")
        _, rows, columns = run_everywhere(f, a, np.zeros(3, np.int32), np.zeros(size, np.int32))
        np.testing.assert_array_equal(a.argmax(1), rows)
        np.testing.assert_array_equal(a.argmin(0), columns)


def sorting(shape: tuple[int, ...], dtype: str, threads: int, *, descending: bool) -> object:
    """A kernel that sorts by every form of `T.sort`."""

    @T.prim_func
    def f(
        A: T.Tensor(shape, dtype),
        B: T.Tensor((2, *shape), dtype),
        I: T.Tensor(shape, "int32"),
        P: T.Tensor((2, *shape), "int32"),
    ):
        with T.Kernel(1, threads=threads) as _:
            a, b = T.alloc_shared(shape, dtype), T.alloc_fragment(shape, dtype)
            i, p = T.alloc_fragment(shape, "int32"), T.alloc_shared(shape, "int32")
            T.copy(A, a)
            T.copy(P[0, ...], p)
            T.sort(a, b, descending=descending, indices=i, payload=p)
            T.copy(b, B[0, ...])
            T.copy(i, I)
            T.copy(p, P[1, ...])
            T.sort(a, descending=descending)
            T.copy(a, B[1, ...])

    return f


@settings(max_examples=2)
@given(
    st.sampled_from([(3, 6), (1, 1), (11,), (2, 3, 5)]),
    st.sampled_from(["float32", "float16", "uint8"]),
    st.booleans(),
    st.sampled_from([8, 64]),
)
def test_sorting_is_stable_and_moves_a_payload(
    shape: tuple[int, ...], dtype: str, descending: bool, threads: int
) -> None:
    a = abs(numbers(shape, dtype))
    payload = np.zeros((2, *shape), np.int32)
    payload[0] = np.random.default_rng(1).integers(0, 99, shape)
    arguments = a, np.zeros((2, *shape), dtype), np.zeros(shape, np.int32), payload
    _, ordered, places, moved = run_everywhere(sorting(shape, dtype, threads, descending=descending), *arguments)
    expected = order(a, descending=descending)
    np.testing.assert_array_equal(expected, places)
    np.testing.assert_array_equal(np.take_along_axis(a, expected, -1), ordered[0])
    np.testing.assert_array_equal(ordered[0], ordered[1])
    np.testing.assert_array_equal(np.take_along_axis(payload[0], expected, -1), moved[1])


@settings(max_examples=2)
@given(
    st.sampled_from([((4, 6), 5), ((3, 9), 2), ((20,), 1), ((1, 7), 7)]),
    st.sampled_from(["float32", "int32", "float16"]),
    st.booleans(),
    st.sampled_from([16, 64]),
)
def test_the_first_few_of_many(case: tuple[tuple[int, ...], int], dtype: str, largest: bool, threads: int) -> None:
    shape, k = case
    few = (*shape[:-1], k)

    @T.prim_func
    def f(A: T.Tensor(shape, dtype), V: T.Tensor((2, *few), dtype), I: T.Tensor((2, *few), "int32")):
        with T.Kernel(1, threads=threads) as _:
            a = T.alloc_fragment(shape, dtype)
            v, i = T.alloc_fragment(few, dtype), T.alloc_fragment(few, "int32")
            T.copy(A, a)
            T.topk(a, k, v, i, largest=largest)
            T.copy(v, V[0, ...])
            T.copy(i, I[0, ...])
            T.topk(A, k, V[1, ...], largest=largest)
            T.topk(A, k, None, I[1, ...], largest=largest)

    a = numbers(shape, dtype, k)
    _, values, places = run_everywhere(f, a, np.zeros((2, *few), dtype), np.zeros((2, *few), np.int32))
    expected = order(a, descending=largest)[..., :k]
    np.testing.assert_array_equal([expected] * 2, places)
    np.testing.assert_array_equal([np.take_along_axis(a, expected, -1)] * 2, values)


def rows_kernel() -> object:
    """A kernel that gathers and scatters rows of global and shared memory, in both dimensions."""
    n = T.dynamic("n")

    @T.prim_func
    def f(
        A: T.Tensor((n, 40), "float16"),
        index: T.Tensor((6,), "int64"),
        G: T.Tensor((6, 16), "float32"),
        S: T.Tensor((n, 40), "float16"),
        C: T.Tensor((40, 6), "float16"),
    ):
        with T.Kernel(1, threads=64) as _:
            rows, places = T.alloc_shared((6, 16), "float16"), T.alloc_shared((6,), "int32")
            picked, tile = T.alloc_fragment((6, 16), "float32"), T.alloc_shared((12, 16), "float16")
            T.copy(index, places)
            T.gather(A[:, 8:24], index, rows)
            T.copy(rows, G)
            T.scatter(rows, places, S[:, 16:32])
            T.copy(A[0:12, 8:24], tile)
            T.gather(tile, places, picked)
            for i, j in T.Parallel(6, 16):
                G[i, j] = G[i, j] * 8 + picked[i, j]
            T.gather(A, index[2], S[0:1, :])
            for i, j in T.Parallel(40, 6):
                C[i, j] = 0
            T.scatter(rows[0:3, 0:6], places[0:3], C)

    return f


def test_rows_by_index_and_rows_that_do_not_exist() -> None:
    a = np.random.default_rng(2).integers(-9, 9, (20, 40)).astype(np.float16)
    index = np.array([3, -1, 11, 19, 20, 0])
    empty = np.zeros((6, 16), np.float32), np.zeros_like(a), np.zeros((40, 6), np.float16)
    _, _, gathered, scattered, columns = run_everywhere(rows_kernel(), a, index, *empty)
    exists, in_tile = (index >= 0) & (index < 20), (index >= 0) & (index < 12)
    rows = np.where(exists[:, None], a[index.clip(0, 19), 8:24], 0)
    np.testing.assert_array_equal(rows.astype("f") * 8 + np.where(in_tile[:, None], rows, 0), gathered)
    expected = np.zeros_like(a)
    expected[index[exists], 16:32] = rows[exists]
    expected[0] = a[11]
    np.testing.assert_array_equal(expected, scattered)
    expected = np.zeros((40, 6), np.float16)
    expected[[3, 11]] = rows[[0, 2], :6]
    np.testing.assert_array_equal(expected, columns)


@needs_nvrtc
@pytest.mark.parametrize("arch", ["sm_75", "sm_90a"])
def test_the_text_compiles(arch: str) -> None:
    for kernel in (rows_kernel(), sorting((2, 6), "float16", 32, descending=True)):
        tilelang.compile(kernel, target={"kind": "cuda", "arch": arch})


REFUSED = {
    "T.argmax: 'fragment_1' holds float32, but indices are integers": lambda a, b: T.argmax(a, b),
    r"T.argmin: 'fragment' is \(4, 8\) and is reduced along dimension 0, but 'fragment_1' is \(4,\)": (
        lambda a, b: T.argmin(a, b, dim=0)
    ),
    "has no dimension 3": lambda a, b: T.argmin(a, b, dim=3),
    "T.sort: dim is 0, but elements are put in order along the last dimension": lambda a, b: T.sort(a, dim=0),
    r"T.sort: 'fragment' is \(4, 8\) but 'fragment_1' is \(4,\)": lambda a, b: T.sort(a, b),
    "T.topk: k is 9, but a row of 'fragment' has 8 elements": lambda a, b: T.topk(a, 9, b),
    "T.topk: 'fragment' is .* and k is 2, but 'fragment_1' is": lambda a, b: T.topk(a, 2, b),
    "T.gather: 'fragment_1' holds float32, but indices are integers": lambda a, b: T.gather(a, b, a),
    "T.scatter: '.*' is .*, but indices of rows have one dimension": (
        lambda a, b: T.scatter(a, T.view(a, dtype="int32"), a)
    ),
    "T.gather: 'fragment' is .* and '.*' is .*, but 'fragment' is": (
        lambda a, b: T.gather(a, T.view(a, dtype="int32")[0, :], a)
    ),
}


@pytest.mark.parametrize("message", REFUSED)
def test_wrong_arguments(message: str, stager: Stager) -> None:
    with pytest.raises(ProgramValueError, match=message):
        REFUSED[message](T.alloc_fragment((4, 8)), T.alloc_fragment((4,)))


def test_an_empty_dimension_has_no_largest_element(stager: Stager) -> None:
    with pytest.raises(ProgramValueError, match="has no element in dimension 1"):
        T.argmax(T.alloc_fragment((4, 0)), T.alloc_fragment((4,), "int32"))
