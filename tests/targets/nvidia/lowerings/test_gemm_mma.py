"""Products by matrix instructions, lowered and simulated, against NumPy: whatever the shape, dtype and placement."""

import itertools

import numpy as np
import pytest
from answers import reason
from hypothesis import given, settings
from hypothesis import strategies as st
from lowered_gemm import Case, lowered, run

from tilelang.ir.buffer import Scope
from tilelang.ir.stmt import CallStmt
from tilelang.ir.visit import walk
from tilelang.lowering.lowering import LoweringContext
from tilelang.ops.gemm import GemmWarpPolicy
from tilelang.options import CompileOptions
from tilelang.sim.counters import Counters
from tilelang.targets.nvidia.lowerings.gemm_mma import LOWERING
from tilelang.targets.target import Target

DTYPES = [  # operands, sums, architecture, K of a few steps
    ("float16", "float32", "sm_75", 16),
    ("float16", "float32", "sm_80", 32),
    ("float16", "float16", "sm_80", 32),
    ("bfloat16", "float32", "sm_80", 32),
    ("bfloat16", "bfloat16", "sm_80", 32),
    ("tfloat32", "float32", "sm_80", 16),
    ("float64", "float64", "sm_80", 8),
    ("float64", "float64", "sm_90a", 32),
    ("int8", "int32", "sm_75", 32),
    ("int8", "int32", "sm_80", 64),
    ("uint8", "int32", "sm_80", 64),
    ("int4", "int32", "sm_75", 64),
    ("uint4", "int32", "sm_80", 64),
    ("float8_e4m3fn", "float32", "sm_89", 64),
    ("float8_e5m2", "float32", "sm_89", 64),
]
ORDERS = list(itertools.product([False, True], repeat=2))


def check(case, **options):
    got, expected = run(case, LOWERING, **options)
    assert np.array_equal(expected.astype(np.float64), got.astype(np.float64))


@pytest.mark.slow(every=12)
@pytest.mark.parametrize(("transpose_a", "transpose_b"), ORDERS)
@pytest.mark.parametrize(("dtype", "accum", "arch", "k"), DTYPES)
def test_every_dtype_in_both_orders_of_both_operands(dtype, accum, arch, k, transpose_a, transpose_b):
    check(Case(32, 32, k, dtype, accum, transpose_a, transpose_b, arch=arch, threads=64))


MIXED = [("float8_e4m3fn", "float8_e5m2"), ("float8_e5m2", "float8_e4m3fn")]


@pytest.mark.parametrize(("transpose_a", "transpose_b"), ORDERS)
@pytest.mark.parametrize(("dtype", "other"), MIXED)
def test_operands_of_two_dtypes(dtype, other, transpose_a, transpose_b):
    for scope in (Scope.SHARED, Scope.FRAGMENT):
        orders = transpose_a, transpose_b
        check(Case(32, 16, 64, dtype, "float32", *orders, arch="sm_89", threads=64, dtype_b=other, a_scope=scope))


@pytest.mark.parametrize(("transpose_a", "transpose_b"), ORDERS)
@pytest.mark.parametrize("shape", [(1, 64, 32), (20, 10, 24), (33, 17, 19), (40, 24, 40), (16, 8, 1)])
def test_sizes_that_the_instruction_does_not_divide(shape, transpose_a, transpose_b):
    check(Case(*shape, transpose_a=transpose_a, transpose_b=transpose_b))


SCOPES = [(Scope.FRAGMENT, Scope.SHARED), (Scope.SHARED, Scope.FRAGMENT), (Scope.FRAGMENT, Scope.FRAGMENT)]


@pytest.mark.slow(every=20)
@pytest.mark.parametrize(("transpose_a", "transpose_b"), ORDERS)
@pytest.mark.parametrize(("a", "b"), SCOPES)
@pytest.mark.parametrize("policy", GemmWarpPolicy)
def test_operands_in_fragments(a, b, policy, transpose_a, transpose_b):
    check(Case(32, 48, 32, transpose_a=transpose_a, transpose_b=transpose_b, a_scope=a, b_scope=b, policy=policy))


@pytest.mark.parametrize(("a", "b"), SCOPES)
@pytest.mark.parametrize(("dtype", "accum"), [("float16", "float32"), ("int8", "int32"), ("tfloat32", "float32")])
def test_fragments_with_padding_along_every_side(a, b, dtype, accum):
    check(Case(37, 21, 21, dtype, accum, a_scope=a, b_scope=b))


@pytest.mark.parametrize("shape", [(1, 32, 32), (32, 1, 32), (1, 1, 21)])
@pytest.mark.parametrize(("a", "b"), SCOPES)
@pytest.mark.parametrize(("dtype", "accum"), [("float16", "float32"), ("int8", "int32"), ("tfloat32", "float32")])
def test_a_single_row_in_a_fragment_stands_for_all_rows_of_the_instruction(a, b, dtype, accum, shape):
    check(Case(*shape, dtype, accum, a_scope=a, b_scope=b))


