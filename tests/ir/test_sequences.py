from tilelang.dtypes import BOOL
from tilelang.errors import NOWHERE, Loc
from tilelang.ir.expr import const
from tilelang.ir.sequences import flat_statements, statements_behind, statements_of, with_location, with_statements
from tilelang.ir.stmt import Break, Continue, If, Seq

HERE, THERE = Loc("k.py", 3), Loc("k.py", 4)


def test_a_body_has_the_statements_of_its_sequence_or_is_the_only_one():
    first, inner = Break(), Seq((Continue(),))
    assert (first, inner) == statements_of(Seq((first, inner)))
    assert (first,) == statements_of(first)
    assert () == statements_of(Seq(()))


def test_nested_sequences_are_inlined_in_program_order():
    first, second, third = Break(), Continue(), Break()
    assert [first, second, third] == flat_statements(Seq((first, Seq((Seq((second,)), Seq(()))), third)))
    assert [first] == flat_statements(first)
    assert [] == flat_statements(Seq((Seq(()),)))


def test_statements_behind_one_in_branches_come_innermost_first():
    stmt, inner, other, last = (Break() for _ in range(4))
    branch = If(const(True, BOOL), other, Seq((Continue(), stmt, inner)))
    assert [inner, last] == statements_behind(Seq((Continue(), branch, last)), stmt)
    assert [last] == statements_behind(Seq((branch, last)), other)
    assert [] == statements_behind(stmt, stmt)
    assert statements_behind(Seq((branch, last)), Break()) is None


def test_a_sequence_with_the_same_statements_is_the_same_object():
    first, second = Break(), Continue()
    sequence = Seq((first, second), loc=HERE)
    assert with_statements(sequence, [first, second]) is sequence
    for other in ([first], [second, first], [first, Continue()], [first, second, first]):
        made = with_statements(sequence, other)
        assert (tuple(other), HERE) == (made.body, made.loc)


def test_a_statement_keeps_the_location_that_it_has():
    stmt = Break(loc=HERE)
    assert with_location(stmt, THERE) is stmt
    assert THERE is with_location(Break(loc=NOWHERE), THERE).loc
