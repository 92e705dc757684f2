"""Permutation between the values that a thread holds of a fragment and those that an instruction requires.

Takes the inferred fragment and the one that the instruction requires; layouts are inferred up to the order of value
digits, and an instruction may use elements several times. Gives the register number of each value as an expression.
Invariant: both fragments assign the same elements to every thread.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from tilelang.errors import CompilerBug
from tilelang.layout.thread_values import Fragment
from tilelang.records import record


@record
class ValuePermutation:
    """The permutation from a thread's values in `required` to those in `actual`.

    Attributes:
        actual: The layout of the registers.
        required: The layout that the instruction requires.
    """

    actual: Fragment
    required: Fragment

    @cached_property
    def indices(self) -> np.ndarray:
        """For each value of `required`, the index of the same element among the values of `actual`. Shape (values,).

        Raises:
            CompilerBug: The fragments hold different elements.
        """
        actual, required = self.actual.table, self.required.table
        found = {tuple(coordinate): index for index, coordinate in enumerate(actual[0].tolist())}
        places = np.array([found.get(tuple(coordinate), 0) for coordinate in required[0].tolist()], np.int64)
        if len(actual) != len(required) or not np.array_equal(actual[:, places], required):
            raise CompilerBug(f"a fragment is {self.actual}, but an instruction needs {self.required}")
        return places

    def keeps_runs(self, run: int) -> bool:
        """Whether aligned groups of `run` values are contiguous, aligned and in order."""
        groups = self.indices.reshape(-1, run)
        return bool((groups == groups[:, :1] + np.arange(run)).all() and (groups[:, 0] % run == 0).all())

    def index(self, *coordinate: Any) -> Any:
        """The index, among a thread's values, of the element that thread 0 holds at this coordinate."""
        return self.actual.owner(*coordinate)[1]
