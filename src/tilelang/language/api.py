"""What every `T.` function shares: a call with the wrong arguments is the user's error, told in the user's words.

Takes a function of the language, gives the same function. Invariant: no Python error about operands of a wrong kind
reaches the user.
"""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from tilelang.errors import StagingError, StagingTypeError, TileLangError, staging_error_kind

P = ParamSpec("P")
R = TypeVar("R")


def api(function: Callable[P, R]) -> Callable[P, R]:
    """The function with missing, surplus, unknown and unfit arguments reported as a `StagingError` that shows its form.

    Works on the `__init__` of a class, too; the class is then what the message names.
    """

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except TileLangError:
            raise
        except (TypeError, ValueError, AttributeError, OverflowError) as error:
            raise _explained(function, args, kwargs, error) from error

    return checked


def _explained(
    function: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object], error: Exception
) -> StagingError:
    signature = inspect.signature(function)
    owner, _, name = function.__qualname__.rpartition(".")
    skip = int(bool(owner))  # `self`
    what = _USER_NAMES.get(owner, f"T.{owner or name}")
    parameters = list(signature.parameters.values())[skip:]
    form = f"the form is {what}({', '.join(str(p.replace(annotation=p.empty)) for p in parameters)})"
    try:
        signature.bind(*args, **kwargs)
    except TypeError as mismatch:
        for given in kwargs:
            near = difflib.get_close_matches(given, signature.parameters, n=1)
            if given not in signature.parameters and near:
                form = f"did you mean {near[0]!r}? {form}"
        return StagingTypeError(f"{what}: {mismatch}", hint=form)
    shown = [f"{a!r:.40}" for a in args[skip:]] + [f"{k}={v!r:.40}" for k, v in kwargs.items()]
    # What Python says of a wrong type is about our source; a ValueError may say what is wrong with the value.
    reason = f": {error}" if isinstance(error, ValueError | OverflowError) else ""
    return staging_error_kind(error)(f"{what}: does not take ({', '.join(shown)}){reason}", hint=form)


_USER_NAMES = {"TensorType": "T.Tensor", "PointerType": "T.ptr", "dtype": "T.<dtype>", "_Dyn": "T.dyn"}
