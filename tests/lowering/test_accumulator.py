"""Running sums: in place where they can be, moved there and back where they cannot."""

import dataclasses

import pytest
from lowered_gemm import Case, buffer, constant

from tilelang.arith.domain import Domain
from tilelang.dtypes import BOOL, FLOAT32, INT32
from tilelang.ir.buffer import Scope
from tilelang.ir.builder import Builder
from tilelang.ir.expr import Const, Var
from tilelang.ir.printer import to_text
from tilelang.layout.thread_values import digit, fragment
from tilelang.lowering.accumulator import Accumulator
from tilelang.lowering.lowering import LoweringContext
from tilelang.lowering.registers import Emitter
from tilelang.options import CompileOptions
from tilelang.targets.target import Target

LANES = [digit(4, 0, 2), digit(8, 1, 0)]
PAIRS, ROWS, COLUMNS = digit(2, 0, 1), digit(2, 8, 0), digit(4, 0, 8)
WANTED = fragment((16, 32), LANES, [PAIRS, ROWS, COLUMNS])
TURNED = fragment((16, 32), LANES, [PAIRS, COLUMNS, ROWS])


def text(actual, *, accum="float32", clear=None, wanted=WANTED, clean=False, m=16):
    op = Case(m, 32, 16, accum=accum, threads=32).gemm()
    op = dataclasses.replace(op, clear_accum=clear)
    held = buffer("C_held", (actual.values,), accum, Scope.LOCAL)
    thread = Var("thread", INT32, index=True)
    context = LoweringContext(
        Target("cuda", "sm_80"),
        CompileOptions(),
        32,
        thread=thread,
        fragments={op.c.buffer: actual},
        registers={op.c.buffer: held},
    )
    build = Builder()
    emit = Emitter(build, Domain().with_range(thread, 0, 31))
    sums = Accumulator(emit, op, context, wanted, FLOAT32, run=4, zero_padding=clean)
    sums.load()
    part = sums.registers(constant(0), constant(8))
    sums.store()
    return to_text(build.finish()).strip(), part


def test_sums_in_the_wanted_order_are_used_in_place():
    printed, part = text(WANTED)
    assert "" == printed
    assert ("C_held", 4) == (part.buffer.name, part.start[0].value)


def test_sums_in_another_order_are_moved_there_and_back():
    printed, part = text(TURNED)
    assert "C_tile_sums" == part.buffer.name
    assert 2 == printed.count("for v in T.unroll(16):")


def test_sums_in_another_dtype_are_converted():
    printed, _ = text(WANTED, accum="bfloat16")
    assert "C_tile_sums[v] = T.float32(C_held[v])" in printed
    assert "C_held[v] = T.bfloat16(C_tile_sums[v])" in printed


@pytest.mark.parametrize("clear", [True, False])
def test_constant_clearing(clear):
    printed, _ = text(WANTED, clear=Const(clear, BOOL))
    assert clear == ("C_held[v] = 0.0" in printed)


def test_clearing_by_a_condition():
    k = Var("k", INT32, index=True)
    printed, _ = text(TURNED, clear=k == 0)
    assert printed.index("if k == 0:") < printed.index("= 0.0") < printed.index("else:") < printed.index("C_held[")


def test_padding_is_zero_where_it_must_be_clean():
    tile = dataclasses.replace(WANTED, shape=(10, 32))
    assert "thread" in text(tile, wanted=tile, clean=True, m=10)[0]
    assert "" == text(tile, wanted=tile, m=10)[0]
