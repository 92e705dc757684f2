"""Reductions over threads."""

import functools
import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from simt import run_in_step

from tilelang.dtypes import BOOL, FLOAT32, INT32, as_dtype
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.builder import Builder
from tilelang.ir.expr import Load, Var, as_expr, cast
from tilelang.ir.func import Level, PrimFunc, TensorParam
from tilelang.ir.scalar import data_binary
from tilelang.ir.stmt import Alloc, CallStmt, Launch, Store
from tilelang.ir.visit import walk
from tilelang.targets.gpu.lowerings.loop_partition import ThreadDigit, primes
from tilelang.targets.gpu.lowerings.thread_all_reduce import COMBINE, Partial, ThreadReducer, each, neutral
from tilelang.targets.target import Target

THREAD = Var("thread", INT32, index=True)


def digits_of(threads):
    found, place = [], 1
    for prime in primes(threads):
        found.append(ThreadDigit(place, prime, (1,)))
        place *= prime
    return found


def program(threads, count, op, dtype, along, across, arch="sm_90a"):
    """A kernel in which every thread starts with results of its own and stores the totals."""
    start = Buffer("A", (as_expr(threads), as_expr(count)), dtype, Scope.GLOBAL)
    end = Buffer("B", (as_expr(threads), as_expr(count)), dtype, Scope.GLOBAL)
    shape, scope = ((as_expr(count),), Scope.LOCAL) if count > 1 else ((), Scope.VAR)
    partial = Partial(Buffer("part", shape, dtype, scope), op, tuple(along), tuple(across))
    build = Builder()
    build.emit(Alloc(partial.buffer))
    each(
        build, "q", count, lambda q: build.emit(Store(partial.buffer, partial.at(q), Load(start, (THREAD, q), dtype)))
    )
    ThreadReducer(build, THREAD, threads, Target("cuda", arch)).all_reduce([partial])
    each(build, "q", count, lambda q: build.emit(Store(end, (THREAD, q), partial.load(q))))
    launch = Launch((Var("bx", INT32, index=True),), (as_expr(1),), (threads, 1, 1), build.finish(), thread=THREAD)
    return PrimFunc("f", (TensorParam(start), TensorParam(end)), launch, Level.THREAD)


