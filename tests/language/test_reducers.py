"""`T.alloc_reducer` and its kin: what is emitted, what it means everywhere, and arguments that are refused."""

import numpy as np
import pytest
from harness import run_everywhere
from hypothesis import given, settings
from hypothesis import strategies as st

import tilelang.language as T
from tilelang.errors import ProgramAssertionError, ProgramError, ProgramValueError, TileLangError
from tilelang.ir.expr import Const
from tilelang.ir.stmt import Alloc
from tilelang.language import deprecation
from tilelang.language.stage import Stager
from tilelang.ops.fill import Fill

FOLDS = {
    "sum": np.add,
    "max": np.maximum,
    "min": np.minimum,
    "bitand": np.bitwise_and,
    "bitor": np.bitwise_or,
    "bitxor": np.bitwise_xor,
}


def test_a_reducer_starts_at_the_neutral_element(stager: Stager) -> None:
    T.alloc_reducer((4,), "float32", op="max")
    fill = stager.statements[1]
    assert isinstance(fill, Fill)
    assert isinstance(fill.value, Const)
    assert float("-inf") == fill.value.value


def test_an_epoch_replaces_the_first_value(stager: Stager) -> None:
    reducer = T.alloc_reducer((4,), "float32")
    T.reducer_init(reducer, 2.0)
    alloc, fill = stager.statements
    assert isinstance(alloc, Alloc)
    assert isinstance(fill, Fill)
    assert 2.0 == fill.value.value  # type: ignore[attr-defined]


def test_in_the_older_syntax_finalizing_emits_nothing(stager: Stager) -> None:
    reducer = T.alloc_reducer((4,), "float32")
    before = len(stager.statements)
    T.finalize_reducer(reducer)
    assert before == len(stager.statements)


def test_replication_warns_once(stager: Stager) -> None:
    deprecation._TOLD.clear()
    with pytest.warns(DeprecationWarning, match="replication is deprecated"):
        T.alloc_reducer((4,), replication="all")
    T.alloc_reducer((4,), replication="none")


@pytest.mark.parametrize("op", FOLDS)
def test_epochs_in_a_serial_loop_fold_each_time_anew(op: str) -> None:
    fold = FOLDS[op]

    @T.prim_func
    def f(A: T.Tensor((3, 20, 24), "int32"), B: T.Tensor((3, 20), "int32"), S: T.Tensor((3, 20), "int32")):
        with T.Kernel(1, threads=64) as _:
            a, seed = T.alloc_fragment((20, 24), "int32"), T.alloc_fragment((20,), "int32")
            totals, acc = T.alloc_fragment((20,), "int32"), T.alloc_reducer((20,), "int32", op=op)
            for k in T.serial(3):
                T.copy(A[k, :, :], a)
                T.reducer_init(acc)
                for i, j in T.Parallel(20, 24):
                    T.reducer_update(acc[i], a[i, j])
                T.finalize_reducer(acc, totals)
                T.copy(totals, B[k, :])
            seeded = T.alloc_reducer((20,), "int32", op=op)
            for k in T.serial(3):
                T.copy(A[k, :, 0], seed)
                T.reducer_init(seeded, seed)
                T.clear(seed)  # what it was when the epoch began counts
                for i, j in T.Parallel(20, 24):
                    T.reducer_update(seeded[i], A[k, i, j])
                for i in T.Parallel(20):
                    T.reducer_update(seeded[i], 5)
                T.finalize_reducer(seeded, dst=totals, batch=4)
                T.copy(totals, S[k, :])

    a = np.random.default_rng(0).integers(-(2**31), 2**31 - 1, (3, 20, 24), dtype=np.int32)
    _, totals, seeded = run_everywhere(f, a, np.zeros((3, 20), np.int32), np.zeros((3, 20), np.int32))
    folded = fold.reduce(a, axis=2, dtype=np.int32)
    np.testing.assert_array_equal(folded, totals)
    np.testing.assert_array_equal(fold(fold(folded, a[:, :, 0]), np.int32(5)), seeded)


def test_an_epoch_around_a_pipelined_loop_and_one_in_each_of_its_iterations() -> None:
    @T.prim_func
    def f(A: T.Tensor((64, 256), "float32"), B: T.Tensor((64,), "float32"), C: T.Tensor((4, 64), "float32")):
        with T.Kernel(1, threads=128) as _:
            a = T.alloc_shared((64, 64), "float32")
            total, low = T.alloc_fragment((64,), "float32"), T.alloc_fragment((64,), "float32")
            acc, least = T.alloc_reducer((64,), "float32"), T.alloc_reducer((64,), "float32", op="min")
            T.reducer_init(acc, T.float32(1))
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[0, k * 64], a)
                T.reducer_init(least, 0.25)
                for i, j in T.Parallel(64, 64):
                    T.reducer_update(acc[i], a[i, j])
                    T.reducer_update(least[i], a[i, j])
                T.finalize_reducer(least, low)
                T.copy(low, C[k, :])
            T.finalize_reducer(acc, total)
            T.copy(total, B)

    a = np.random.default_rng(1).integers(-9, 9, (64, 256)).astype(np.float32)
    _, total, low = run_everywhere(f, a, np.zeros(64, np.float32), np.zeros((4, 64), np.float32))
    np.testing.assert_array_equal(a.sum(1) + 1, total)
    np.testing.assert_array_equal(np.minimum(a.reshape(64, 4, 64).min(2).T, np.float32(0.25)), low)


