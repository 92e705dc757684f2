"""Powers of two."""

from tilelang.powers import is_power_of_two, next_power_of_two


def test_the_powers_of_two_below_100() -> None:
    assert [1, 2, 4, 8, 16, 32, 64] == [n for n in range(-8, 100) if is_power_of_two(n)]


def test_the_next_power_is_the_smallest_that_is_not_below() -> None:
    for n in range(-8, 1000):
        power = next_power_of_two(n)
        assert is_power_of_two(power)
        assert power >= n
        assert power == 1 or power < 2 * n