def totals(values, op, along, dtype):
    """What each thread should have: everything of the threads that differ from it in the digits `along` alone."""
    expected = np.empty_like(values)
    for thread in range(len(values)):
        rest = thread - sum(thread // d.thread_stride % d.size * d.thread_stride for d in along)
        steps = [range(0, d.thread_stride * d.size, d.thread_stride) for d in along]
        members = [rest + sum(at) for at in itertools.product(*steps)]
        expected[thread] = functools.reduce(lambda a, b: data_binary(COMBINE[op], a, b, dtype), values[members])
    return expected


@given(st.data())
def test_reductions_over_any_thread_digits(data):
    threads = data.draw(st.sampled_from([1, 6, 32, 48, 64, 96, 120, 256]))
    count = data.draw(st.sampled_from([1, 3]))
    role = {d: data.draw(st.sampled_from(["along", "across", "copy"])) for d in digits_of(threads)}
    along = [d for d, r in role.items() if r == "along"]
    across = [d for d, r in role.items() if r == "across"]
    op = data.draw(st.sampled_from(["+", "max", "min", "^"]))
    values = np.random.default_rng(0).integers(-9, 9, (threads, count)).astype(np.int32)
    for digit in (d for d, r in role.items() if r == "copy"):  # copies have equal results
        values = values[np.arange(threads) - np.arange(threads) // digit.thread_stride % digit.size * digit.thread_stride]
    arch = data.draw(st.sampled_from(["sm_75", "sm_80"]))  # by shuffles, by redux.sync
    func = program(threads, count, op, INT32, along, across, arch)
    (_, actual), _ = run_in_step(func, [values, np.zeros_like(values)])
    np.testing.assert_array_equal(totals(values, op, along, INT32), actual)


def test_nan_propagates_to_every_thread():
    func = program(64, 1, "max", FLOAT32, digits_of(64), [])
    values = np.zeros((64, 1), np.float32)
    values[37] = np.nan
    (_, actual), _ = run_in_step(func, [values, np.zeros_like(values)])
    assert np.isnan(actual).all()


def test_reductions_within_a_warp_need_no_shared_memory():
    lanes = [d for d in digits_of(128) if d.thread_stride < 32]
    func = program(128, 1, "+", FLOAT32, lanes, [d for d in digits_of(128) if d.thread_stride >= 32])
    scopes = [s.buffer.scope for s in walk(func.body) if isinstance(s, Alloc)]
    assert Scope.SHARED not in scopes
    assert 5 == sum(isinstance(s, CallStmt) for s in walk(func.body))


@pytest.mark.parametrize("op", ["+", "min", "fmax", "&", "|", "^"])
@pytest.mark.parametrize("dtype", ["int32", "uint32"])
def test_one_instruction_reduces_integers_over_a_warp(op, dtype):
    func = program(64, 1, op, as_dtype(dtype), digits_of(64)[:5], digits_of(64)[5:], "sm_80")
    (call,) = [s for s in walk(func.body) if isinstance(s, CallStmt)]
    assert call.routine.name.startswith("redux_")
    values = np.random.default_rng(1).integers(0, 2**31, (64, 1)).astype(dtype)
    (_, actual), _ = run_in_step(func, [values, np.zeros_like(values)])
    np.testing.assert_array_equal(totals(values, op, digits_of(64)[:5], as_dtype(dtype)), actual)


@pytest.mark.parametrize("op", ["min", "max"])
def test_one_instruction_reduces_floats_over_a_warp(op):
    func = program(64, 2, op, FLOAT32, digits_of(64)[:5], digits_of(64)[5:], "sm_80")
    assert [f"redux_{op}_float32"] == [s.routine.name for s in walk(func.body) if isinstance(s, CallStmt)]
    values = np.random.default_rng(1).standard_normal((64, 2)).astype(np.float32)
    values[40, 1] = np.nan
    (_, actual), _ = run_in_step(func, [values, np.zeros_like(values)])
    np.testing.assert_array_equal(totals(values, op, digits_of(64)[:5], FLOAT32), actual)


@pytest.mark.parametrize(("op", "dtype", "lanes", "arch"), [
    ("fmax", "float32", 5, "sm_80"), ("+", "float32", 5, "sm_80"), ("max", "float16", 5, "sm_80"),
    ("+", "int32", 5, "sm_75"), ("*", "int32", 5, "sm_80"), ("+", "int32", 4, "sm_80"), ("+", "int64", 5, "sm_80"),
])  # fmt: skip
def test_other_reductions_over_a_warp_take_shuffles(op, dtype, lanes, arch):
    func = program(64, 1, op, as_dtype(dtype), digits_of(64)[:lanes], digits_of(64)[lanes:], arch)
    calls = [s.routine.name for s in walk(func.body) if isinstance(s, CallStmt)]
    assert lanes == len(calls) and all(name.startswith("shuffle") for name in calls)


def test_each_warp_stores_one_partial_result():
    func = program(256, 1, "+", FLOAT32, digits_of(256), [])
    (shared,) = [s.buffer for s in walk(func.body) if isinstance(s, Alloc) and s.buffer.scope is Scope.SHARED]
    assert (8,) == tuple(e for e in shared.static_shape if e > 1)


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "float16", "bfloat16", "float64", "bool"])
@pytest.mark.parametrize("op", list(COMBINE))
def test_the_neutral_element(op, dtype):
    kind = as_dtype(dtype)
    if kind.is_float and op in "&|^" or kind == BOOL and op in "*+":
        return
    start = np.asarray(neutral(op, kind).value).astype(kind.numpy)
    for value in (0, 1) if kind == BOOL else (0, 1, 5, 100):
        element = np.asarray(value).astype(kind.numpy)
        assert element == data_binary(COMBINE[op], start, element, kind)
    if kind.is_float and op in ("max", "min"):
        assert math.isinf(neutral(op, kind).value)


def test_the_cast_of_the_thread_index_in_an_incomplete_last_warp():
    def mask(threads):
        return ThreadReducer(Builder(), THREAD, threads, Target("cuda", "sm_80")).mask()

    assert 0xFFFFFFFF == mask(64).value
    assert 0xFF == mask(8).value
    partly = mask(40)
    assert "thread < 32" in str(partly)
    assert cast(partly, as_dtype("uint32")) is partly
