"""Sequences of wgmma: which groups become one asm statement, and what it holds."""

import re

import pytest
from thread_kernels import buffer, kernel

from tilelang.dtypes import FLOAT32, INT32, SCALARS
from tilelang.ir.buffer import Region, Scope
from tilelang.ir.expr import Var, as_expr, cast, const
from tilelang.ir.stmt import Alloc, CallStmt, For, ForKind, Seq
from tilelang.targets.gpu.isa.sync import SYNC_THREADS
from tilelang.targets.nvidia.codegen.cuda import emit
from tilelang.targets.nvidia.codegen.wgmma_sequence import with_sequences
from tilelang.targets.nvidia.isa.fence import FENCE_PROXY_ASYNC
from tilelang.targets.nvidia.isa.wgmma import WGMMA_COMMIT, WGMMA_FENCE, WgmmaAtom, wgmma, wgmma_wait
from tilelang.targets.nvidia.isa.wgmma_registers import define_operands, fence_operands

FLOAT16, UINT64 = SCALARS["float16"], SCALARS["uint64"]
ATOM = WgmmaAtom(8, 16, FLOAT16, FLOAT16, FLOAT32)
NAME = "tl_wgmma_m64n8k16_f32_f16_f16"


def region(array, start, count):
    return Region(array, (as_expr(start),), (as_expr(count),))


def group_text(
    multiply, *extents, kind=ForKind.UNROLLED, a_in_registers=False, before=(), prepare=fence_operands, fenced=(),
    after=(),
):
    """The text of a group around a nest of loops around a call, whose operands `multiply` gives for their variables.

    `before` are arrays with their sizes, which `prepare` fences or defines; `fenced` is between the fence and the nest,
    `after` behind it.
    """
    sums, held = buffer("C", (8,), "float32", Scope.LOCAL), buffer("P", (64,), "float16", Scope.LOCAL)
    variables = [Var(f"i{n}", INT32, index=True) for n in range(len(extents))]
    args = multiply(sums, held, *variables)
    body = CallStmt(wgmma(ATOM, a_in_registers=a_in_registers), args, (), (args[0],))
    for var, extent in zip(reversed(variables), reversed(extents), strict=True):
        body = For(var, as_expr(0), as_expr(extent), 1, kind, body)
    arrays = {"C": sums, "P": held}
    prepared = [CallStmt(prepare(arrays[name].dtype, n), (region(arrays[name], 0, n),)) for name, n in before]
    group = Seq((*prepared, CallStmt(WGMMA_FENCE, ()), *fenced, body, *after, CallStmt(WGMMA_COMMIT, ())))
    return emit(kernel("test", [], [Alloc(sums), Alloc(held), group])).text


def calls(text):
    """The functions that the kernel calls, in order."""
    return re.findall(r"^    (tl_\w+)", text[text.index('extern "C"') :], re.MULTILINE)


def descriptor(offset):
    return const(4096, UINT64) + cast(offset, UINT64)


def accumulating(sums, held, step):
    return region(sums, 0, 4), descriptor(step * 2), descriptor(step * 128), step > 0


def test_steps_of_one_accumulator_are_one_statement():
    text = group_text(accumulating, 8)
    assert f"    {NAME}_kk_x8(C,\n        4096ULL, 4096ULL,\n        4098ULL, 4224ULL,\n" in text
    assert calls(text) == [f"{NAME}_kk_x8"]
    assert "for (" not in text[text.index('extern "C"') :]
    helper = text[text.index(f"void {NAME}_kk_x8(") : text.index('extern "C"')]
    assert helper.count("asm volatile") == 1
    instructions = re.findall(r"wgmma\.mma_async\S+ \{%0, %1, %2, %3\}, (%\d+), (%\d+), (\w+), 1, 1, 0, 0;", helper)
    assert instructions == [(f"%{4 + 2 * k}", f"%{5 + 2 * k}", "1" if k else "p") for k in range(8)]
    assert "setp.ne.b32 p, %20, 0;" in helper
    assert '"l"(a6), "l"(b6), "l"(a7), "l"(b7), "r"((int)accumulate) : "memory");' in helper
    assert re.findall(r"wgmma\.(\w+)", helper) == ["fence", *["mma_async"] * 8, "commit_group"]


