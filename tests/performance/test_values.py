import numpy as np

from tilelang.dtypes import FLOAT32, INT32
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Load, Var, as_expr
from tilelang.performance.values import Values, first_of

I, J = Var("i", INT32, index=True), Var("j", INT32, index=True)


def buffer(*shape: int, scope: Scope = Scope.GLOBAL, dtype: object = FLOAT32) -> Buffer:
    return Buffer("A", tuple(map(as_expr, shape)), dtype, scope)  # type: ignore[arg-type]


def test_values_are_numbers_or_one_per_thread() -> None:
    values = Values({I: 3, J: np.arange(4)})
    assert 7 == values.of(I * 2 + 1)
    assert [3, 4, 5, 6] == list(np.asarray(values.of(I + J)))
    values.bind(I, None)
    assert values.of(I + 1) is None


def test_the_place_of_an_element() -> None:
    values = Values({I: 3, J: np.arange(4)})
    assert [24, 25, 26, 27] == list(np.asarray(values.offset(buffer(16, 8), (I, J))))


def test_data_is_unknown_but_for_counters_of_pipelines() -> None:
    values = Values({I: 3})
    assert values.of(Load(buffer(8, dtype=INT32), (I,), INT32)) is None
    assert 1 == values.of(Load(buffer(scope=Scope.VAR, dtype=INT32), (), INT32) + 1)


def test_a_scalar_counts_as_the_value_with_which_it_is_allocated() -> None:
    values, scalar, other = Values({I: 3}), buffer(scope=Scope.VAR, dtype=INT32), buffer(scope=Scope.VAR, dtype=INT32)
    values.begin(scalar, I + 1)
    values.begin(other, J)
    assert 9 == values.of(Load(scalar, (), INT32) + 5)
    assert values.of(Load(other, (), INT32)) is None


def test_the_first_thread() -> None:
    assert (-1, 5, 7) == (first_of(None), first_of(5), first_of(np.array([7, 8])))
