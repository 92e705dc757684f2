import pytest
from hip_text import GENERATIONS, assembly_of, function_of, hip_source, needs_clang

from tilelang.isa.common.math import MATH as ROWS
from tilelang.targets.amd.isa.math import MATH


def test_every_function_has_a_text_for_floats_and_doubles() -> None:
    assert {row.name for row in ROWS} == set(MATH)
    assert all({"float32", "float64"} <= set(texts) for texts in MATH.values())


def test_only_the_fast_names_give_up_accuracy() -> None:
    for name, texts in MATH.items():
        assert name.startswith("__") == texts["float32"].text.startswith("tl_fast")
        assert "tl_fast" not in texts["float64"].text


@needs_clang
@pytest.mark.parametrize("arch", GENERATIONS)
def test_the_reciprocal_root_is_one_instruction_and_a_few_for_subnormal_numbers(arch: str) -> None:
    template = MATH["rsqrt"]["float32"]
    text = function_of("f", "float", ["float"], template.format("a[i]"))
    words = assembly_of(hip_source([template.helper], [text]), arch)
    assert 1 == words.count("v_rsq_f32") and words.count("\tv_") < 12


def test_rounding_is_to_even() -> None:
    assert "__builtin_rintf({0})" == MATH["round"]["float32"].text
    assert "{0}" == MATH["round"]["int32"].text


def test_the_raw_sine_is_not_the_sine() -> None:
    assert "tl::sin({0})" == MATH["sin"]["float32"].text  # the machine's does not reduce its operand
