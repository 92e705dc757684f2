"""What was looked for on this machine, as `python -m tilelang doctor` tells it: found, or missing and how to get it."""

from __future__ import annotations

from collections.abc import Callable

from tilelang.errors import TileLangError
from tilelang.records import record


@record
class Finding:
    """One thing that was looked for.

    Attributes:
        what: Its name.
        found: What there is; empty if nothing.
        missing: Why it is not there, and how to get it.
        compiles: Whether kernels can be compiled by it.
    """

    what: str
    found: str
    missing: str = ""
    compiles: bool = False

    def __str__(self) -> str:
        return f"{'found  ' if self.found else 'missing'}  {self.what}: {self.found or self.missing}"


def look_for(what: str, look: Callable[[], str], *, compiles: bool = False) -> Finding:
    """What a function finds, or the error that it raises with its hint."""
    try:
        return Finding(what, look(), compiles=compiles)
    except TileLangError as error:
        how = f"\n{' ' * 11}{error.hint}" if error.hint else ""
        return Finding(what, "", error.message.splitlines()[0] + how, compiles=compiles)
