"""Names from elsewhere."""

import re

import pytest

import tilelang.language as T
from tilelang.errors import UnknownAttribute
from tilelang.other_names import OTHER_NAMES


def test_the_hint_says_what_to_write() -> None:
    with pytest.raises(UnknownAttribute) as caught:
        T.dot
    assert caught.value.message == "T.dot: there is no such name"
    assert caught.value.hint == "write T.gemm(A, B, C), which adds the product to C"


@pytest.mark.parametrize("name", OTHER_NAMES)
def test_a_row_is_of_no_name_of_the_language_and_names_only_such(name: str) -> None:
    assert not hasattr(T, name)
    assert [] == [n for n in re.findall(r"T\.(\w+)", OTHER_NAMES[name]) if not hasattr(T, n)]


def test_aliases_are_the_names_that_they_stand_for() -> None:
    assert T.bitcast is T.reinterpret
    assert T.cdiv(7, 4) == T.ceildiv(7, 4)
