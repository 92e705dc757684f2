"""Flattens nested lists, tuples and dicts of arrays, as pytrees of JAX do.

Takes a value, gives its leaves and its structure, which is hashable and rebuilds the value from leaves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tilelang.records import record


@record
class Structure:
    """How a value is made of leaves.

    Attributes:
        kind: The type of a container; None for a leaf.
        keys: The keys of a dict.
        parts: The structures of what it holds.
    """

    kind: Any = None
    keys: tuple[Any, ...] = ()
    parts: tuple[Structure, ...] = ()

    def rebuild(self, leaves: Sequence[Any]) -> Any:
        """The value with these leaves."""
        return self._rebuilt(iter(leaves))

    def _rebuilt(self, leaves: Iterator[Any]) -> Any:
        if self.kind is None:
            return next(leaves)
        parts = [part._rebuilt(leaves) for part in self.parts]
        if issubclass(self.kind, dict):
            return dict(zip(self.keys, parts, strict=True))
        if hasattr(self.kind, "_fields"):  # a named tuple
            return self.kind(*parts)
        return self.kind(parts)

    def paths(self, name: str) -> list[str]:
        """What each leaf is called, as in `weights[0]` for a list named `weights`."""
        if self.kind is None:
            return [name]
        keys: Sequence[Any] = self.keys if issubclass(self.kind, dict) else range(len(self.parts))
        return [path for key, part in zip(keys, self.parts, strict=True) for path in part.paths(f"{name}[{key!r}]")]


def flatten(value: Any) -> tuple[list[Any], Structure]:
    """The leaves of a value in order, and how it is made of them."""
    if isinstance(value, dict):
        keys: tuple[Any, ...] = tuple(value)
        parts = [flatten(value[key]) for key in keys]
    elif isinstance(value, list | tuple):
        keys, parts = (), [flatten(part) for part in value]
    else:
        return [value], Structure()
    kind = dict if isinstance(value, dict) else type(value)
    leaves = [leaf for own, _ in parts for leaf in own]
    return leaves, Structure(kind, keys, tuple(structure for _, structure in parts))
