"""Compiles kernels that spill or wait for each gemm a second time, for fewer registers, and keeps what loses less."""

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


def with_fewer_losses(compile_with: Callable[[tuple[str, ...]], _Code], saving: Callable[[], tuple[str, ...]]) -> _Code:
    """The code without further flags; if kernels spill or are serialized, the better of it and one with more flags.

    A kernel whose matrix instructions are serialized is worse than any that spill.

    Args:
        compile_with: Compiles with further flags.
        saving: Gives those that save registers, none if the text has nothing to save; called where they are needed.
    """
    made = compile_with(())
    flags = saving() if any(_losses(made)) else ()
    return min(made, compile_with(flags), key=_losses) if flags else made


def _losses(code: Compiled) -> tuple[int, int]:
    """How many kernels are serialized, and the bytes that all of them spill."""
    used = code.resources.values()
    return sum(each.serialized for each in used), sum(each.spill_bytes for each in used)
