"""Gemms by FMA instructions, lowered and simulated, against NumPy."""

import itertools

import numpy as np
import pytest
from answers import reason
from hypothesis import given, settings
from hypothesis import strategies as st
from lowered_gemm import Case, lowered, run

from tilelang.ir.buffer import Scope
from tilelang.lowering.lowering import LoweringContext
from tilelang.options import CompileOptions
from tilelang.sim.counters import Counters
from tilelang.targets.gpu.lowerings.gemm_fma import LOWERING
from tilelang.targets.target import Target

ORDERS = list(itertools.product([False, True], repeat=2))
DTYPES = [
    ("float32", "float32"),
    ("float32", "float64"),
    ("float64", "float64"),
    ("int32", "int32"),
    ("float16", "float16"),
    ("bfloat16", "bfloat16"),
    ("float8_e5m2", "float32"),
    ("int4", "int32"),
]


def check(case):
    got, expected = run(case, LOWERING)
    assert np.array_equal(expected.astype(np.float64), got.astype(np.float64))


@pytest.mark.parametrize(("transpose_a", "transpose_b"), ORDERS)
@pytest.mark.parametrize(("dtype", "accum"), DTYPES)
def test_every_dtype_in_both_orders_of_both_operands(dtype, accum, transpose_a, transpose_b):
    check(Case(16, 32, 8, dtype, accum, transpose_a, transpose_b, threads=32))


@pytest.mark.parametrize(("transpose_a", "transpose_b"), ORDERS)
@pytest.mark.parametrize("shape", [(1, 64, 16), (33, 17, 19), (5, 1, 7), (1, 1, 1)])
def test_any_shape(shape, transpose_a, transpose_b):
    check(Case(*shape, "float32", "float32", transpose_a, transpose_b))


@pytest.mark.parametrize("threads", [1, 7, 48, 96])
@pytest.mark.parametrize("clear", [True, False])
def test_any_number_of_threads(threads, clear):
    check(Case(8, 12, 6, "float32", "float32", threads=threads, clear=clear))


@pytest.mark.parametrize("dtypes", [("float8_e4m3fn", "float8_e5m2"), ("float8_e5m2", "float8_e4m3fn")])
def test_operands_of_two_dtypes(dtypes):
    check(Case(16, 32, 8, dtypes[0], "float32", threads=32, dtype_b=dtypes[1]))


class AlmostOne(Case):
    """A product of numbers that tf32 rounds to 1."""

    def arguments(self, seed):
        return [np.full_like(array, 1 + 2.0**-12) for array in super().arguments(seed)]


@pytest.mark.parametrize(("transpose_a", "transpose_b"), ORDERS)
def test_elements_are_rounded_to_tf32(transpose_a, transpose_b):
    got, _ = run(AlmostOne(16, 32, 8, "tfloat32", "float32", transpose_a, transpose_b, clear=True), LOWERING)
    assert np.array_equal(got, np.full((16, 32), 8))


@settings(max_examples=10)
@given(
    m=st.integers(1, 24),
    n=st.integers(1, 24),
    k=st.integers(1, 12),
    dtype=st.sampled_from(DTYPES),
    orders=st.sampled_from(ORDERS),
    threads=st.integers(1, 70),
    stages=st.integers(1, 2),
)
def test_random_gemms(m, n, k, dtype, orders, threads, stages):
    check(Case(m, n, k, *dtype, *orders, threads=threads, stages=stages))


@pytest.mark.parametrize(("transpose_a", "transpose_b"), ORDERS)
def test_operand_loads_are_free_of_bank_conflicts(transpose_a, transpose_b):
    counters = Counters()
    run(Case(64, 64, 16, "float32", "float32", transpose_a, transpose_b), LOWERING, report=counters)
    assert 0 == counters.traffic["shared load"].extra


def test_elements_are_loaded_sixteen_bytes_at_a_time():
    text = str(lowered(Case(64, 64, 16, "float32", "float32"), LOWERING))
    assert 2 == text.count("for v in T.unroll")
    assert "_r[v * 4:v * 4 + 4]" in text


def test_operands_must_be_in_shared_memory():
    context = LoweringContext(Target("cuda", "sm_80"), CompileOptions(), 128)
    case = Case(16, 16, 16, "float32", "float32", a_scope=Scope.FRAGMENT)
    assert "A is in scope local.fragment" == reason(LOWERING, case.gemm(), context)
