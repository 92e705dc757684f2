from tilelang.isa.intrinsic import Helper, Spelling, ordered_helpers


def test_a_spelling_puts_operands_in_their_places():
    assert "f(b, a)" == Spelling("f({1}, {0})").of("a", "b")


def test_helpers_come_once_and_after_what_they_need():
    base = Helper("base", "")
    left, right = Helper("left", "", needs=(base,)), Helper("right", "", needs=(base,))
    assert ["base", "left", "right"] == [helper.name for helper in ordered_helpers([left, right, base, left])]
