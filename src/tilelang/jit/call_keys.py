"""What is remembered of calls of functions marked `@tilelang.jit`, and keys that take well below a microsecond to make.

Takes arguments of calls, gives keys. Invariant: calls with equal keys have equal
arguments in the sense of `signature.key_of_value`; the other way round need not hold.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from tilelang.dtypes import DType
from tilelang.jit.options import asked
from tilelang.jit.runners import Runner
from tilelang.jit.signature import key_of_value
from tilelang.records import record

# Types whose values are compared as they are; that of torch's dtypes joins them with the first one that is met.
COMPARABLE: set[type] = {int, bool, str, type(None), DType, type}


def add_values(key: list[Any], values: Iterable[Any]) -> None:
    """Appends to a key what tells values from others: their types and themselves, or keys of them."""
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
    """A key that is equal only for calls with equal arguments, under the same environment."""
    key: list[Any] = [asked(), *keywords]
    add_values(key, args)
    if keywords:
        add_values(key, keywords.values())
    return tuple(key)


def is_comparable(kind: type) -> bool:
    """Whether the values of a type are told apart without looking into them."""
    return kind in COMPARABLE or kind is float or (kind.__name__ == "dtype" and kind.__module__ == "torch")


def plain_tensor_types() -> frozenset[type]:
    """The types of tensors whose shape is theirs alone: no subclass can have made it something else."""
    torch = sys.modules.get("torch")
    return frozenset({np.ndarray} if torch is None else {np.ndarray, torch.Tensor, torch.nn.Parameter})


def picking(places: Sequence[int]) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
    """A function that gives the parts of a tuple that are at some places, in that order."""
    first = places[0] if places else 0
    if list(places) == [*range(first, first + len(places))]:
        return operator.itemgetter(slice(first, first + len(places)))  # one part is a tuple, too
    return operator.itemgetter(*places)


@record(slots=True)
class Known:
    """The kernel for calls of one form with some compile-time values and sizes.

    Attributes:
        runner: Of the kernel.
        pick: Gives the kernel's arguments out of those of a call; None where these are all arguments in order.
    """

    runner: Runner
    pick: Callable[[tuple[Any, ...]], tuple[Any, ...]] | None


@record(slots=True)
class Form:
    """Calls of an eager function with as many positional arguments, and the same keywords in the same order.

    The arguments of such a call are numbered: positional ones, keywords, then runtime arguments left to their defaults.

    Attributes:
        defaults: The values of those left to their defaults.
        values: The numbers of compile-time values.
        sizes: The numbers of tensors whose shapes give the sizes that kernels are made for, as far as was met.
        absent: The numbers of tensors that some kernel does not take where they are None.
        known: The kernels by what the environment says, those shapes, which of those tensors are None, and the values.
    """

    defaults: tuple[Any, ...]
    values: tuple[int, ...]
    sizes: tuple[int, ...]
    absent: tuple[int, ...]
    known: dict[tuple[Any, ...], Known] = field(default_factory=dict)
