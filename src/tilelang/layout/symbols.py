"""What layouts need to know about expressions: how to make index variables, and how large an expression can get.

Takes the answers of a module to the right, where expressions live. Invariant: layouts of constant shape that are
applied to numbers and arrays never ask.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any, Protocol, cast


class Symbols(Protocol):
    """Questions about expressions."""

    def variables(self, names: Sequence[str]) -> tuple[Any, ...]:
        """Index variables of these names."""

    def simplified(self, place: Any, variables: Sequence[Any], extents: Sequence[Any]) -> Any:
        """A shorter index expression of the same value for all values of the variables."""

    def largest(self, place: Any, variables: Sequence[Any], extents: Sequence[Any]) -> Any:
        """The largest value of an index expression whose variables count from 0 up to these extents."""

    def are_same(self, one: Any, other: Any, variables: Sequence[Any], extents: Sequence[Any]) -> bool:
        """Whether two index expressions are proven to have the same value for all values of the variables."""

    def key(self, value: Any) -> Any:
        """What two expressions of the same form have in common, and others have not; hashable."""


def symbols() -> Symbols:
    """The answers of `tilelang.arith.layout_symbols`, loaded when a layout is first asked for expressions."""
    return cast(Symbols, import_module("tilelang.arith.layout_symbols"))
