"""Where an instruction's values are among those that a thread holds of a fragment.

Takes the fragment that was inferred and the one that the instruction asked for; layouts are inferred up to the order of
value digits, and an instruction may hold elements several times. Gives the place of each value as an expression.
Invariant: both fragments give every thread the same elements.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from tilelang.errors import CompilerBug
from tilelang.layout.thread_values import Fragment
from tilelang.records import record


@record
class FragmentOrder:
    """The permutation from a thread's values in `wanted` to those in `actual`.

    Attributes:
        actual: What the registers hold.
        wanted: The layout that the instruction requires.
    """

    actual: Fragment
    wanted: Fragment

    @cached_property
    def places(self) -> np.ndarray:
        """For each value of `wanted`, the place of the same element among the values of `actual`. Shape (values,).

        Raises:
            CompilerBug: The fragments hold different elements.
        """
        actual, wanted = self.actual.table, self.wanted.table
        found = {tuple(coordinate): place for place, coordinate in enumerate(actual[0].tolist())}
        places = np.array([found.get(tuple(coordinate), 0) for coordinate in wanted[0].tolist()], np.int64)
        if len(actual) != len(wanted) or not np.array_equal(actual[:, places], wanted):
            raise CompilerBug(f"a fragment is {self.actual}, but an instruction needs {self.wanted}")
        return places

    def keeps(self, run: int) -> bool:
        """Whether aligned groups of `run` values lie side by side, aligned and in order."""
        groups = self.places.reshape(-1, run)
        return bool((groups == groups[:, :1] + np.arange(run)).all() and (groups[:, 0] % run == 0).all())

    def place(self, *coordinate: Any) -> Any:
        """The place, among a thread's values, of the element that thread 0 holds at this coordinate."""
        return self.actual.owner(*coordinate)[1]
