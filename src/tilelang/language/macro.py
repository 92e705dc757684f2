"""`@T.macro`: a function inlined where a kernel calls it, with names of its own."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable
from typing import Any

from tilelang.errors import JITNoBuilderError, ProgramValueError, StagingError, StagingTypeError
from tilelang.ir.expr import Load
from tilelang.language.api import api
from tilelang.language.classes import Ref, Var
from tilelang.language.deprecation import warn_deprecated
from tilelang.language.parameters import annotations_of
from tilelang.language.prim_func import enter_frame, run_rewritten
from tilelang.language.proxy import BufferProxy, RegionProxy
from tilelang.language.rewrite import Rewritten, rewrite
from tilelang.language.stage import current, is_mutable

__all__ = [
    "macro",
]


_MAX_CALLS = 200  # of a macro that calls itself, at a time: Python's own stack ends a little later


class _Call:
    """A call of a macro that is being inlined; equal to another one whose arguments are the same."""

    def __init__(self, macro: Macro, args: tuple[Any, ...], keywords: tuple[Any, ...]) -> None:
        self.macro = macro
        self.args = (*args, *keywords)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _Call)
            and self.macro is other.macro
            and len(self.args) == len(other.args)
            and all(_is_same(mine, its) for mine, its in zip(self.args, other.args, strict=True))
        )

    __hash__ = None  # type: ignore[assignment]


def _is_same(a: Any, b: Any) -> bool:
    """Whether two arguments are one, or equal numbers or texts of Python."""
    return a is b or (type(a) is type(b) and isinstance(a, int | float | str) and a == b)


class Macro:
    """A function that is staged anew at every call; may take buffers, scalars, functions and return values."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        if not isinstance(fn, types.FunctionType):
            raise StagingTypeError(f"@T.macro needs a function, got {type(fn).__name__}")
        self._fn = fn
        self._rewritten: Rewritten | None = None
        self._annotations: dict[str, Any] | None = None
        functools.update_wrapper(self, fn)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Inlines the body here.

        Raises:
            StagingError: Called outside a kernel, or from within itself without end.
        """
        try:
            stager = current(f"macro '{self._fn.__name__}'")
        except JITNoBuilderError as error:  # what `api` does, without its frame for each of nested calls
            error.__traceback__ = None
            raise
        call = _Call(self, args, tuple(kwargs.values()))
        active = [other for other in stager.active_macros if isinstance(other, _Call) and other.macro is self]
        if call in active or len(active) >= _MAX_CALLS:
            raise StagingError(
                f"macro '{self._fn.__name__}' calls itself: a macro is inlined, so recursion would never end",
                hint="write a loop, unroll over plain Python values: `for i in (0, 1, 2):`, or end the recursion by a "
                "condition on a plain Python value",
            )
        if self._rewritten is None:
            self._rewritten = rewrite(self._fn, enter_frame)
        outer = stager.call_site, stager.loc, stager.targets, stager.coming
        stager.call_site = stager.loc
        stager.active_macros.append(call)
        try:
            bound = _bind(self._fn, args, kwargs)
            references = self._references(bound)
            borrowed = {n for n, value in bound.arguments.items() if is_mutable(value) and n not in references}
            result = run_rewritten(stager, self._rewritten, list(bound.args), bound.kwargs, borrowed)
        finally:
            stager.active_macros.pop()
        # Only on success: an error keeps the inner place, whose `caller` chain leads back here.
        stager.call_site, stager.loc, stager.targets, stager.coming = outer
        return result

    def _references(self, bound: inspect.BoundArguments) -> set[str]:
        """The parameters that are passed by reference, whose arguments become places that can be assigned."""
        if self._annotations is None:
            self._annotations = annotations_of(self._fn, {})
        names = {name for name, kind in self._annotations.items() if kind is Ref or kind is Var}
        for name in names & set(bound.arguments):
            if self._annotations[name] is Var:
                warn_deprecated("T.Var as the annotation of a macro's parameter", "write T.Ref")
            bound.arguments[name] = self._place(name, bound.arguments[name])
        return names

    def _place(self, name: str, value: Any) -> Any:
        if isinstance(value, RegionProxy):
            return value
        if isinstance(value, BufferProxy) and not value.ndim:
            value = value.__tilelang_expr__()
        if not isinstance(value, Load):
            shown = f"the whole of '{value.name}'" if isinstance(value, BufferProxy) else repr(value)[:60]
            raise ProgramValueError(
                f"macro '{self._fn.__name__}': '{name}' is passed by reference, but is given {shown}",
                hint="pass a variable of T.alloc_var, or an element such as A[i]",
            )
        return value if is_mutable(value) else current("a reference").refer(value)

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)


def _bind(fn: types.FunctionType, args: Any, kwargs: Any) -> inspect.BoundArguments:
    try:
        bound = inspect.signature(fn).bind(*args, **kwargs)
    except TypeError as error:
        form = f"the form is {fn.__name__}({', '.join(inspect.signature(fn).parameters)})"
        raise StagingTypeError(f"macro '{fn.__name__}': {error}", hint=form) from None
    bound.apply_defaults()
    return bound


@api
def macro(func: Callable[..., Any] | None = None) -> Any:
    """Marks a function as a macro: `@T.macro`, or `@T.macro()`.

    Calls inside a kernel inline its body there, with local names of its own; assigning a parameter changes the
    caller's variable only if the parameter is annotated `T.Ref`. An error inside names the line in the macro and the
    chain of calls that led there. A macro may call itself, as long as a condition on plain Python values ends that.

    Raises:
        StagingError: What is decorated is no function; at a call, one outside of a kernel, or from within itself
            without end.
        ProgramValueError: An argument for a `T.Ref` is neither a variable nor an element of a buffer.
    """
    return Macro if func is None else Macro(func)
