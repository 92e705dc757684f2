"""Options that must be known while staging."""

import pytest

import tilelang.language as T
from tilelang.errors import ProgramError
from tilelang.ir.expr import Const
from tilelang.language.operators import plain_bool, plain_int
from tilelang.language.stage import Stager


def test_literals_are_plain(stager: Stager) -> None:
    assert (True, False, 3) == (plain_bool("f", "x", 1), plain_bool("f", "x", False), plain_int("f", "n", 3))
    literal = T.int32(4)
    assert isinstance(literal, Const)
    assert 4 == plain_int("f", "n", literal)


def test_what_the_kernel_computes_is_not(stager: Stager) -> None:
    value = T.alloc_var("int32")
    with pytest.raises(ProgramError, match="f: x must be known while the kernel is staged"):
        plain_bool("f", "x", value)
    with pytest.raises(ProgramError, match="f: n must be an int known while the kernel is staged"):
        plain_int("f", "n", value)
