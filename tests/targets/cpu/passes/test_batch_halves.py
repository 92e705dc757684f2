"""Loops over float16 are converted in batches, with the same results."""

import numpy as np
import pytest
from harness import run_cpu_on_copies, run_reference_on_copies

import tilelang
import tilelang.language as T
from tilelang.ir.stmt import CallStmt, For, ForKind
from tilelang.ir.visit import walk
from tilelang.passes.runner import run_passes
from tilelang.targets.cpu.backend import BACKEND

FLAGS = "-O1"
RNG = np.random.default_rng(5)


def parts(func):
    """Routines that are called, and for each vector loop "loop", in program order."""
    found = []
    for stmt in walk(run_passes(func, BACKEND.passes).body):
        if isinstance(stmt, CallStmt):
            found.append(stmt.routine.name.removesuffix("_halves"))
        elif isinstance(stmt, For) and stmt.kind is ForKind.VECTORIZED:
            found.append("loop")
    return found


def elementwise(make, size=64, dtype="float16", out="float16"):
    @T.prim_func
    def main(X: T.Tensor((size,), dtype), Y: T.Tensor((size,), dtype), Z: T.Tensor((size,), out)):
        with T.Kernel(1):
            for j in T.Parallel(size):
                Z[j] = make(X[j], Y[j])

    return main


def halves(size, scale=4.0):
    return (RNG.standard_normal(size) * scale).astype(np.float16)


def assert_equal_to_reference(func, *arguments):
    """Whatever the operators round to, bit for bit up to what a NaN holds."""
    expected = run_reference_on_copies(func, arguments)
    for want, got in zip(expected, run_cpu_on_copies(func, arguments, FLAGS), strict=True):
        np.testing.assert_array_equal(want, got)


def test_operators_run_in_vector_loops_between_conversions_of_batches():
    assert ["widen", "loop", "narrow"] == parts(elementwise(lambda x, y: x * 2))
    assert ["widen", "widen", "loop", "round", "loop", "narrow"] == parts(elementwise(lambda x, y: x * y + y))
    assert ["widen", "widen", "loop", "narrow"] == parts(elementwise(lambda x, y: T.max(x, -y)))


def test_independent_roundings_share_a_loop():
    found = parts(elementwise(lambda x, y: (x * x) * (y * y)))
    assert ["widen", "widen", "loop", "round", "round", "loop", "narrow"] == found


def test_elements_that_only_move_are_not_converted():
    assert ["loop"] == parts(elementwise(lambda x, y: x))


def test_copies_between_tiles_convert_without_a_loop():
    assert ["widen"] == parts(elementwise(lambda x, y: x.astype("float32"), out="float32"))
    assert ["narrow"] == parts(elementwise(lambda x, y: x.astype("float16"), dtype="float32"))


def test_short_loops_stay_as_they_are():
    assert ["loop"] == parts(elementwise(lambda x, y: x * 2, size=8))


def test_the_last_of_several_stores_to_an_element_stays_the_last():
    @T.prim_func
    def main(X: T.Tensor((64,), "float16"), Y: T.Tensor((2,), "float16"), Z: T.Tensor((64,), "float16")):
        with T.Kernel(1):
            for j in T.Parallel(64):
                Z[j] = T.ceil(X[j])
                Z[j] = Y[1]

    assert ["widen", "loop", "narrow", "loop"] == parts(main)
    assert_equal_to_reference(main, halves(64), halves(2), halves(64))


@pytest.mark.parametrize("size", [16, 300, 1000])
def test_operators_round_as_in_the_reference(size):
    def every(x, y):
        chain = (x + y) * x - y / T.max(x * x, 0.5)
        return T.if_then_else(x < y, chain, T.min(-x, chain * 0.25) + T.cast(T.cast(y, "int32"), "float16"))

    special = np.array([0, -0.0, np.inf, -np.inf, np.nan, 65504, 6e-8, -6e-8], np.float16)
    x, y = halves(size), halves(size)
    x[:8], y[4:12] = special, special
    with np.errstate(all="ignore"):
        assert_equal_to_reference(elementwise(every, size), x, y, np.zeros(size, np.float16))


@pytest.mark.parametrize("stop", [T.dynamic("n", "int64"), T.int64(40), T.int64(300)])
def test_loops_of_64_bits_compute_with_data_of_64_bits(stop):
    n = T.dynamic("n", "int64")

    @T.prim_func
    def main(X: T.Tensor((n,), "float16"), C: T.Tensor((n,), "int64"), Y: T.Tensor((n,), "float16")):
        with T.Kernel(1):
            for i in T.Parallel(stop):
                v = C[i] * C[i] + i
                Y[i] = X[i] * X[i] + T.cast(v, "float16")

    assert "narrow" in parts(main)
    assert_equal_to_reference(main, halves(300), np.arange(300) % 7, np.zeros(300, np.float16))


