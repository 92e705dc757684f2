"""Tests for tilelang.numpy: the names that it has, and what it answers to others."""

import pytest

import tilelang.numpy as tnp
from tilelang.dtypes import DType
from tilelang.errors import UnknownAttribute
from tilelang.level1.functions import NAMES

_REQUIRED = """
where clip sum prod max min mean var std all any argmax argmin cumulative_sum sort topk matmul einsum tensordot vecdot
outer softmax log_softmax logsumexp sigmoid silu gelu relu reshape permute_dims expand_dims squeeze broadcast_to concat
stack split flip take take_along_axis arange zeros ones full eye tril triu astype finfo inf compute reduce_axis
""".split()


def test_all_promised_functions_are_there() -> None:
    assert set() == {name for name in _REQUIRED if not hasattr(tnp, name)}
    assert set() == {name for name in NAMES if not hasattr(tnp, name)}


def test_no_function_is_in_two_modules() -> None:
    assert len(set(NAMES)) == len(NAMES)


def test_every_function_has_a_description() -> None:
    assert [] == [name for name in NAMES if callable(getattr(tnp, name)) and not getattr(tnp, name).__doc__]


def test_dtypes_are_names() -> None:
    assert DType("float16") == tnp.float16
    assert "bool" == tnp.bool


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("softmx", "did you mean tnp.softmax?"), ("concatenate", "write tnp.concat"), ("transpose", "write tnp.permute_dims"),
        ("arccos", "write tnp.acos"), ("power", "write tnp.pow"), ("cumsum", "write tnp.cumulative_sum"), ("zzzz", ""),
    ],
)  # fmt: skip
def test_other_names(name: str, hint: str) -> None:
    with pytest.raises(UnknownAttribute) as error:
        getattr(tnp, name)
    assert str(error.value) == f"tilelang.numpy has no function '{name}'" + (f"\nhint: {hint}" if hint else "")
