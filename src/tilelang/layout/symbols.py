"""Interface to expressions of the IR: index variables, simplification and bounds.

It is implemented in a layer to the right, where expressions are; layouts of constant shape that are applied to numbers
and arrays do not use it.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any, Protocol, cast


class Symbols(Protocol):
    """Operations on index expressions."""

    def variables(self, names: Sequence[str]) -> tuple[Any, ...]:
        """Index variables of these names."""

    def simplified(self, index: Any, variables: Sequence[Any], extents: Sequence[Any]) -> Any:
        """A simplified index expression of the same value for all values of the variables."""

    def largest(self, index: Any, variables: Sequence[Any], extents: Sequence[Any]) -> Any:
        """The largest value of an index expression whose variables range from 0 to these extents."""

    def are_same(self, one: Any, other: Any, variables: Sequence[Any], extents: Sequence[Any]) -> bool:
        """Whether two index expressions are proven to have the same value for all values of the variables."""

    def key(self, value: Any) -> Any:
        """A hashable key, equal for structurally equal expressions only."""


def symbols() -> Symbols:
    """The implementation, `tilelang.arith.layout_symbols`, imported at the first use."""
    return cast(Symbols, import_module("tilelang.arith.layout_symbols"))
