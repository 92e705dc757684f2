"""Appending statements, in nested blocks, with a current location."""

from tilelang.errors import NOWHERE, Loc
from tilelang.ir.builder import Builder, as_body
from tilelang.ir.stmt import Break, Continue, Seq

HERE, THERE = Loc("a.py", 1), Loc("a.py", 2)


def test_a_statement_receives_the_current_location() -> None:
    build = Builder(HERE)
    build.emit(Break())
    build.loc = THERE
    build.emit(Continue())
    assert [HERE, THERE] == [stmt.loc for stmt in build.statements]


def test_a_statement_keeps_its_own_location() -> None:
    build = Builder(HERE)
    build.emit(Break(loc=THERE))
    assert THERE is build.statements[0].loc


def test_a_block_collects_what_is_emitted_inside() -> None:
    build = Builder()
    build.emit(Break())
    with build.block() as body:
        build.emit(Continue())
        assert 2 == build.depth
        assert body is build.statements
    assert 1 == build.depth
    assert [Continue] == [type(stmt) for stmt in body]
    assert [Break] == [type(stmt) for stmt in build.statements]


def test_a_block_is_closed_when_its_statements_fail() -> None:
    build = Builder()
    try:
        with build.block():
            raise ValueError
    except ValueError:
        pass
    assert 1 == len(build.open_blocks)


def test_everything_together_is_one_statement() -> None:
    build = Builder(HERE)
    build.emit(Break())
    assert build.finish() is build.statements[0]
    build.emit(Continue())
    whole = build.finish()
    assert isinstance(whole, Seq)
    assert [Break, Continue] == [type(stmt) for stmt in whole.body]
    assert HERE is whole.loc


def test_no_statements_are_an_empty_sequence() -> None:
    body = as_body([])
    assert isinstance(body, Seq)
    assert ((), NOWHERE) == (body.body, body.loc)
