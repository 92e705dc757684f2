"""The row of a table that stands for loops."""

import pytest
from lowered_gemm import Case

from tilelang.errors import CompilerBug
from tilelang.ir.builder import Builder
from tilelang.lowering.by_loop import ByLoop
from tilelang.lowering.lowering import ACCEPTED, LoweringContext
from tilelang.options import CompileOptions
from tilelang.targets.target import Target

SITE = LoweringContext(Target("cuda", "sm_80"), CompileOptions(), 128)


def test_it_never_refuses_and_asks_for_nothing():
    op = Case(16, 16, 16).gemm()
    assert ACCEPTED is ByLoop("copy.loop").accepts(op, SITE)
    assert () == ByLoop("copy.loop").constrain(op, ACCEPTED, SITE)


def test_an_operator_that_no_pass_expanded_is_a_fault_of_ours():
    with pytest.raises(CompilerBug, match="no pass has written them"):
        ByLoop("copy.loop").lower(Case(16, 16, 16).gemm(), ACCEPTED, SITE, Builder())
