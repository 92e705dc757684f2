"""The arguments of the function that `@tilelang.jit` decorates: defaults filled in, made into a key.

Takes a call of the user's function; gives its arguments by name, and a hashable key under which equal calls meet.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tilelang.dtypes import SCALARS, DType, as_dtype
from tilelang.errors import ArgumentError
from tilelang.runtime.arrays import is_torch_tensor


def bind_call(
    name: str, signature: inspect.Signature, args: Sequence[Any], keywords: Mapping[str, Any], *, partial: bool = False
) -> dict[str, Any]:
    """The arguments of a call of the function `name` by name, defaults included; if `partial`, only those given.

    Raises:
        ArgumentError: The call does not fit the function's signature.
    """
    try:
        bound = (signature.bind_partial if partial else signature.bind)(*args, **keywords)
    except TypeError as error:
        raise ArgumentError(f"{name}: {error}", hint=f"the signature is {name}{signature}") from None
    if not partial:
        bound.apply_defaults()
    return dict(bound.arguments)


class Identity:
    """An object that cannot be hashed, as a key: equal to itself only, and kept alive."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Identity) and other.value is self.value


def key_of_value(value: Any) -> Any:
    """A hashable key, equal for arguments that mean the same.

    A dtype in any spelling, its name included, is one key; 1, 1.0 and True differ; lists and dicts are compared by
    content.
    """
    if isinstance(value, str) and (isinstance(value, DType) or value in SCALARS):
        return ("dtype", str(value))
    if type(value).__module__ == "torch" and type(value).__name__ == "dtype":
        return ("dtype", str(as_dtype(value)))
    if isinstance(value, np.dtype) or isinstance(value, type) and issubclass(value, np.generic):
        return ("dtype", str(np.dtype(value)))
    if isinstance(value, list | tuple):
        return (type(value), *(key_of_value(item) for item in value))
    if isinstance(value, dict):
        return (dict, *sorted(((repr(k), key_of_value(v)) for k, v in value.items()), key=lambda item: item[0]))
    if isinstance(value, set | frozenset):
        return (frozenset, frozenset(key_of_value(item) for item in value))
    if isinstance(value, float):
        return (type(value), value.hex())  # 0.0 and -0.0 differ, and NaN meets itself
    try:
        hash(value)
    except TypeError:
        return Identity(value)
    return (type(value), value)


def is_array(value: Any) -> bool:
    """Whether an argument is a tensor rather than a plain value."""
    if isinstance(value, np.ndarray) or is_torch_tensor(value):
        return True
    if isinstance(value, np.generic | type):
        return False
    return any(hasattr(value, name) for name in ("__dlpack__", "__cuda_array_interface__", "__array_interface__"))
