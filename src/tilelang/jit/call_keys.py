"""Keys of calls of functions marked `@tilelang.jit`, cheap to compute (below 1 us).

Invariant: calls with equal keys have equal arguments in the sense of `signature.key_of_value`; the converse need not
hold.
"""

from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from tilelang.dtypes import DType
from tilelang.jit.options import environment_key
from tilelang.jit.runners import Runner
from tilelang.jit.signature import key_of_value
from tilelang.records import record

Place = int | str
"""Of an argument in a call: its position, or its keyword."""

# Types whose values are compared as they are; torch.dtype is added when first seen.
COMPARABLE: set[type] = {int, bool, str, type(None), DType, type}


def add_values(key: list[Any], values: Iterable[Any]) -> None:
    """Appends values with their types, or keys of them, to a key."""
    for value in values:
        kind = type(value)
        key.append(kind)
        if kind in COMPARABLE:
            key.append(value)
        elif kind is float:
            key.append(value.hex())  # as `key_of_value`
        elif is_comparable(kind):
            COMPARABLE.add(kind)
            key.append(value)
        else:
            key.append(key_of_value(value))


def key_of_call(args: Sequence[Any], keywords: Mapping[str, Any]) -> tuple[Any, ...]:
    """A key that is equal only for calls with equal arguments, in the same environment."""
    key: list[Any] = [environment_key(), *keywords]
    add_values(key, args)
    if keywords:
        add_values(key, keywords.values())
    return tuple(key)


def is_comparable(kind: type) -> bool:
    """Whether values of a type can be part of a key as they are."""
    return kind in COMPARABLE or kind is float or (kind.__name__ == "dtype" and kind.__module__ == "torch")


def plain_tensor_types() -> frozenset[type]:
    """The tensor types whose `shape` cannot be overridden: no subclasses."""
    return _plain_tensor_types(sys.modules.get("torch"))


@functools.cache
def _plain_tensor_types(torch: Any) -> frozenset[type]:
    return frozenset({np.ndarray} if torch is None else {np.ndarray, torch.Tensor, torch.nn.Parameter})


def selector(places: Sequence[Place]) -> Callable[[Any], tuple[Any, ...]]:
    """A function that selects the elements of a tuple at some positions, or of a mapping under some names."""
    first = places[0] if places else 0
    if isinstance(first, int) and list(places) == [*range(first, first + len(places))]:
        return operator.itemgetter(slice(first, first + len(places)))  # one part is a tuple, too
    if len(places) == 1:
        return lambda given: (given[first],)
    return operator.itemgetter(*places)


@record(slots=True)
class Known:
    """The kernel of calls of one form with given compile-time values and sizes.

    Attributes:
        runner: The runner of the kernel.
        pick: Selects the kernel's arguments from those of a call; None for all arguments in order.
    """

    runner: Runner
    pick: Callable[[Any], tuple[Any, ...]] | None


@record(slots=True)
class Form:
    """Calls of an eager function with the same number of positional arguments, and the same keywords in the same order.

    The places of arguments are their names where all of a call are keywords; otherwise they are numbered: positional
    ones, keywords, then defaulted runtime arguments.

    Attributes:
        defaults: The values of defaulted arguments: by name, or in the order of their numbers.
        values: Places of the compile-time values.
        sizes: Places of the tensors whose shapes determine the sizes of kernels so far.
        absent: Places of the tensors that some kernel does not take if they are None.
        known: The kernels by environment, those shapes, which of those tensors are None, and the values.
    """

    defaults: Any
    values: tuple[Place, ...]
    sizes: tuple[Place, ...]
    absent: tuple[Place, ...]
    known: dict[tuple[Any, ...], Known] = field(default_factory=dict)
