import inspect

import numpy as np
import pytest

import tilelang.language as T
from tilelang.errors import ArgumentError
from tilelang.jit.signature import bind_call, is_array, key_of_value


def f(a: int, b: int = 2, *, c: int = 3) -> None:
    """Something to call."""


def test_defaults_are_filled_in() -> None:
    assert {"a": 1, "b": 2, "c": 4} == bind_call("f", inspect.signature(f), (1,), {"c": 4})


@pytest.mark.parametrize(
    ("args", "keywords", "message"),
    [
        ((), {}, "f: missing a required argument: 'a'"),
        ((1, 2, 3), {}, "f: too many positional arguments"),
        ((1,), {"d": 4}, "f: got an unexpected keyword argument 'd'"),
    ],
)
def test_a_call_that_does_not_fit_is_refused(args: tuple[int, ...], keywords: dict[str, int], message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        bind_call("f", inspect.signature(f), args, keywords)
    assert f"{message}\nhint: the signature is f(a: int, b: int = 2, *, c: int = 3) -> None" == str(caught.value)


def test_dtypes_in_every_spelling_have_one_key() -> None:
    assert key_of_value(T.float16) == key_of_value(np.float16) == key_of_value(np.dtype("float16"))


@pytest.mark.parametrize(("a", "b"), [(1, 1.0), (1, True), ([1], (1,)), ([1, 2], [2, 1]), ({"a": 1}, {"a": 2}), (0.0, -0.0)])
def test_values_that_mean_different_things_have_different_keys(a: object, b: object) -> None:
    assert key_of_value(a) != key_of_value(b)


@pytest.mark.parametrize("value", [[1, [2, 3]], {"a": [1], "b": 2}, {1, 2}, (None, "x"), np.float32, float("nan")])
def test_keys_are_hashable_and_equal_for_equal_content(value: object) -> None:
    assert hash(key_of_value(value)) == hash(key_of_value(value))
    assert key_of_value(value) == key_of_value(value)


def test_the_order_of_a_dict_does_not_matter() -> None:
    assert key_of_value({"a": 1, "b": 2}) == key_of_value({"b": 2, "a": 1})


def test_unhashable_objects_are_equal_to_themselves_only() -> None:
    class Odd:
        __hash__ = None  # type: ignore[assignment]

    odd = Odd()
    assert key_of_value(odd) == key_of_value(odd)
    assert key_of_value(odd) != key_of_value(Odd())


def test_arrays_are_distinguished_from_values() -> None:
    assert is_array(np.zeros(3))
    assert not any(is_array(value) for value in (np.float32(1), np.float32, 3, "x", None, [1]))


def test_tensors_are_arrays() -> None:
    torch = pytest.importorskip("torch")
    assert is_array(torch.zeros(3))
    assert not is_array(torch.float32)
