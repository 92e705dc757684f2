"""The memory in which Python keeps the frames of calls."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import TypeVar, cast

_Function = TypeVar("_Function", bound=Callable[..., object])

_SLOTS = 1 << 15  # values of 8 bytes; the callees share nearly as much


def reserve_frames(function: _Function) -> _Function:
    """A decorator for functions that begin deep recursions: their callees find memory for their frames.

    CPython 3.11 and later keep frames in chunks of 16 KiB, each mapped when a call needs it and unmapped when that
    returns. A recursion that goes up and down over the end of a chunk maps memory again and again, which takes up to an
    eighth of its time. A frame that needs more gets a chunk of the next power of two, and its callees the rest of it.
    """
    python_function = cast(types.FunctionType, function)
    code = python_function.__code__
    python_function.__code__ = code.replace(co_stacksize=code.co_stacksize + _SLOTS)
    return function
