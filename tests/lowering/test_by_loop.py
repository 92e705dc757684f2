"""The rows of tables that stand for loops."""

import pytest
from lowered_gemm import Case

from tilelang.errors import CompilerBug
from tilelang.ir.builder import Builder
from tilelang.ir.stmt import ParallelLoop
from tilelang.lowering import by_loop
from tilelang.lowering.lowering import ACCEPTED, ExpandsTiles, LoweringContext
from tilelang.options import CompileOptions
from tilelang.targets.target import Target

SITE = LoweringContext(Target("cuda", "sm_80"), CompileOptions(), 128)


def test_it_never_refuses_and_asks_for_nothing():
    op = Case(16, 16, 16).gemm()
    assert ACCEPTED is by_loop.GEMM.accepts(op, SITE)
    assert () == by_loop.GEMM.constrain(op, ACCEPTED, SITE)


def test_it_writes_the_loops():
    build = Builder()
    by_loop.GEMM.expand(Case(16, 16, 16).gemm(), build)
    assert [ParallelLoop] == [type(s) for s in build.statements]


def test_an_operator_that_no_pass_expanded_is_a_fault_of_ours():
    with pytest.raises(CompilerBug, match="no pass has expanded it"):
        by_loop.GEMM.lower(Case(16, 16, 16).gemm(), ACCEPTED, SITE, Builder())


def test_each_has_a_name_of_its_own():
    rows = by_loop.LOOPS.values()
    assert len(rows) == len({row.name for row in rows})
    assert all(isinstance(row, ExpandsTiles) for row in rows)
