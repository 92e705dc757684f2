"""Names of older programs: they keep working, and warn once in a process."""

from __future__ import annotations

import warnings

from tilelang.errors import calling_line

_TOLD: set[str] = set()  # the old names that have been met


def warn_deprecated(old: str, new: str) -> None:
    """Warns of an old name at the user's line, the first time that it is met; `new` says what to do instead."""
    if old in _TOLD:
        return
    _TOLD.add(old)
    place = calling_line()
    text = f"{old} is deprecated; {new}"
    if place is None:
        warnings.warn(text, DeprecationWarning, stacklevel=3)
    else:
        warnings.warn_explicit(text, DeprecationWarning, place.file, place.line)
