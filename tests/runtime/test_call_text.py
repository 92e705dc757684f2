"""The tests of scalars in written short ways, and attempts to take one."""

from typing import Any

import pytest

from tilelang.dtypes import as_dtype
from tilelang.runtime.call_text import MISSED, attempt_of, missed, scalar_test


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


def test_an_attempt_takes_the_short_way_or_none() -> None:
    names = {"long_way": lambda args: f"long {args}"}
    exec("def call(*args):\n    return 'short' if args == (1,) else long_way(args)\n", names)
    call: Any = names["call"]
    attempt = attempt_of(call)
    assert ("short", "long (2,)") == (call(1), call(2))
    assert "short" == attempt(1)
    assert MISSED is attempt(2) is missed((2,))
