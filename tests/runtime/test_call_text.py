"""The tests of scalars in written short ways."""

import pytest

from tilelang.dtypes import as_dtype
from tilelang.runtime.call_text import scalar_test


@pytest.mark.parametrize(
    ("dtype", "limit", "passing", "refused"),
    [
        ("int8", None, (-128, 127), (-129, 128, True, 1.0, "1")),
        ("uint32", None, (0, 2**32 - 1), (-1, 2**32)),
        ("bool", None, (True, False), (1, 0.0, None)),
        ("float32", None, (1.5, 1e300, float("inf")), (1, True)),
        ("float32", 3e38, (1.5, -2.9e38), (3e38, float("inf"), float("nan"))),
        ("float64", 3e38, (1e300, float("inf")), (1,)),
    ],
)
def test_only_values_that_need_no_word_pass(dtype: str, limit: float, passing: tuple, refused: tuple) -> None:
    def test(x: object) -> bool:
        return bool(eval(scalar_test("x", as_dtype(dtype), limit), {"x": x}))

    assert all(test(x) for x in passing)
    assert not any(test(x) for x in refused)
