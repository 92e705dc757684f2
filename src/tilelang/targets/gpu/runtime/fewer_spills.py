"""Compiles kernels that spill a second time, for fewer registers, and keeps what spills less."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from tilelang.targets.gpu.runtime.resources import Resources


class Compiled(Protocol):
    """Machine code of kernels.

    Attributes:
        resources: What each of them uses.
    """

    @property
    def resources(self) -> dict[str, Resources]: ...  # noqa: D102  above


_Code = TypeVar("_Code", bound=Compiled)


def with_fewer_spills(compile_with: Callable[[tuple[str, ...]], _Code], saving: Callable[[], tuple[str, ...]]) -> _Code:
    """The code without further flags; if its kernels spill, also with some that save registers, and what spills less.

    Args:
        compile_with: Compiles with further flags.
        saving: Gives those that save registers, none if the text has nothing to save; called only where kernels spill.
    """
    made = compile_with(())
    flags = saving() if _spilled(made) else ()
    return min(made, compile_with(flags), key=_spilled) if flags else made


def _spilled(code: Compiled) -> int:
    return sum(used.spill_bytes for used in code.resources.values())
