"""Base class of values that are known only when the kernel runs.

Invariant: conversion to a Python number or truth value raises; conversion to text is reported to the stager.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from typing import Any

from tilelang.api import without_frames
from tilelang.errors import StagingError, is_user_code

TEXT_MADE: ContextVar[Callable[[object], None] | None] = ContextVar("text_made", default=None)
"""Called with every expression that user code converts to text; set while a kernel is staged."""


class RuntimeValue:
    """A value known only when the kernel runs; conversions to plain Python values raise."""

    @without_frames
    def __bool__(self) -> bool:
        raise StagingError(
            "a value known only when the kernel runs has no truth value in Python",
            hint="inside a kernel use `if`, `and`, `or`, `not` directly; in helpers use T.if_then_else, T.all_of, "
            "T.any_of, T.max, T.min, or mark the helper @T.macro",
        )

    @without_frames
    def __index__(self) -> int:
        raise StagingError(
            "a value known only when the kernel runs cannot be used as a Python integer",
            hint="to index a Python list, loop over plain values: `for i in tuple(range(n))`, or pass its numbers as a "
            "tensor",
        )

    @without_frames
    def __int__(self) -> int:
        raise StagingError("a value known only when the kernel runs is no Python int", hint="write T.int32(x)")

    @without_frames
    def __float__(self) -> float:
        raise StagingError(
            "a value known only when the kernel runs is no Python float",
            hint="write T.float32(x) to convert it, and T.exp(x), T.sqrt(x), ... in place of functions of `math`",
        )

    @without_frames
    def __iter__(self) -> Iterable[Any]:
        raise StagingError("a scalar cannot be iterated over")

    def __str__(self) -> str:
        _report_text(self, sys._getframe(1).f_code.co_filename)
        return repr(self)

    def __format__(self, spec: str) -> str:
        _report_text(self, sys._getframe(1).f_code.co_filename)
        try:
            return format(repr(self), spec)
        except ValueError:  # it is for the number, such as .3f
            return repr(self)


def _report_text(value: RuntimeValue, caller: str) -> None:
    notice = TEXT_MADE.get()
    if notice is not None and is_user_code(caller):
        notice(value)
