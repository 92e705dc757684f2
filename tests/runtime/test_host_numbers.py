import pytest

from tilelang.errors import CompilerBug
from tilelang.runtime.host_numbers import compiled, evaluated


def test_an_expression_uses_names_and_a_few_functions() -> None:
    code = compiled("min(M, 7) * abs(n) + int(2.5)")
    assert {"min", "M", "abs", "n", "int"} == set(code.co_names)
    assert 23 == evaluated(code, {"M": 9, "n": -3})


def test_nothing_else_can_be_reached() -> None:
    with pytest.raises(NameError):
        evaluated(compiled("open('/dev/null')"), {})


def test_an_invalid_expression_is_a_compiler_bug() -> None:
    with pytest.raises(CompilerBug, match="no Python expression: 'M \\+'"):
        compiled("M +")
