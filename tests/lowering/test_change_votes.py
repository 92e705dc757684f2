"""Votes on changes of reduced tiles, and what makes them known and unknown."""

import pytest

from tilelang.dtypes import BOOL, FLOAT32, INT32
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Load, Var, as_expr, binary, const, select
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.stmt import ParallelLoop, Store
from tilelang.lowering.change_votes import ChangeVotes

ROWS = 8
LARGEST, RUNNING = (Buffer(name, (as_expr(ROWS),), FLOAT32, Scope.FRAGMENT) for name in ("largest", "running"))
I, VOTE = Var("i", INT32, index=True), Var("vote", BOOL)


def at(tile, index=I):
    return Load(tile, (index,), FLOAT32)


def limit(index=I):
    return at(RUNNING, index) + 8


def stores(tile, value, extent=ROWS):
    return ParallelLoop((I,), (as_expr(extent),), Store(tile, (I,), value))


REDUCTION = stores(LARGEST, binary(BinaryOp.MAX, at(LARGEST), const(1, FLOAT32)))


def votes_behind(*between, start=None):
    """After a start, a voted reduction and some statements."""
    votes = ChangeVotes()
    votes.follow(stores(LARGEST, limit()) if start is None else start)
    votes.add(LARGEST, VOTE)
    votes.follow(REDUCTION)
    for stmt in between:
        votes.follow(stmt)
    return votes


def test_a_vote_stands_for_comparisons_with_the_start():
    votes, j = votes_behind(), Var("j", INT32, index=True)
    assert votes.implied_by(at(LARGEST) > limit()) is VOTE
    assert votes.implied_by(limit(j) < at(LARGEST, j)) is VOTE
    assert votes.implied_by(binary(BinaryOp.AND, at(RUNNING) > 0, at(LARGEST) > limit())) is VOTE


@pytest.mark.parametrize(
    "condition",
    [at(LARGEST) >= limit(), at(LARGEST) > at(RUNNING), at(LARGEST, I + 1) > limit(), at(RUNNING) > limit()],
    ids=["holds for equals", "another value", "another row", "another tile"],
)
def test_it_stands_for_nothing_else(condition):
    assert votes_behind().implied_by(condition) is None


SUMS = Buffer("sums", (as_expr(ROWS),), FLOAT32, Scope.FRAGMENT)


def test_it_stands_for_multiplications_by_anything_but_1():
    grows, half, one = at(LARGEST) > limit(), const(0.5, FLOAT32), const(1, FLOAT32)
    votes, scaled = votes_behind(), stores(SUMS, at(SUMS) * select(grows, half, one))
    assert votes.needed_by(scaled) is VOTE
    for other in (
        stores(SUMS, at(SUMS) * select(grows, one, half)),
        stores(SUMS, at(SUMS) + select(grows, half, one)),
        stores(SUMS, at(SUMS) * half),
        stores(SUMS, at(SUMS) * select(at(LARGEST) >= limit(), half, one)),
    ):
        assert votes.needed_by(other) is None


@pytest.mark.parametrize("tile", [LARGEST, RUNNING])
def test_it_is_unknown_once_a_tile_changes(tile):
    assert votes_behind(stores(tile, const(0, FLOAT32))).implied_by(at(LARGEST) > limit()) is None


def test_a_start_of_some_rows_tells_nothing():
    assert votes_behind(start=stores(LARGEST, limit(), ROWS - 1)).implied_by(at(LARGEST) > limit()) is None


def test_a_sequence_starts_without_votes_and_leaves_none():
    votes = votes_behind()
    with votes.sequence():
        assert votes.implied_by(at(LARGEST) > limit()) is None
        votes.follow(stores(LARGEST, limit()))
    assert votes.implied_by(at(LARGEST) > limit()) is VOTE


def test_statements_behind_may_use_the_vote_only_if_the_start_is_known():
    votes = ChangeVotes()
    votes.add(LARGEST, VOTE)
    assert not votes.follow(REDUCTION)
    votes.follow(stores(LARGEST, limit()))
    votes.add(LARGEST, VOTE)
    assert votes.follow(REDUCTION)