@pytest.mark.parametrize("dtype", ["int8", "uint32", "int64"])
def test_loops_may_end_at_data(dtype):
    @T.prim_func
    def main(X: T.Tensor((300,), "float16"), N: T.Tensor((1,), dtype), Y: T.Tensor((300,), "float16")):
        with T.Kernel(1):
            for i in T.vectorized(N[0]):
                Y[i] = X[i] * X[i] + T.cast(i, "float16")

    assert "narrow" in parts(main)
    for size in (0, 21, 100):
        assert_equal_to_reference(main, halves(300), np.array([size], dtype), np.zeros(300, np.float16))


def test_the_last_batch_of_a_symbolic_size_may_be_short():
    n = T.dynamic("n")

    @T.prim_func
    def main(X: T.Tensor((n,), "float16"), Y: T.Tensor((n,), "float16"), S: T.Tensor((1,), "float32")):
        with T.Kernel(1):
            total = T.alloc_fragment((1,), "float32")
            total[0] = 0
            for j in T.Parallel(n):
                Y[j] = X[j] * X[j] + 1
            for j in T.serial(n):
                total[0] += T.cast(Y[j], "float32")
            S[0] = total[0]

    assert ["widen", "loop", "round", "loop", "narrow", "widen", "loop"] == parts(main)
    kernel = tilelang.compile(main, target="cpu", execution_backend="cc", compile_flags=FLAGS)
    for size in (0, 1, 15, 255, 256, 257, 700):
        x, s = RNG.integers(-8, 8, size).astype(np.float16), np.zeros(1, np.float32)
        y = np.full(size + 1, 9, np.float16)
        kernel(x, y[:size], s)
        np.testing.assert_array_equal([*(x * x + 1), 9], y)
        assert float((x * x + 1).sum(dtype=np.float32)) == s[0]


def test_statements_read_stores_of_previous_statements():
    @T.prim_func
    def main(X: T.Tensor((4, 64), "float16"), R: T.Tensor((2, 64), "float32")):
        with T.Kernel(1):
            for j in T.Parallel(64):
                scale = T.cast(X[0, j], "float32") * 1.25
                before = X[1, j]
                X[1, j] = X[0, j] * X[1, j] + 1
                R[0, j] = T.cast(X[1, j], "float32") + scale
                X[2, j] = X[1, j] * before
                R[1, j] = T.cast(X[2, j] * X[1, j], "float32") * scale
                X[3, j] = X[2, j]

    assert {"widen", "round", "narrow"} <= set(parts(main))
    assert_equal_to_reference(main, halves((4, 64)), np.zeros((2, 64), np.float32))


def test_predicated_elements_are_not_accessed():
    """Nothing beyond the tensor is read, although the loop goes on."""

    @T.prim_func
    def main(X: T.Tensor((40,), "float16"), I: T.Tensor((64,), "int32"), Y: T.Tensor((64,), "float16")):
        with T.Kernel(1):
            s = T.alloc_shared((40,), "float16")
            T.copy(X, s)
            for j in T.Parallel(64):
                Y[j] = T.if_then_else(j < 40, s[j], 1) * 3 + T.if_then_else(I[j] >= 0 and I[j] < 40, s[I[j]], 2)

    indices = RNG.integers(0, 40, 64).astype(np.int32)
    indices[::3] = 1 << 30
    assert "narrow" in parts(main)
    assert_equal_to_reference(main, halves(40), indices, np.zeros(64, np.float16))


def test_other_dtypes_and_strided_elements_beside_float16():
    @T.prim_func
    def main(
        X: T.Tensor((64, 64), "float16"), B: T.Tensor((64,), "bfloat16"), D: T.Tensor((64,), "float64"),
        Y: T.Tensor((64, 64), "float16"), C: T.Tensor((64,), "uint16"), F: T.Tensor((64,), "float64"),
    ):  # fmt: skip
        with T.Kernel(1):
            for i, j in T.Parallel(64, 64):
                Y[j, i] = X[i, j] * T.cast(B[j], "float16") + T.cast(D[j], "float16")
            for j in T.Parallel(64):
                C[j] = T.reinterpret(X[0, j] + X[1, j], "uint16")
                F[j] = T.cast(X[2, j] * 3, "float64") * D[j] + T.cast(T.sqrt(T.abs(X[3, j])), "float64")

    b = halves(64).astype(tilelang.dtypes.as_dtype("bfloat16").numpy)
    assert_equal_to_reference(
        main, halves((64, 64)), b, RNG.standard_normal(64), halves((64, 64)), np.zeros(64, np.uint16), np.zeros(64)
    )