@pytest.mark.parametrize("transpose_b", [False, True])
def test_a_tile_that_is_one_version_of_several(transpose_b):
    check(Case(32, 32, 48, stages=3, transpose_b=transpose_b))


@pytest.mark.parametrize("clear", [True, False])
@pytest.mark.parametrize("accum", ["float32", "bfloat16"])
def test_sums_are_cleared_or_kept(clear, accum):
    check(Case(32, 32, 16, "bfloat16", accum, clear=clear))


@pytest.mark.parametrize("threads", [32, 96, 256])
def test_any_number_of_warps(threads):
    check(Case(32, 24, 16, threads=threads))


@settings(max_examples=15)
@given(
    m=st.integers(1, 40),
    n=st.integers(1, 40),
    k=st.integers(1, 40),
    dtype=st.sampled_from(DTYPES),
    orders=st.sampled_from(ORDERS),
    scopes=st.sampled_from([(Scope.SHARED, Scope.SHARED), *SCOPES]),
    policy=st.sampled_from(list(GemmWarpPolicy)),
    warps=st.integers(1, 5),
    stages=st.integers(1, 2),
)
def test_random_products(m, n, k, dtype, orders, scopes, policy, warps, stages):
    operands, accum, arch, _ = dtype
    check(
        Case(
            *(m, n, k, operands, accum, *orders),
            policy=policy,
            threads=32 * warps,
            arch=arch,
            a_scope=scopes[0],
            b_scope=scopes[1],
            stages=stages,
        )
    )


@pytest.mark.slow(every=20)
@pytest.mark.parametrize(("transpose_a", "transpose_b"), ORDERS)
@pytest.mark.parametrize(
    ("dtype", "accum", "k"),
    [
        ("float16", "float32", 32),
        ("float16", "float32", 64),
        ("float16", "float32", 40),
        ("tfloat32", "float32", 32),
        ("float64", "float64", 16),
        ("int8", "int32", 64),
    ],
)
def test_loads_of_operands_meet_no_bank_conflicts(dtype, accum, k, transpose_a, transpose_b):
    case = Case(64, 64, k, dtype, accum, transpose_a, transpose_b, threads=64)
    counters = Counters()
    run(case, LOWERING, report=counters)
    assert 0 == counters.traffic["shared load"].extra


def instructions(func):
    return [s.routine.name for s in walk(func.body) if isinstance(s, CallStmt) and "sync" not in s.routine.name]


@pytest.mark.parametrize(
    ("transpose_a", "transpose_b", "names"),
    [
        (False, False, ["tl_ldmatrix_x4", "tl_ldmatrix_x4_trans"]),
        (False, True, ["tl_ldmatrix_x4", "tl_ldmatrix_x4"]),
        (True, False, ["tl_ldmatrix_x4_trans", "tl_ldmatrix_x4_trans"]),
    ],
)
def test_sixteen_bit_operands_come_by_matrix_loads_in_either_order(transpose_a, transpose_b, names):
    func = lowered(Case(128, 128, 16, transpose_a=transpose_a, transpose_b=transpose_b), LOWERING)
    assert [*names, "tl_mma_m16n8k16_f32_f16_f16"] == instructions(func)


def test_a_step_is_fetched_before_the_instructions_of_the_one_before_where_registers_suffice():
    load, multiply = ["tl_ldmatrix_x4", "tl_ldmatrix_x4_trans"], "tl_mma_m16n8k16_f32_f16_f16"
    assert [*load, *load, multiply, multiply] == instructions(lowered(Case(128, 128, 48), LOWERING))
    assert [*load, multiply] == instructions(lowered(Case(128, 192, 48), LOWERING))


@pytest.mark.parametrize("k", [24, 40, 48, 56])
def test_steps_take_turns_whatever_their_number(k):
    check(Case(32, 32, k, "float16", threads=32))
    check(Case(32, 32, k, "tfloat32", threads=32, a_scope=Scope.FRAGMENT))


def test_sums_of_an_instruction_are_used_where_they_are():
    text = str(lowered(Case(64, 64, 32), LOWERING))
    assert "C_tile_sums" not in text


def refusal(case, **context):
    threads = context.get("threads", case.threads)
    return reason(LOWERING, case.gemm(), LoweringContext(Target("cuda", case.arch), CompileOptions(), threads))


@pytest.mark.parametrize(
    ("case", "words"),
    [
        (Case(16, 16, 16, "float32", "float32"), "sm_80 multiplies no float32 with sums in float32"),
        (Case(16, 16, 16, "bfloat16", arch="sm_75"), "sm_75 multiplies no bfloat16"),
        (Case(16, 16, 16, "float32", "float64"), "float64"),
        (Case(16, 16, 32, "float8_e5m2", dtype_b="float8_e4m3fn"), "no float8_e5m2 by float8_e4m3fn with sums in"),
    ],
)
def test_a_refusal_says_why(case, words):
    assert words in refusal(case)
