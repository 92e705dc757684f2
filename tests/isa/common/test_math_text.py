"""Texts on integers; their results are tested with the functions of each target."""

from tilelang.isa.common.math_text import SIGNED, UNCHANGED, UNSIGNED, fma_of_integers
from tilelang.isa.intrinsic import Helper


def test_every_integer_dtype_has_a_text() -> None:
    assert {*SIGNED, *UNSIGNED} == set(UNCHANGED) == set(fma_of_integers())


def test_products_are_unsigned_and_as_wide_as_the_result() -> None:
    texts = {name: template.text for name, template in fma_of_integers().items()}
    assert all("(uint64_t)({0}) *" in texts[name] for name in ("int64", "uint64"))
    assert all("(uint32_t)({0}) *" in texts[name] for name in texts if not name.endswith("64"))
    assert {name for name, text in texts.items() if text.startswith("(int")} == set(texts) - {"uint32", "uint64"}


def test_texts_need_what_defines_their_types() -> None:
    types = Helper("types", "typedef int int32_t;")
    assert {types} == {template.helper for template in fma_of_integers(types).values()}
