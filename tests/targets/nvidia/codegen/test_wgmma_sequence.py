"""Sequences of wgmma: which nests become one asm statement, and what it holds."""

import re

import pytest
from thread_kernels import buffer, kernel

from tilelang.dtypes import FLOAT32, INT32, SCALARS
from tilelang.ir.buffer import Region, Scope
from tilelang.ir.expr import Var, as_expr, cast, const
from tilelang.ir.stmt import Alloc, CallStmt, For, ForKind, Seq
from tilelang.targets.nvidia.codegen.cuda import emit
from tilelang.targets.nvidia.isa.wgmma import WgmmaAtom, wgmma

FLOAT16, UINT64 = SCALARS["float16"], SCALARS["uint64"]
ATOM = WgmmaAtom(8, 16, FLOAT16, FLOAT16, FLOAT32)
NAME = "tl_wgmma_m64n8k16_f32_f16_f16"


def region(array, start, count):
    return Region(array, (as_expr(start),), (as_expr(count),))


def nest_text(multiply, *extents, kind=ForKind.UNROLLED, a_in_registers=False):
    """The text of a nest of loops around a call with the operands that `multiply` gives for their variables."""
    sums, held = buffer("C", (8,), "float32", Scope.LOCAL), buffer("P", (64,), "float16", Scope.LOCAL)
    variables = [Var(f"i{n}", INT32, index=True) for n in range(len(extents))]
    args = multiply(sums, held, *variables)
    body = CallStmt(wgmma(ATOM, a_in_registers=a_in_registers), args, (), (args[0],))
    for var, extent in zip(reversed(variables), reversed(extents), strict=True):
        body = For(var, as_expr(0), as_expr(extent), 1, kind, body)
    return emit(kernel("test", [], [Alloc(sums), Alloc(held), Seq((body,))])).text


def descriptor(offset):
    return const(4096, UINT64) + cast(offset, UINT64)


def accumulating(sums, held, step):
    return region(sums, 0, 4), descriptor(step * 2), descriptor(step * 128), step > 0


def test_steps_of_one_accumulator_are_one_statement():
    text = nest_text(accumulating, 8)
    assert f"    {NAME}_kk_x8(C,\n        4096ULL, 4096ULL,\n        4098ULL, 4224ULL,\n" in text
    assert "for (" not in text[text.index('extern "C"') :]
    helper = text[text.index(f"void {NAME}_kk_x8(") : text.index('extern "C"')]
    assert helper.count("asm volatile") == 1
    instructions = re.findall(r"wgmma\.mma_async\S+ \{%0, %1, %2, %3\}, (%\d+), (%\d+), (\w+), 1, 1, 0, 0;", helper)
    assert instructions == [(f"%{4 + 2 * k}", f"%{5 + 2 * k}", "1" if k else "p") for k in range(8)]
    assert "setp.ne.b32 p, %20, 0;" in helper
    assert '"l"(a6), "l"(b6), "l"(a7), "l"(b7), "r"((int)accumulate)' in helper


def test_a_in_registers_has_those_of_each_step():
    def multiply(sums, held, step):
        return region(sums, 0, 4), region(held, step * 8, 8), descriptor(step), as_expr(True)

    text = nest_text(multiply, 8, a_in_registers=True)
    assert f"{NAME}_rk_x8(C,\n        P, 4096ULL,\n        &P[8], 4097ULL,\n" in text
    assert "        &P[56], 4103ULL,\n        true);" in text
    assert '"r"(a0_registers[3]), "l"(b0), "r"(a1_registers[0])' in text


def test_loops_of_one_iteration_may_lie_around():
    assert f"{NAME}_kk_x8(" in nest_text(lambda sums, held, i, step: accumulating(sums, held, step), 1, 8)


@pytest.mark.parametrize("extents", [(0,), (1,), (7,)])
def test_few_instructions_stay_a_loop(extents):
    text = nest_text(accumulating, *extents)
    assert f"{NAME}_kk(C, " in text
    assert f"{NAME}_kk_x" not in text


def test_several_accumulators_stay_loops():
    def multiply(sums, held, step, tile):
        return region(sums, tile * 4, 4), descriptor(step), descriptor(step), step > 0

    text = nest_text(multiply, 8, 2)
    assert f"{NAME}_kk(&C[i1 * 4], " in text


def test_loops_that_are_not_unrolled_stay():
    assert f"{NAME}_kk(C, " in nest_text(accumulating, 8, kind=ForKind.SERIAL)


def test_later_steps_that_clear_stay_loops():
    def multiply(sums, held, step):
        return region(sums, 0, 4), descriptor(step), descriptor(step), step < 1

    assert f"{NAME}_kk(C, " in nest_text(multiply, 8)
