import numpy as np
import pytest

from tilelang.layout.collisions import first_collision


@pytest.mark.parametrize(
    ("places", "expected"),
    [
        ([], None),
        ([[0], [1]], None),
        ([[0, 1], [1, 0], [0, 1]], (0, 2)),
        ([[0], [1 << 40]], None),
        ([[3], [1 << 40], [1 << 40]], (1, 2)),
    ],
)
def test_the_first_two_coordinates_in_one_place(places: list[list[int]], expected: tuple[int, int] | None) -> None:
    assert expected == first_collision(np.asarray(places, np.int64).reshape(len(places), len(places[0]) if places else 1))
