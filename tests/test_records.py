"""Records against dataclasses: the same behavior, whatever the fields."""

from __future__ import annotations

import dataclasses
import inspect
from dataclasses import FrozenInstanceError, field
from functools import cached_property
from typing import Any, ClassVar

import pytest

from tilelang.records import record

WAYS = [
    {},
    {"slots": True},
    {"eq": False},
    {"frozen": False},
    {"frozen": False, "eq": False, "slots": True},
    {"repr": False},
    {"kw_only": True},
]


def fields_of_all_kinds():
    class Sample:
        """A sample."""

        kind: ClassVar[str] = "none"
        a: int
        b: tuple[int, ...] = (1, 2)
        c: list[int] = field(default_factory=list, repr=False)
        d: int = field(default=7, init=False)
        e: str = field(default="e", kw_only=True)

    return Sample


def pair(ways):
    ours = record(**ways)(fields_of_all_kinds())
    theirs = dataclasses.dataclass(**{"frozen": True, **ways})(fields_of_all_kinds())
    return ours, theirs


@pytest.mark.parametrize("ways", WAYS, ids=str)
def test_records_behave_as_dataclasses_do(ways):
    ours, theirs = pair(ways)
    assert str(inspect.signature(ours)) == str(inspect.signature(theirs))
    assert ours.__match_args__ == theirs.__match_args__
    a, b = ours(a=1), theirs(a=1)
    assert dataclasses.asdict(a) == dataclasses.asdict(b)
    assert dataclasses.asdict(dataclasses.replace(a, b=())) == dataclasses.asdict(dataclasses.replace(b, b=()))
    assert (a == ours(a=1)) is (b == theirs(a=1))
    assert (a == ours(a=2)) is (b == theirs(a=2))
    assert a != b
    assert (ours.__hash__ is None) is (theirs.__hash__ is None)
    assert hasattr(a, "__dict__") is hasattr(b, "__dict__")
    if ways.get("repr", True):
        assert repr(a) == repr(b)
    assert a.c is not ours(a=1).c
    for call in (lambda c: c(), lambda c: c(a=1, f=2), lambda c: c(1, 2, 3, 4)):
        for cls in (ours, theirs):
            with pytest.raises(TypeError, match="__init__"):
                call(cls)


@pytest.mark.parametrize("ways", WAYS, ids=str)
def test_frozen_records_refuse_to_change(ways):
    for cls in pair(ways):
        made = cls(a=1)
        if ways.get("frozen", True):
            with pytest.raises(FrozenInstanceError, match="cannot assign to field 'a'"):
                made.a = 2
            with pytest.raises(FrozenInstanceError, match="cannot delete field 'a'"):
                del made.a
        else:
            made.a = 2
            assert 2 == made.a


def test_equal_frozen_records_hash_alike_and_those_without_equality_by_identity():
    @record
    class Place:
        x: int
        y: int = 0

    @record
    class One:
        x: int

    @record
    class Noted:
        x: int
        note: int = field(default=0, compare=False)

    @record(eq=False)
    class Node:
        x: int

    assert 1 == len({Place(1), Place(1, 0)})
    assert 2 == len({One(1), One(2), One(1)})
    assert Place(1) != One(1)
    assert (Noted(1, 2), hash(Noted(1, 2))) == (Noted(1, 3), hash(Noted(1, 3)))
    assert Noted(1, 2) != Noted(2, 2)
    assert 2 == len({Node(1), Node(1)})


def test_fields_of_base_classes_come_first_and_own_methods_stay():
    @record
    class Base:
        a: int

        def __repr__(self) -> str:
            return f"Base of {self.a}"

    @record
    class Derived(Base):
        b: int = 2

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Derived) and self.b == other.b

        def __hash__(self) -> int:
            return self.b

        @cached_property
        def both(self) -> int:
            return self.a + self.b

    made = Derived(1)
    assert (1, 2, 3) == (made.a, made.b, made.both)
    assert Derived(5) == made
    assert 2 == hash(made)
    assert "Base of 1" == repr(Base(1))
    assert repr(made).endswith("Derived(a=1, b=2)")
    match made:
        case Derived(a, b=b):
            assert (1, 2) == (a, b)
    assert "Base" == Base.__doc__


def test_an_own_constructor_stays_and_what_follows_the_constructor_is_called():
    @record
    class Own:
        a: int

        def __init__(self, text: str) -> None:
            object.__setattr__(self, "a", int(text))

    @record(frozen=False)
    class Checked:
        a: int
        seen: Any = None

        def __post_init__(self) -> None:
            self.seen = self.a

    assert 3 == Own("3").a
    assert 4 == Checked(4).seen
