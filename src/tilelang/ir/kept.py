"""What analyses find out about a node, kept on the node.

Takes a frozen node and what the answer depends on besides, gives the answer. Invariant: the answer is worked out anew
where anything that it depends on is another object, so it never goes stale; it lives as long as the node does.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


def kept(node: object, name: str, inputs: tuple[object, ...], make: Callable[[], T]) -> T:
    """What `make` gives for a node and further inputs; the last answer is kept.

    Args:
        node: What the answer is about.
        name: The question.
        inputs: All else that the answer depends on, immutable objects that are compared by identity.
        make: Works out the answer.
    """
    known = node.__dict__.get(name)
    if known is None or not all(map(operator.is_, known[0], inputs)):
        known = node.__dict__[name] = (inputs, make())
    answer: T = known[1]
    return answer


class kept_property(Generic[T]):
    """A property that is worked out once per node: `functools.cached_property` without the lock of Python 3.11."""

    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make, self._name = make, make.__name__
        self.__doc__ = make.__doc__

    @overload
    def __get__(self, node: None, owner: type) -> kept_property[T]: ...

    @overload
    def __get__(self, node: object, owner: type | None = None) -> T: ...

    def __get__(self, node: object, owner: type | None = None) -> Any:
        if node is None:
            return self
        value = node.__dict__[self._name] = self._make(node)
        return value
