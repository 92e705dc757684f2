"""One component that `python -m tilelang doctor` reports, such as a compiler: found, or how to get it."""

from __future__ import annotations

from collections.abc import Callable

from tilelang.errors import TileLangError
from tilelang.records import record


@record
class Finding:
    """One component, found or missing.

    Attributes:
        what: The name of the component.
        found: Its version or place; empty if it is missing.
        missing: Why it is missing, and how to get it.
        compiles: Whether it compiles kernels.
    """

    what: str
    found: str
    missing: str = ""
    compiles: bool = False

    def __str__(self) -> str:
        return f"{'found  ' if self.found else 'missing'}  {self.what}: {self.found or self.missing}"


def look_for(what: str, look: Callable[[], str], *, compiles: bool = False) -> Finding:
    """Return what a function finds, or the error that it raises with its hint."""
    try:
        return Finding(what, look(), compiles=compiles)
    except TileLangError as error:
        how = f"\n{' ' * 11}{error.hint}" if error.hint else ""
        return Finding(what, "", error.message.splitlines()[0] + how, compiles=compiles)
