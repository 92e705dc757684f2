from tilelang.math import cdiv, next_power_of_2


def test_the_next_power_of_two_is_not_below() -> None:
    assert [1, 1, 2, 4, 4, 8, 128] == [next_power_of_2(n) for n in (0, 1, 2, 3, 4, 5, 100)]


def test_cdiv_rounds_up() -> None:
    assert [0, 1, 1, 2] == [cdiv(n, 4) for n in (0, 1, 4, 5)]
