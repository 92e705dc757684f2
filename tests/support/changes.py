"""The fields in which two programs differ, for tests that printed programs are complete."""

import dataclasses
import enum

import numpy as np

from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Var

UNSEEN = ("loc", "notes", "weak")
"""Fields that are about a program and not of it, and how a literal came about."""


def difference(before, after):
    """The path to the first place in which two programs differ; "" if they are the same but for the names of things."""
    return _Comparison().compare(before, after, "")


class _Comparison:
    def __init__(self):
        self._same = {}

    def compare(self, a, b, path):
        if a is b or callable(a) and not dataclasses.is_dataclass(a) or isinstance(a, np.ndarray):
            return ""
        if type(a) is not type(b):
            return path
        if isinstance(a, Var | Buffer):
            if a in self._same:
                return "" if self._same[a] is b else path
            self._same[a] = b
        if isinstance(a, str | bytes | int | float | enum.Enum):
            return "" if a == b or a != a else path
        if isinstance(a, tuple | list):
            if len(a) != len(b):
                return path
            found = (self.compare(x, y, f"{path}[{n}]") for n, (x, y) in enumerate(zip(a, b, strict=True)))
            return next(filter(None, found), "")
        if dataclasses.is_dataclass(a):
            names = [field.name for field in dataclasses.fields(a) if field.name not in UNSEEN]
            found = (self.compare(getattr(a, n), getattr(b, n), f"{path}.{type(a).__name__}.{n}") for n in names)
            return next(filter(None, found), "")
        return ""
