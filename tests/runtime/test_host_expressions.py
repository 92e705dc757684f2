import pytest

from tilelang.errors import CompilerBug
from tilelang.runtime.host_expressions import compile_expression, evaluate_expression


def test_an_expression_uses_names_and_a_few_functions() -> None:
    code = compile_expression("min(M, 7) * abs(n) + int(2.5)")
    assert {"min", "M", "abs", "n", "int"} == set(code.co_names)
    assert 23 == evaluate_expression(code, {"M": 9, "n": -3})


def test_nothing_else_can_be_reached() -> None:
    with pytest.raises(NameError):
        evaluate_expression(compile_expression("open('/dev/null')"), {})


def test_an_invalid_expression_is_a_compiler_bug() -> None:
    with pytest.raises(CompilerBug, match="no Python expression: 'M \\+'"):
        compile_expression("M +")
