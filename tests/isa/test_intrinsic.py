from tilelang.isa.intrinsic import Helper, Template, ordered_helpers


def test_a_spelling_substitutes_operands():
    assert "f(b, a)" == Template("f({1}, {0})").format("a", "b")


def test_helpers_are_ordered_by_dependency():
    base = Helper("base", "")
    left, right = Helper("left", "", needs=(base,)), Helper("right", "", needs=(base,))
    assert ["base", "left", "right"] == [helper.name for helper in ordered_helpers([left, right, base, left])]