def test_updates_of_one_element_and_an_end_in_branches() -> None:
    @T.prim_func
    def f(A: T.Tensor((300,), "float16"), B: T.Tensor((2,), "float32")):
        with T.Kernel(2, threads=96) as b:
            acc, total = T.alloc_reducer(1, "float32"), T.alloc_fragment(1, "float32")
            T.clear(total)
            T.reducer_init(acc)
            if b == 0:
                for t in T.serial(3):
                    for i in T.Parallel(100):
                        T.reducer_update(acc[0], A[t * 100 + i])
                T.finalize_reducer(acc, total)
            T.copy(total, B[b])

    a = np.arange(300).astype(np.float16) % 7
    _, totals = run_everywhere(f, a, np.ones(2, np.float32))
    np.testing.assert_array_equal([a.astype("f").sum(), 0], totals)


@settings(max_examples=3)
@given(st.sampled_from(["sum", "max", "min"]), st.integers(1, 40), st.integers(1, 70), st.sampled_from([32, 96, 128]))
def test_reducers_agree_with_reductions(op: str, rows: int, columns: int, threads: int) -> None:
    @T.prim_func
    def f(A: T.Tensor((rows, columns), "float32"), B: T.Tensor((2, rows), "float32")):
        with T.Kernel(1, threads=threads) as _:
            a, total = T.alloc_fragment((rows, columns), "float32"), T.alloc_fragment((rows,), "float32")
            acc = T.alloc_reducer((rows,), "float32", op)
            T.copy(A, a)
            T.reducer_init(acc)
            for i, j in T.Parallel(rows, columns):
                T.reducer_update(acc[i], a[i, j])
            T.finalize_reducer(acc, total)
            T.copy(total, B[0, :])
            T.reduce(a, total, op, 1, True)
            T.copy(total, B[1, :])

    a = np.random.default_rng(rows).integers(-9, 9, (rows, columns)).astype(np.float32)
    _, totals = run_everywhere(f, a, np.zeros((2, rows), np.float32))
    np.testing.assert_array_equal(totals[0], totals[1])


def test_the_older_syntax_reads_the_reducer_itself() -> None:
    @T.prim_func
    def f(A: T.Tensor((8, 40), "float32"), B: T.Tensor((2, 8), "float32")):
        with T.Kernel(1, threads=64) as _:
            acc, most = T.alloc_reducer((8,), "float32"), T.alloc_reducer((8,), "float32", op="max")
            T.clear(acc)
            T.fill(most, -T.infinity("float32"))
            for i, j in T.Parallel(8, 40):
                acc[i] += A[i, j]
                most[i] = T.max(most[i], A[i, j])
            T.finalize_reducer(acc)
            T.finalize_reducer(most)
            for i in T.Parallel(8):
                B[0, i] = acc[i] * 2
            T.copy(most, B[1, :])

    a = np.random.default_rng(2).integers(-9, 9, (8, 40)).astype(np.float32)
    _, out = run_everywhere(f, a, np.zeros((2, 8), np.float32))
    np.testing.assert_array_equal([a.sum(1) * 2, a.max(1)], out)


REFUSED = {
    "T.alloc_reducer: op is 'mean'": (ProgramValueError, lambda: T.alloc_reducer((4,), "float32", op="mean")),
    "op='bitand' needs an integer dtype, got float32": (
        ProgramAssertionError,
        lambda: T.alloc_reducer((4,), "float32", op="bitand"),
    ),
    "T.alloc_reducer: replication is 'some'": (ProgramValueError, lambda: T.alloc_reducer((4,), replication="some")),
    "is in scope 'shared.dyn', not a reducer": (ProgramValueError, lambda: T.finalize_reducer(T.alloc_shared((4,)))),
    "init is float16, which does not match reducer 'reducer' of float32": (
        ProgramValueError,
        lambda: T.reducer_init(T.alloc_reducer((4,)), T.float16(1)),
    ),
    "init 'fragment' is int32, which does not match reducer": (
        ProgramValueError,
        lambda: T.reducer_init(T.alloc_reducer((4,)), T.alloc_fragment((4,), "int32")),
    ),
    r"init 'fragment' is \(5,\), which does not match reducer 'reducer' \(4,\)": (
        ProgramValueError,
        lambda: T.reducer_init(T.alloc_reducer((4,)), T.alloc_fragment((5,))),
    ),
    "T.reducer_update: the target is .*, no element of a reducer": (
        ProgramValueError,
        lambda: T.reducer_update(T.alloc_fragment((4,))[0], 1),
    ),
    "'fragment' is float16, but reducer 'reducer' is float32": (
        ProgramValueError,
        lambda: T.finalize_reducer(T.alloc_reducer((4,)), T.alloc_fragment((4,), "float16")),
    ),
    r"'fragment' is \(3,\), but reducer 'reducer' is \(4,\)": (
        ProgramValueError,
        lambda: T.finalize_reducer(T.alloc_reducer((4,)), T.alloc_fragment((3,))),
    ),
    "batch must be >= 1, got 0": (
        ProgramValueError,
        lambda: T.finalize_reducer(T.alloc_reducer((4,)), T.alloc_fragment((4,)), batch=0),
    ),
    "batch 8 exceeds total output elements of 'reducer', 4": (
        ProgramValueError,
        lambda: T.finalize_reducer(T.alloc_reducer((4,)), batch=8),
    ),
    "batch 3 must evenly divide the 4 elements": (
        ProgramValueError,
        lambda: T.finalize_reducer(T.alloc_reducer((4,)), batch=3),
    ),
    "needs a whole buffer": (ProgramError, lambda: T.reducer_init(T.alloc_reducer((4,))[:2])),
}


@pytest.mark.parametrize("message", REFUSED)
def test_wrong_arguments(message: str, stager: Stager) -> None:
    kind, call = REFUSED[message]
    with pytest.raises(kind, match=message) as caught:
        call()
    assert isinstance(caught.value, TileLangError)
