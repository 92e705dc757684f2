import pytest
from hypothesis import given
from hypothesis import strategies as st

import tilelang.language as T
from tilelang.arith import layout_symbols
from tilelang.errors import ProgramError
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import as_expr

N = T.dynamic("n")
I, J = layout_symbols.variables(["i", "j"])
PLACES = [I, I // 8, I % 8, I * 4 + J, (I // 4) * 8 + J % 2, I // 2 + J // 3, (I * 16 + J) // 4]


@given(st.sampled_from(PLACES), st.integers(1, 20), st.integers(1, 6))
def test_no_place_is_beyond_the_largest(place: object, n: int, m: int) -> None:
    largest = as_expr(layout_symbols.largest(place, (I, J), (N, m)))  # type: ignore[arg-type]
    reached = max(evaluate(as_expr(place), {I: i, J: j}) for i in range(n) for j in range(m))  # type: ignore[arg-type]
    assert evaluate(largest, {N: n}) >= reached


def test_the_largest_place_is_as_small_as_can_be_seen() -> None:
    assert ["(n - 1) // 8", "7", "n * 4 + 1"] == [
        str(layout_symbols.largest(place, (I, J), (N, 6))) for place in (I // 8, I % 8, I * 4 + J)
    ]
    with pytest.raises(ProgramError, match="has no provable bounds"):
        layout_symbols.largest(I ^ J, (I, J), (N, N))


def test_expressions_are_shortened_and_compared() -> None:
    assert 3 == layout_symbols.simplified(I // 8 + 3, (I,), (8,))
    assert layout_symbols.are_same(I % 8, I, (I,), (8,))
    assert not layout_symbols.are_same(I % 8, I, (I,), (9,))
    assert layout_symbols.key(N + 1) == layout_symbols.key(N + 1) != layout_symbols.key(N)
