"""The arguments of a function decorated by `@tilelang.jit`: binding with defaults, and hashable keys.

`key_of_value` is for the cache of kernels, `plain_key` for programs that call `f.func.parse_args`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from tilelang.api import public
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


RETURN_KERNEL = "__return_kernel"  # the keyword of a call that asks for the kernel

ParsedArguments = tuple[tuple[tuple[Any, ...], tuple[int, ...] | None], dict[str, Any]]


@public
class JITFunc:
    """The user's function below `@tilelang.jit`, with the classification of its arguments.

    Attributes:
        function: The function itself.
    """

    __name__: str

    def __init__(self, function: Callable[..., Any], parse: Callable[..., ParsedArguments]) -> None:
        self.function = function
        self._parse = parse
        functools.update_wrapper(self, function)

    @classmethod
    def of(cls, function: Callable[..., Any], parse: Callable[..., ParsedArguments]) -> JITFunc:
        """`function`, which may be a `JITFunc`, with another classification of arguments."""
        return cls(function.function if isinstance(function, JITFunc) else function, parse)

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """Calls the function as it is."""
        return self.function(*args, **keywords)

    def parse_args(self, *args: Any, **keywords: Any) -> ParsedArguments:
        """The arguments of a call, sorted: `((key, const_key), tensors)`.

        `key` holds the compile-time values in the order of the signature, then keywords that are no parameters as
        `((name, value), ...)`; `const_key` the sizes of `T.const`, or None for a function that returns a prim_func;
        `tensors` the runtime arguments by name.

        Raises:
            ArgumentError: The call does not fit the signature, or a compile-time value cannot be hashed.
        """
        return self._parse(args, keywords)


def split_keywords(
    signature: inspect.Signature, keywords: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Keywords that the signature takes, and others."""
    parameters = signature.parameters
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return dict(keywords), {}
    known = {name: value for name, value in keywords.items() if name in parameters}
    return known, {name: value for name, value in keywords.items() if name not in parameters}


def plain_key(
    signature: inspect.Signature,
    values: Mapping[str, Any],
    extra: Mapping[str, Any],
    runtime: frozenset[str] = frozenset(),
) -> tuple[Any, ...]:
    """The compile-time values of a call in the order of the signature, hashable: lists and dicts by content.

    Raises:
        ArgumentError: A value cannot be hashed.
    """
    key: list[Any] = []
    for name, parameter in signature.parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            if values.get(name):
                key.append(tuple(sorted(values[name].items())))
        elif name in values and name not in runtime:
            key.append(values[name])
    if extra:
        key.append(tuple(sorted(extra.items())))
    return tuple(_hashable(value) for value in key)


def _hashable(value: Any) -> Any:
    if isinstance(value, dict):
        items = sorted(value.items(), key=lambda item: repr(item[0]))
        return (dict, tuple((_hashable(k), _hashable(v)) for k, v in items))
    if isinstance(value, list):
        return (list, tuple(_hashable(item) for item in value))
    if isinstance(value, set):
        return (set, tuple(sorted((_hashable(item) for item in value), key=repr)))
    if isinstance(value, tuple):
        return tuple(_hashable(item) for item in value)
    if not isinstance(value, Hashable):
        raise ArgumentError(
            f"Unsupported unhashable JIT compile-time cache key value of type {type(value).__name__}: {value!r:.60}",
            hint="pass numbers, texts, dtypes, tuples, lists, dicts and sets of them, or frozen dataclasses",
        )
    return value


class Identity:
    """An unhashable object as a key: equal to itself only, and kept alive."""

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
