"""Forms of calls of computations: calls of a form differ in nothing but the shapes, dtypes and values of arrays.

The form of a call takes less than a microsecond to find. Its latest computation is tried first, whose kernel checks the
arrays; other computations of the form are found by shapes and dtypes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, Generic, TypeVar

from tilelang.jit.call_keys import COMPARABLE, add_values, is_comparable, plain_tensor_types
from tilelang.jit.options import environment_key
from tilelang.records import record

Computation = TypeVar("Computation")


def form_of_call(args: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
    """A key that is equal only for calls of one form; None if there is none that is cheap to compute."""
    key: list[Any] = [environment_key(), *keywords]
    tensors = plain_tensor_types()
    for value in (*args, *keywords.values()) if keywords else args:
        kind = type(value)
        if kind in tensors:
            key.append(kind)
        elif kind in COMPARABLE or is_comparable(kind):
            add_values(key, (value,))
        else:
            return None
    return tuple(key)


@record(frozen=False, eq=False)
class CallForm(Generic[Computation]):
    """The computations of one form of calls.

    Attributes:
        pick: Selects the arrays, in the order of the function's parameters, from the arguments of a call.
        sized: For each of them, whether a computation is for one shape of it.
        latest: The computation of the latest call.
        known: All of them, by the shapes and dtypes of the arrays.
    """

    pick: Callable[[Any], tuple[Any, ...]]
    sized: tuple[bool, ...]
    latest: Computation
    known: dict[Any, Computation] = field(default_factory=dict)

    def find(self, arrays: Sequence[Any]) -> Computation | None:
        """The computation for arrays, from now on the latest one; None if it is not known."""
        found = self.known.get(self._facts(arrays))
        if found is not None:
            self.latest = found
        return found

    def add(self, arrays: Sequence[Any], computation: Computation) -> None:
        """Adds the computation for arrays."""
        self.known[self._facts(arrays)] = self.latest = computation

    def _facts(self, arrays: Sequence[Any]) -> tuple[Any, ...]:
        pairs = zip(arrays, self.sized, strict=True)
        return tuple([(array.dtype, array.shape if sized else None) for array, sized in pairs])
