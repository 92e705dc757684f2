"""Comparisons that are the same for all lanes lose the lane."""

import pytest
from loops import buffer, load, store

from tilelang.arith.domain import Domain
from tilelang.dtypes import FLOAT32, INT32
from tilelang.ir.buffer import Scope
from tilelang.ir.expr import Expr, Var, const, select
from tilelang.ir.printer import to_text
from tilelang.passes.thread.uniform_conditions import with_uniform_conditions

THREAD, LANE = (Var(name, INT32, index=True) for name in ("thread", "lane"))
A, B = (buffer(name, 64, 64, scope=Scope.GLOBAL) for name in "AB")


@pytest.mark.parametrize(
    ("condition", "shown"),
    [
        (THREAD * 8 + LANE < 64, "thread * 8 + 0 < 64"),
        (THREAD % 4 * 8 + LANE >= 16, "thread % 4 * 8 + 0 >= 16"),
        (THREAD * 8 + LANE <= 63, "thread * 8 + 0 <= 63"),
        (64 > THREAD * 16 + LANE, "thread * 16 + 0 < 64"),
        (THREAD * 8 + LANE > 31, "thread * 8 + 0 > 31"),
        (63 - LANE < THREAD * 8, "63 < thread * 8"),
        (THREAD * 8 + LANE < 60, "thread * 8 + lane < 60"),
        (THREAD * 4 + LANE < 64, "thread * 4 + lane < 64"),
        (THREAD * 8 + LANE <= 64, "thread * 8 + lane <= 64"),
        (64 - LANE < THREAD * 8, "64 - lane < thread * 8"),
        (THREAD * 8 + LANE * 2 < 64, "thread * 8 + lane * 2 < 64"),
    ],
)
def test_orderings_by_vectors(condition: Expr, shown: str) -> None:
    body = store(B, THREAD, LANE, select(condition, load(A, THREAD, LANE), const(0.0, FLOAT32)))
    made = with_uniform_conditions(body, LANE, 8, Domain().with_loop(LANE, 0, 8).with_range(THREAD, 0, 31))
    assert f"if {shown} else" in to_text(made) or f"T.if_then_else({shown}, " in to_text(made)


def test_both_sides_agree_for_all_lanes() -> None:
    """By all values of a small comparison."""
    for first in range(-3, 4):
        for bound in range(-20, 21):
            condition = const(first * 4, INT32) + LANE < bound
            body = store(B, THREAD, LANE, select(condition, load(A, THREAD, LANE), const(0.0, FLOAT32)))
            kept = "lane <" in to_text(with_uniform_conditions(body, LANE, 4, Domain().with_loop(LANE, 0, 4)))
            values = {first * 4 + lane < bound for lane in range(4)}
            assert kept or len(values) == 1
