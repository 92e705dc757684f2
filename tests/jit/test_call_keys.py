"""Keys of values differ wherever `key_of_value` differs."""

import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilelang.dtypes import as_dtype
from tilelang.jit.call_keys import add_values, is_comparable, key_of_call, plain_tensor_types, selector
from tilelang.jit.signature import key_of_value
from tilelang.targets.target import Target

plain = st.none() | st.booleans() | st.integers(-2, 2) | st.floats(-1, 1) | st.sampled_from(["", "1", "float32"])
values = st.recursive(plain, lambda part: st.lists(part, max_size=2) | st.tuples(part) | st.dictionaries(plain, part, max_size=2))


def key(*values: Any) -> Any:
    found: list[Any] = []
    add_values(found, values)
    return tuple(found)


@given(values, values)
def test_equal_keys_imply_equal_values(a: Any, b: Any) -> None:
    if key(a) == key(b):
        assert key_of_value(a) == key_of_value(b)
    assert key(a, b) == key(a, b)
    assert hash(key(a)) == hash(key(a))


def test_keys_depend_on_how_arguments_are_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((), {}), ((1,), {}), ((True,), {}), ((), {"a": 1}), ((1,), {"a": 1}), ((), {"b": 1}), (("a", 1), {})
    ]
    keys = [key_of_call(*call) for call in calls]
    assert len(calls) == len(set(keys))
    assert keys == [key_of_call(*call) for call in calls]
    with Target("cpu"):
        assert keys[0] != key_of_call((), {})
    assert keys[0] == key_of_call((), {})
    monkeypatch.setenv("TILELANG_DEFAULT_TARGET", "cpu")
    assert keys[0] != key_of_call((), {})


@pytest.mark.parametrize("places", [[], [0], [2], [0, 1], [1, 2], [2, 0], [0, 2], [2, 1, 0]])
def test_parts_are_selected_in_order(places: list[int]) -> None:
    assert tuple("abc"[place] for place in places) == selector(places)(("a", "b", "c"))


@pytest.mark.parametrize("names", ["a", "b", "ab", "ca"])
def test_parts_are_selected_by_name(names: str) -> None:
    assert tuple(names) == selector([*names])({name: name for name in "abc"})


def test_classes_and_dtypes_are_keys() -> None:
    for value in (as_dtype("float16"), np.float32, np.dtype("float32"), np.float32(1), print):
        assert key(value) == key(value)
    assert key(np.float32) != key(np.float64)
    assert key(as_dtype("float16")) != key(as_dtype("float32"))


def test_comparable_types_hold_one_value() -> None:
    assert all(map(is_comparable, (int, float, bool, str, type(None))))
    assert not any(map(is_comparable, (list, tuple, object, np.ndarray)))


def test_torch_tensors_are_plain_once_torch_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    assert {np.ndarray, torch.Tensor, torch.nn.Parameter} == plain_tensor_types()
    assert key(torch.float16) == key(torch.float16)
    assert key(torch.float16) != key(torch.float32)
    assert is_comparable(torch.dtype)
    monkeypatch.delitem(sys.modules, "torch")
    assert {np.ndarray} == plain_tensor_types()
