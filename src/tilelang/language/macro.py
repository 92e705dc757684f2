"""`@T.macro`: a function inlined where a kernel calls it, with names of its own."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable
from typing import Any

from tilelang.errors import StagingError
from tilelang.language.prim_func import enter_frame, run_rewritten
from tilelang.language.rewrite import Rewritten, rewrite
from tilelang.language.stage import current, is_mutable

__all__ = [
    "macro",
]


class Macro:
    """A function that is staged anew at every call; may take buffers, scalars, functions and return values."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        if not isinstance(fn, types.FunctionType):
            raise StagingError(f"@T.macro needs a function, got {type(fn).__name__}")
        self._fn = fn
        self._rewritten: Rewritten | None = None
        functools.update_wrapper(self, fn)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Inlines the body here.

        Raises:
            StagingError: Called outside a kernel, or from within itself.
        """
        stager = current(f"macro '{self._fn.__name__}'")
        if any(active is self for active in stager.active_macros):
            raise StagingError(
                f"macro '{self._fn.__name__}' calls itself: a macro is inlined, so recursion would never end",
                hint="write a loop, or unroll over plain Python values: `for i in (0, 1, 2):`",
            )
        if self._rewritten is None:
            self._rewritten = rewrite(self._fn, enter_frame)
        outer_site, outer_loc, outer_targets = stager.call_site, stager.loc, stager.targets
        stager.call_site = stager.loc
        stager.active_macros.append(self)
        try:
            bound = _bind(self._fn, args, kwargs)
            borrowed = {name for name, value in bound.arguments.items() if is_mutable(value)}
            result = run_rewritten(stager, self._rewritten, list(bound.args), bound.kwargs, borrowed)
        finally:
            stager.active_macros.pop()
        # Only on success: an error keeps the inner place, whose `caller` chain leads back here.
        stager.call_site, stager.loc, stager.targets = outer_site, outer_loc, outer_targets
        return result

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)


def _bind(fn: types.FunctionType, args: Any, kwargs: Any) -> inspect.BoundArguments:
    try:
        bound = inspect.signature(fn).bind(*args, **kwargs)
    except TypeError as error:
        raise StagingError(f"macro '{fn.__name__}': {error}") from None
    bound.apply_defaults()
    return bound


def macro(fn: Callable[..., Any]) -> Macro:
    """Marks a function as a macro: `@T.macro`.

    Calls inside a kernel inline its body there, with local names of its own; assigning a parameter never changes
    the caller's variable. An error inside names the line in the macro and the chain of calls that led there.

    Raises:
        StagingError: What is decorated is no function; at a call, one from within itself or outside of a kernel.
    """
    return Macro(fn)
