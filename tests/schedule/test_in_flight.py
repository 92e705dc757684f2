"""What waits for a gemm that is in flight."""

import dataclasses

import pytest
from specialized import context, gemm_kernel, launch_of

from tilelang.dtypes import FLOAT32, INT32, as_dtype
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import const
from tilelang.ir.visit import walk
from tilelang.lowering.regions import whole
from tilelang.ops.copy import Copy
from tilelang.ops.fill import Fill
from tilelang.ops.gemm import Gemm
from tilelang.schedule.in_flight import InFlight, adds_to_same_registers, is_fenceable_fragment
from tilelang.schedule.load_groups import flatten_sequences
from tilelang.targets.nvidia.backend import LOWERINGS
from tilelang.targets.nvidia.passes.warp_specialization.capabilities import target_capabilities

FLOAT16 = as_dtype("float16")


def matrix(name, dtype=FLOAT16, scope=Scope.FRAGMENT, rank=2):
    return Buffer(name, (const(64, INT32),) * rank, dtype, scope)


A, B, SUMS, OTHER = matrix("A"), matrix("B", scope=Scope.SHARED), matrix("sums", FLOAT32), matrix("other", FLOAT32)
GEMM = Gemm(whole(A), whole(B), whole(SUMS))


def zeros(buffer):
    return Fill(whole(buffer), const(0.0, buffer.dtype))


STATEMENTS = {
    "reads the sums": (Copy(whole(SUMS), whole(OTHER)), (), True),
    "overwrites the sums": (zeros(SUMS), (), True),
    "overwrites an operand": (zeros(A), (), True),
    "writes another version of an operand": (zeros(A), (A,), False),
    "reads an operand": (Copy(whole(A), whole(OTHER)), (), False),
    "touches neither": (zeros(OTHER), (), False),
}


@pytest.mark.parametrize(("stmt", "versioned", "waits"), STATEMENTS.values(), ids=STATEMENTS.keys())
def test_a_gemm_blocks_what_touches_its_sums_or_overwrites_its_operands(stmt, versioned, waits):
    assert waits == InFlight(GEMM, []).blocks(stmt, versioned)


@pytest.mark.parametrize(
    ("buffer", "fenced"),
    [(A, True), (SUMS, True), (B, False), (matrix("rows", rank=1), False)],
)
def test_matrices_in_registers_of_16_or_32_bits_are_fenced(buffer, fenced):
    assert fenced == is_fenceable_fragment(buffer)


def test_gemms_of_one_shape_may_add_to_the_same_registers_while_others_are_in_flight():
    func = gemm_kernel(256, 256, 256)
    launch = flatten_sequences(launch_of(func))
    (plain,) = (s for s in walk(launch.body) if isinstance(s, Gemm))
    planned = target_capabilities(func, LOWERINGS, context()).with_plans(launch, [plain], 256)
    (gemm,) = (s for s in walk(planned.body) if isinstance(s, Gemm))
    assert adds_to_same_registers(gemm, dataclasses.replace(gemm))
    assert not adds_to_same_registers(gemm, plain)  # without a plan
    by_columns = dataclasses.replace(gemm.plan.groups, rows=1, columns=2)
    other = dataclasses.replace(gemm, plan=dataclasses.replace(gemm.plan, groups=by_columns))
    assert not adds_to_same_registers(gemm, other)
    elsewhere = dataclasses.replace(gemm.c.buffer, name="D_l")
    assert not adds_to_same_registers(gemm, dataclasses.replace(gemm, c=dataclasses.replace(gemm.c, buffer=elsewhere)))
    assert not adds_to_same_registers(gemm, dataclasses.replace(gemm, a=gemm.c))  # it reads the sums
