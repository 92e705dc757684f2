"""What every `tnp.` function shares: how a wrong call is answered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from tilelang.api import Words, public
from tilelang.errors import StagingTypeError
from tilelang.language.api import LANGUAGE

F = TypeVar("F", bound=Callable[..., Any])

ARRAYS = Words(
    "tnp.",
    {"TracedArray": "array", "Scalar": "array", "Operand": "array", "IndexedUpdate": "array.at[...]"},
    StagingTypeError,
    LANGUAGE.unexplained,
)


def api(function: F) -> F:
    """The function, or the public methods of a class, with wrong calls reported in terms of `tilelang.numpy`."""
    return public(function, ARRAYS)
