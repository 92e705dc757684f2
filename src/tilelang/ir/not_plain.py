"""What a value that is known only when the kernel runs says where Python asks for a plain value.

Gives the base class of expressions. Invariant: Python gets no number and no truth value from an expression; its text is
that of the program, and a kernel that makes one is told.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from typing import Any

from tilelang.errors import StagingError, is_user_code

TEXT_MADE: ContextVar[Callable[[object], None] | None] = ContextVar("text_made", default=None)
"""What is called with an expression that code of the user makes a text of; set while a kernel is staged."""


class NotPlain:
    """Refuses to become a plain value of Python."""

    def __bool__(self) -> bool:
        raise StagingError(
            "a value known only when the kernel runs has no truth value in Python",
            hint="inside a kernel use `if`, `and`, `or`, `not` directly; in helpers use T.if_then_else, T.all_of, "
            "T.any_of, T.max, T.min, or mark the helper @T.macro",
        )

    def __index__(self) -> int:
        raise StagingError(
            "a value known only when the kernel runs cannot be used as a Python integer",
            hint="to index a Python list, loop over plain values: `for i in tuple(range(n))`",
        )

    def __int__(self) -> int:
        raise StagingError("a value known only when the kernel runs is no Python int", hint="write T.int32(x)")

    def __float__(self) -> float:
        raise StagingError(
            "a value known only when the kernel runs is no Python float",
            hint="write T.float32(x) to convert it, and T.exp(x), T.sqrt(x), ... in place of math.exp and its kin",
        )

    def __iter__(self) -> Iterable[Any]:
        raise StagingError("a scalar cannot be iterated over")

    def __str__(self) -> str:
        _tell(self, sys._getframe(1).f_code.co_filename)
        return repr(self)

    def __format__(self, spec: str) -> str:
        _tell(self, sys._getframe(1).f_code.co_filename)
        return format(repr(self), spec)


def _tell(value: NotPlain, caller: str) -> None:
    notice = TEXT_MADE.get()
    if notice is not None and is_user_code(caller):
        notice(value)
