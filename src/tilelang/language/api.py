"""What every `T.` function shares: a call with the wrong arguments is the user's error, told in the user's words.

Takes a function of the language, gives the same function. Invariant: no Python `TypeError` about parameters reaches
the user.
"""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from tilelang.errors import StagingError

P = ParamSpec("P")
R = TypeVar("R")


def api(function: Callable[P, R]) -> Callable[P, R]:
    """The function with missing, surplus and unknown arguments reported as a `StagingError` with its form as hint."""

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except TypeError:
            _explain(function, args, kwargs)
            raise

    return checked


def _explain(function: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]) -> None:
    signature = inspect.signature(function)
    name = f"T.{function.__name__}"
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        form = ", ".join(str(p.replace(annotation=p.empty)) for p in signature.parameters.values())
        hint = f"the form is {name}({form})"
        for given in kwargs:
            near = difflib.get_close_matches(given, signature.parameters, n=1)
            if given not in signature.parameters and near:
                hint = f"did you mean {near[0]!r}? {hint}"
        raise StagingError(f"{name}: {error}", hint=hint) from None
