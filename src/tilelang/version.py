"""Which version of the package this is."""

from __future__ import annotations

import functools
import re
import warnings
from collections.abc import Callable
from importlib.metadata import version
from typing import ParamSpec, TypeVar

from tilelang.api import public

__all__ = ["build_date", "deprecated"]

__version__ = version("tilelang")

P = ParamSpec("P")
R = TypeVar("R")


@public
def build_date(version_str: str | None = None) -> int | None:
    """The day on which a version was built, where its text names it.

    Args:
        version_str: Such as "0.1.7+cuda.d20260127.gita17230e4"; this package's version without it.

    Returns:
        The day as a number such as 20260127; None where the text has none.
    """
    found = re.search(r"(?<![a-z0-9])d(\d{8})(?!\d)", __version__ if version_str is None else version_str)
    return int(found[1]) if found else None


@public
def deprecated(
    method_name: str, new_method_name: str, phaseout_version: str | None = None
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Marks a function whose calls are to warn with `DeprecationWarning`.

    Args:
        method_name: The old name.
        new_method_name: What to use instead.
        phaseout_version: The version from which the old name will be gone.
    """
    end = f"; it will be removed in version {phaseout_version}" if phaseout_version else ""
    text = f"{method_name} is deprecated, use {new_method_name} instead{end}"

    def mark(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def call(*args: P.args, **keywords: P.kwargs) -> R:
            warnings.warn(text, DeprecationWarning, stacklevel=2)
            return function(*args, **keywords)

        return call

    return mark