def held_operand(sums, held, step):
    return region(sums, 0, 4), region(held, step * 8, 8), descriptor(step), as_expr(True)


def test_registers_of_the_statement_need_no_fence():
    text = group_text(held_operand, 8, a_in_registers=True, before=[("C", 4), ("P", 64)])
    assert calls(text) == [f"{NAME}_rk_x8"]


def test_fences_of_other_registers_stay():
    text = group_text(accumulating, 8, before=[("P", 64), ("C", 4)])
    assert calls(text) == ["tl_fence_unsigned_operands", f"{NAME}_kk_x8"]
    text = group_text(accumulating, 8, before=[("C", 8)])
    assert calls(text) == ["tl_fence_float_operands", f"{NAME}_kk_x8"]


def test_barriers_may_stand_behind_the_fence():
    barriers = [CallStmt(FENCE_PROXY_ASYNC, ()), CallStmt(SYNC_THREADS, ())]
    text = group_text(accumulating, 8, before=[("C", 4)], fenced=barriers)
    assert f"    tl_fence_proxy_async();\n    __syncthreads();\n    {NAME}_kk_x8(" in text
    assert calls(text) == ["tl_fence_proxy_async", f"{NAME}_kk_x8"]


def test_waits_behind_the_fence_keep_a_loop():
    assert "_kk_x" not in group_text(accumulating, 8, fenced=[CallStmt(wgmma_wait(0), ())])


def test_a_nest_with_others_in_its_group_stays_a_loop():
    text = group_text(accumulating, 8, before=[("C", 4)], after=[CallStmt(WGMMA_FENCE, ())])
    assert f"{NAME}_kk(C, " in text
    assert f"{NAME}_kk_x" not in text
    assert calls(text) == ["tl_fence_float_operands", "tl_wgmma_fence", "tl_wgmma_fence", "tl_wgmma_commit"]


def test_a_in_registers_has_those_of_each_step():
    text = group_text(held_operand, 8, a_in_registers=True)
    assert f"{NAME}_rk_x8(C,\n        P, 4096ULL,\n        &P[8], 4097ULL,\n" in text
    assert "        &P[56], 4103ULL,\n        true);" in text
    assert '"r"(a0_registers[3]), "l"(b0), "r"(a1_registers[0])' in text


def test_loops_of_one_iteration_may_lie_around():
    assert f"{NAME}_kk_x8(" in group_text(lambda sums, held, i, step: accumulating(sums, held, step), 1, 8)


@pytest.mark.parametrize("steps", [2, 4])
def test_few_instructions_are_one_statement_where_their_sums_are_defined_or_a_is_fenced(steps):
    text = group_text(accumulating, steps, before=[("C", 4)], prepare=define_operands)
    assert calls(text) == ["tl_define_float_operands", f"{NAME}_kk_x{steps}"]
    text = group_text(held_operand, steps, a_in_registers=True, before=[("P", steps * 8)])
    assert calls(text) == [f"{NAME}_rk_x{steps}"]


def test_few_instructions_that_add_to_fenced_sums_stay_a_loop():
    text = group_text(accumulating, 4, before=[("C", 4)])
    assert calls(text) == ["tl_fence_float_operands", "tl_wgmma_fence", "tl_wgmma_commit"]


@pytest.mark.parametrize("extents", [(0,), (1,), (7,)])
def test_few_instructions_stay_a_loop(extents):
    text = group_text(accumulating, *extents)
    assert f"{NAME}_kk(C, " in text
    assert f"{NAME}_kk_x" not in text


def test_several_accumulators_stay_loops():
    def multiply(sums, held, step, tile):
        return region(sums, tile * 4, 4), descriptor(step), descriptor(step), step > 0

    text = group_text(multiply, 8, 2)
    assert f"{NAME}_kk(&C[i1 * 4], " in text


def test_bodies_may_be_empty():
    assert [] == with_sequences(())


def test_loops_that_are_not_unrolled_stay():
    assert f"{NAME}_kk(C, " in group_text(accumulating, 8, kind=ForKind.SERIAL)


def test_later_steps_that_clear_stay_loops():
    def multiply(sums, held, step):
        return region(sums, 0, 4), descriptor(step), descriptor(step), step < 1

    assert f"{NAME}_kk(C, " in group_text(multiply, 8)
