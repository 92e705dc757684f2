"""Results of analyses, memoized on the node that they are about.

Takes a frozen node and the other inputs of an analysis, gives its result. Invariant: the result is computed again when
an input is another object, so that it is never stale; it lives as long as the node.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


def memoized(node: object, name: str, inputs: tuple[object, ...], compute: Callable[[], T]) -> T:
    """The result of `compute` for a node and further inputs; the latest one is stored.

    Args:
        node: What the result is about.
        name: The attribute of the node that stores it.
        inputs: All else that it depends on: immutable objects, compared by identity.
        compute: Computes it. The result must not refer back to the node: only the garbage collector would free both.
    """
    entry = node.__dict__.get(name)
    if entry is None or not all(map(operator.is_, entry[0], inputs)):
        entry = node.__dict__[name] = (inputs, compute())
    result: T = entry[1]
    return result


class memoized_property(Generic[T]):
    """A property that is computed once per node: `functools.cached_property` without the lock of Python 3.11."""

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute, self._name = compute, compute.__name__
        self.__doc__ = compute.__doc__

    @overload
    def __get__(self, node: None, owner: type) -> memoized_property[T]: ...

    @overload
    def __get__(self, node: object, owner: type | None = None) -> T: ...

    def __get__(self, node: object, owner: type | None = None) -> Any:
        if node is None:
            return self
        value = node.__dict__[self._name] = self._compute(node)
        return value
