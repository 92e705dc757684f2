"""`PassContext`: pass configurations for the `tilelang.lower` calls inside of a `with`.

Invariant: `tilelang.compile` and `@tilelang.jit` have their own and see nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any, TypeVar

from tilelang.api import public
from tilelang.options import CompileOptions

F = TypeVar("F", bound=Callable[..., Any])


@public
class PassContext:
    """`with PassContext(config={...}):` gives the `pass_configs` of `tilelang.lower` calls inside.

    Args:
        opt_level: Accepted; there is one level.
        required_pass: Accepted; all passes run.
        disabled_pass: Accepted; all passes run.
        instruments: Accepted; `kernel.show_ir()` shows the program after each pass.
        config: Switches by `PassConfigKey` or its text, as `pass_configs` of `tilelang.compile`.

    Raises:
        OptionError: A key of `config` is unknown.
    """

    def __init__(
        self,
        opt_level: int = 2,
        required_pass: Sequence[str] | None = None,
        disabled_pass: Sequence[str] | None = None,
        instruments: Sequence[object] | None = None,
        config: Mapping[str, object] | None = None,
    ) -> None:
        CompileOptions.from_user(config)
        self.opt_level = opt_level
        self.required_pass = tuple(required_pass or ())
        self.disabled_pass = tuple(disabled_pass or ())
        self.instruments = tuple(instruments or ())
        self.config = dict(config or {})
        self._tokens: list[Token[PassContext | None]] = []

    def __enter__(self) -> PassContext:
        self._tokens.append(_CURRENT.set(self))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        _CURRENT.reset(self._tokens.pop())

    @staticmethod
    def current() -> PassContext:
        """The innermost context around; one without configurations where there is none."""
        return _CURRENT.get() or PassContext()


_CURRENT: ContextVar[PassContext | None] = ContextVar("pass context", default=None)


@public
def get_pass_context() -> PassContext:
    """The innermost `PassContext` around; one without configurations where there is none."""
    return PassContext.current()


@public
def simplify_prim_func(func: F) -> F:
    """The function again: programs are simplified when they are compiled."""
    return func
