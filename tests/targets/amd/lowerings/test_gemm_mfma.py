"""Products by MFMA and WMMA, lowered and simulated, against NumPy; and how their operands are placed."""

import dataclasses
import itertools

import numpy as np
import pytest
from amd_programs import gemm
from answers import accepted, constraints, reason
from hip_kernels import needs_clang
from hypothesis import given
from hypothesis import strategies as st
from lowered_gemm import Case, run

import tilelang
from tilelang.errors import ProgramWarning
from tilelang.ir.buffer import Scope
from tilelang.ir.expr import as_expr
from tilelang.layout.shared_memory import row_major
from tilelang.lowering.lowering import LoweringContext
from tilelang.lowering.operand_layout import conflict_cycles
from tilelang.ops.gemm import GemmWarpPolicy
from tilelang.options import CompileOptions
from tilelang.targets.amd.lowerings.gemm_mfma import LOWERING
from tilelang.targets.gpu.lowerings.row_order import HeldRows

ORDERS = list(itertools.product([False, True], repeat=2))
DTYPES = [  # operands, sums, architecture
    *[("float16", "float32", arch) for arch in ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201")],
    *[("bfloat16", "float32", arch) for arch in ("gfx90a", "gfx942", "gfx950", "gfx1151", "gfx1200")],
    ("float16", "float16", "gfx942"),
    ("bfloat16", "bfloat16", "gfx1201"),
    *[("int8", "int32", arch) for arch in ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201")],
    ("uint8", "int32", "gfx1100"),
    ("uint8", "int32", "gfx1201"),
    ("int4", "int32", "gfx1100"),
    ("uint4", "int32", "gfx1201"),
    ("float8_e4m3fnuz", "float32", "gfx942"),
    ("float8_e5m2fnuz", "float32", "gfx942"),
    ("float8_e4m3fn", "float32", "gfx950"),
    ("float8_e5m2", "float32", "gfx1200"),
    ("tfloat32", "float32", "gfx942"),
    ("tfloat32", "float32", "gfx950"),  # without xf32
    ("float32", "float32", "gfx90a"),
    ("float64", "float64", "gfx942"),
]


def check(case, **options):
    got, expected = run(case, LOWERING, **options)
    assert np.array_equal(expected.astype(np.float64), got.astype(np.float64))


def context(case):
    return LoweringContext(case.target, CompileOptions(), case.threads)


def atom_of(case):
    return accepted(LOWERING, case.gemm(), context(case)).atom


@pytest.mark.slow(every=12)
@pytest.mark.parametrize(("transpose_a", "transpose_b"), ORDERS)
@pytest.mark.parametrize(("dtype", "accum", "arch"), DTYPES)
def test_every_dtype_in_both_orders_of_both_operands(dtype, accum, arch, transpose_a, transpose_b):
    check(Case(64, 32, 64, dtype, accum, transpose_a, transpose_b, arch=arch))


@pytest.mark.parametrize(("dtype", "other", "arch"), [
    ("float8_e4m3fnuz", "float8_e5m2fnuz", "gfx942"), ("float8_e5m2", "float8_e4m3fn", "gfx950"),
    ("float8_e4m3fn", "float8_e5m2", "gfx1201"),
])  # fmt: skip
def test_operands_of_two_dtypes(dtype, other, arch):
    check(Case(32, 32, 128, dtype, arch=arch, dtype_b=other))
    check(Case(32, 32, 64, dtype, "float32", True, True, arch=arch, dtype_b=other, a_scope=Scope.FRAGMENT))


@pytest.mark.slow(every=12)
@pytest.mark.parametrize("arch", ["gfx942", "gfx950", "gfx1100", "gfx1201"])
@pytest.mark.parametrize(("a_scope", "b_scope"), list(itertools.product([Scope.SHARED, Scope.FRAGMENT], repeat=2)))
def test_every_placement(arch, a_scope, b_scope):
    for transpose_a, transpose_b in ORDERS:
        orders = transpose_a, transpose_b
        check(Case(64, 64, 32, "float16", "float32", *orders, arch=arch, a_scope=a_scope, b_scope=b_scope))


@pytest.mark.parametrize("policy", list(GemmWarpPolicy))
@pytest.mark.parametrize("arch", ["gfx90a", "gfx1151"])
def test_warp_policies(arch, policy):
    check(Case(64, 96, 32, arch=arch, policy=policy, threads=256))


@given(
    st.integers(1, 70), st.integers(1, 70), st.integers(1, 70), st.sampled_from(["float16", "int8", "float32"]),
    st.booleans(), st.booleans(), st.sampled_from(["gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"]),
)  # fmt: skip
def test_any_extents(m, n, k, dtype, transpose_a, transpose_b, arch):
    if dtype != "float32" or not arch.startswith("gfx1"):
        accum = "int32" if dtype == "int8" else "float32"
        check(Case(m, n, k, dtype, accum, transpose_a, transpose_b, arch=arch, threads=64))


@pytest.mark.parametrize(("arch", "dtype", "accum"), [
    ("gfx942", "uint8", "int32"), ("gfx942", "float8_e4m3fn", "float32"), ("gfx90a", "float8_e4m3fnuz", "float32"),
    ("gfx1100", "float32", "float32"), ("gfx1201", "float64", "float64"), ("gfx942", "int32", "int32"),
])  # fmt: skip
def test_what_no_instruction_multiplies_is_refused(arch, dtype, accum):
    case = Case(32, 32, 32, dtype, accum, arch=arch)
    expected = f"{arch} multiplies no {dtype} with sums in {accum} by matrix instructions"
    assert expected == reason(LOWERING, case.gemm(), context(case))


@pytest.mark.parametrize(
    ("case", "name"),
    [
        # k in memory order: lanes load 16 bytes
        (Case(128, 128, 64, transpose_b=True, arch="gfx942", threads=256), "mfma_f32_32x32x8f16_1x1x2_k8_8"),
        (Case(128, 128, 64, transpose_b=True, arch="gfx950", threads=256), "mfma_f32_32x32x16_f16_1x1x1_k8_8"),
        (Case(128, 128, 64, transpose_b=True, arch="gfx1100"), "wmma_f32_16x16x16_f16_w32_1x1x1_k8_8"),
        (Case(128, 128, 64, transpose_b=True, arch="gfx1201"), "wmma_f32_16x16x16_f16_w32_gfx12_1x1x1_k8_8"),
        # columns in memory order: lanes load several of them
        (Case(128, 128, 64, arch="gfx942", threads=256), "mfma_f32_32x32x8f16_1x2x2_n8_8"),
        (Case(128, 128, 64, arch="gfx1100"), "wmma_f32_16x16x16_f16_w32_1x4x1_n8_8"),
        # tiles that larger instructions would pad
        (Case(16, 64, 64, transpose_b=True, arch="gfx942"), "mfma_f32_16x16x16f16_1x2x2_k8_8"),
        # twice the rate
        (Case(128, 128, 128, "float8_e4m3fn", transpose_b=True, arch="gfx950", threads=256),
         "mfma_scale_f32_32x32x64_f8f6f4_fp8_fp8_1x1x1_k16_8"),
    ],
)  # fmt: skip
def test_the_instruction_with_the_fewest_clocks_and_loads(case, name):
    assert name == atom_of(case).name


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"])
@pytest.mark.parametrize("dim", [64, 128, 256])
@pytest.mark.parametrize("rows", [64, 128])
def test_attention_multiplies_its_weights_where_they_are(arch, rows, dim):
    """The sums of Q @ K.T have the owners that A has in the product with V."""
    scores = Case(rows, 64, dim, transpose_b=True, arch=arch, policy=GemmWarpPolicy.FullRow)
    output = Case(rows, dim, 64, arch=arch, policy=GemmWarpPolicy.FullRow, a_scope=Scope.FRAGMENT)
    made, wanted = scores.gemm(), output.gemm()
    sums = next(c.layout for c in constraints(LOWERING, made, context(scores)) if c.var is made.c.buffer)
    weights = next(c.layout for c in constraints(LOWERING, wanted, context(output)) if c.var is wanted.a.buffer)
    assert sums.same_owners(weights)


@pytest.mark.parametrize(("case", "parts"), [
    (Case(256, 256, 32, transpose_b=True, arch="gfx1100", threads=256), [(0, 4, 0, 4), (0, 4, 4, 4)]),  # 256 sums a lane
    (Case(512, 128, 32, transpose_b=True, arch="gfx1201", threads=256, policy=GemmWarpPolicy.FullRow),
     [(0, 4, 0, 4), (0, 4, 4, 4)]),
    (Case(256, 256, 32, arch="gfx1100", threads=256), [(0, 4, 0, 1), (0, 4, 1, 1)]),
    (Case(256, 256, 32, transpose_b=True, arch="gfx1100", threads=512), [(0, 4, 0, 4)]),
    (Case(256, 256, 32, transpose_b=True, arch="gfx942", threads=512), [(0, 2, 0, 4)]),
])  # fmt: skip
def test_sums_that_do_not_fit_into_registers_are_computed_in_parts(case, parts):
    op = case.gemm()
    made = LOWERING._divided(op, accepted(LOWERING, op, context(case)), context(case))
    found = LOWERING._parts(made, context(case))
    assert parts == [(part.first_row, part.rows, part.first_column, part.columns) for part in found]


@pytest.mark.slow(every=12)
@pytest.mark.parametrize("arch", ["gfx1100", "gfx1201"])
@pytest.mark.parametrize(("a_scope", "b_scope"), [
    (Scope.SHARED, Scope.SHARED), (Scope.FRAGMENT, Scope.SHARED), (Scope.SHARED, Scope.FRAGMENT),
    (Scope.FRAGMENT, Scope.FRAGMENT),
])  # fmt: skip
def test_parts_of_sums(arch, a_scope, b_scope):
    check(Case(256, 256, 24, arch=arch, threads=256, a_scope=a_scope, b_scope=b_scope))


TILES = [(128, 128, 32), (128, 128, 64), (64, 128, 64), (64, 64, 32)]


@pytest.mark.slow(every=28)
@pytest.mark.parametrize(("transpose_a", "transpose_b"), ORDERS)
@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize("policy", [GemmWarpPolicy.Square, GemmWarpPolicy.FullRow])
@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"])
def test_loads_of_a_tile_have_no_bank_conflicts(arch, policy, tile, transpose_a, transpose_b):
    check_banks(Case(*tile, "float16", "float32", transpose_a, transpose_b, arch=arch, threads=256, policy=policy))


@pytest.mark.parametrize(("transpose_a", "transpose_b"), ORDERS)
@pytest.mark.parametrize(("arch", "dtype", "accum"), [
    ("gfx942", "int8", "int32"), ("gfx942", "float32", "float32"), ("gfx950", "float8_e4m3fn", "float32"),
    ("gfx1100", "int8", "int32"), ("gfx1201", "float8_e5m2", "float32"),
])  # fmt: skip
def test_loads_of_other_dtypes_have_no_bank_conflicts(arch, dtype, accum, transpose_a, transpose_b):
    check_banks(Case(128, 128, 64, dtype, accum, transpose_a, transpose_b, arch=arch, threads=256))


def check_banks(case):
    op = case.gemm()
    plan = accepted(LOWERING, op, context(case))
    made = LOWERING._divided(op, plan, context(case))
    machine = case.target.machine
    for share in (made.a, made.b):
        shape = share.region.buffer.static_shape
        layout = share.layout(machine) or row_major(shape)
        assert not any(conflict_cycles(layout, access, share.dtype, machine) for access in share.accesses(*shape))


def explained(func, arch):
    target = {"kind": "hip", "arch": arch}
    return tilelang.compile(func, target=target, execution_backend="simulator").explain()


def test_what_has_no_matrix_instruction_is_explained():
    no_float8 = "T.gemm: no gemm.mma: gfx90a multiplies no float8_e4m3fn with sums in float32 by matrix instructions"
    with pytest.warns(ProgramWarning, match="gfx90a multiplies no float8_e4m3fn .* by matrix instructions, but by gemm.fma") as seen:
        assert no_float8 in explained(gemm(64, dtype="float8_e4m3fn"), "gfx90a")
    assert "convert the tiles to float16 by T.copy" in str(seen[0].message)
    assert "T.gemm: no" not in explained(gemm(64, dtype="float8_e4m3fn"), "gfx950")


def test_what_another_dtype_multiplies_is_explained():
    stands_in = "T.gemm: gfx950 multiplies no tfloat32; float32 holds them exactly"
    assert stands_in in explained(gemm(64, dtype="tfloat32"), "gfx950")
    assert "multiplies no" not in explained(gemm(64, dtype="tfloat32"), "gfx942")


ROWS = Case(128, 128, 64, transpose_b=True, arch="gfx942", threads=256)


@pytest.mark.parametrize(
    ("case", "held"),
    [
        (ROWS, HeldRows.ALL),
        (dataclasses.replace(ROWS, arch="gfx90a"), HeldRows.ALL),
        (dataclasses.replace(ROWS, arch="gfx950"), None),  # tiles go to LDS directly
        (dataclasses.replace(ROWS, m=64, n=64), None),  # a row has no other instructions
        (dataclasses.replace(ROWS, k=16), None),  # there is one step
        (dataclasses.replace(ROWS, k=72), None),  # the last step is partial
        (dataclasses.replace(ROWS, m=256, n=256, threads=512), None),  # waves may ping-pong
        (dataclasses.replace(ROWS, a_scope=Scope.FRAGMENT), None),
        (dataclasses.replace(ROWS, arch="gfx1100", threads=128), HeldRows.ONE),
        (dataclasses.replace(ROWS, m=256, n=256, arch="gfx1100"), HeldRows.ONE),  # in parts of the sums
        (dataclasses.replace(ROWS, m=64, n=64, arch="gfx1100", threads=128), None),  # registers hold two steps
    ],
)
def test_operands_are_loaded_by_rows_where_registers_are_needed_for_others(case, held):
    assert held == held_rows(case)


def test_rows_that_do_not_fit_into_registers_are_no_order():
    case = dataclasses.replace(ROWS, arch="gfx1100", threads=128)  # with 128 sums, and 40 registers of operands
    assert [HeldRows.ONE, None] == [held_rows(case, others=others) for others in (256 - 168, 256 - 168 + 1)]


def held_rows(case, others=0):
    """The rows that registers hold beside the sums and those of other fragments."""
    op, where = case.gemm(), context(case)

    def held(buffer, count):
        return dataclasses.replace(buffer, dtype=op.c.dtype, shape=(as_expr(count),))

    registers = {op.c.buffer: held(op.c.buffer, case.m * case.n // case.threads), op.a.buffer: held(op.a.buffer, others)}
    made = LOWERING._divided(op, accepted(LOWERING, op, where), where)
    return LOWERING._loading(made, dataclasses.replace(where, registers=registers)).held


@pytest.mark.slow(every=8)
@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx1100", "gfx1200"])
@pytest.mark.parametrize(("transpose_a", "transpose_b"), ORDERS)
def test_operands_by_rows(arch, transpose_a, transpose_b):
    check(Case(128, 128, 64, "float16", "float32", transpose_a, transpose_b, arch=arch, threads=256 if arch.startswith("gfx9") else 128))


@needs_clang
def test_a_tile_of_128_by_128_takes_no_more_registers_than_four_waves_have() -> None:
    kernel = tilelang.compile(gemm(256, depth=64), target={"kind": "hip", "arch": "gfx942"})
    assert kernel.resources.registers <= 128
    assert kernel.resources.spill_bytes == 0
