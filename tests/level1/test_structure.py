"""Tests for tilelang.level1.structure."""

from collections import namedtuple

import pytest

from tilelang.level1.structure import flatten

Pair = namedtuple("Pair", "first second")


@pytest.mark.parametrize(
    ("value", "leaves"),
    [
        (1, [1]), ([1, 2], [1, 2]), ((1, [2, (3,)]), [1, 2, 3]), ({"b": 1, "a": (2, 3)}, [1, 2, 3]), ((), []),
        (Pair(1, [2]), [1, 2]), ("text", ["text"]), (None, [None]),
    ],
)  # fmt: skip
def test_leaves_are_put_together_again(value: object, leaves: list[object]) -> None:
    found, structure = flatten(value)
    assert leaves == found
    rebuilt = structure.rebuild(found)
    assert (type(value), value) == (type(rebuilt), rebuilt)


def test_structures_are_equal_if_values_are_made_alike() -> None:
    first, second, third = (flatten(value)[1] for value in ([1, {"a": 2}], [3, {"a": 4}], [1, {"b": 2}]))
    assert first == second
    assert hash(first) == hash(second)
    assert first != third


def test_leaves_have_names() -> None:
    _, structure = flatten({"w": [1, 2], "b": 3})
    assert ["layer['w'][0]", "layer['w'][1]", "layer['b']"] == structure.paths("layer")
    assert ["x"] == flatten(1)[1].paths("x")
