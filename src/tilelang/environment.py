"""The environment variables that are read, and what a program sets in their place.

Invariant: a variable is read when it is used, never when the package is imported, and an argument beats it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from tilelang.api import public
from tilelang.errors import CacheError, OptionError
from tilelang.records import record

if TYPE_CHECKING:
    from pathlib import Path


@record(slots=True)
class Variable:
    """An environment variable: its name, what it means in one sentence, and what holds without it."""

    name: str
    meaning: str
    default: str = ""

    def read(self) -> str:
        """The present value, stripped; the default where it is unset or empty."""
        return os.environ.get(self.name, "").strip() or self.default


_VARIABLES = (
    Variable("TILELANG_DEFAULT_TARGET", 'The target meant by target=None or "auto": a name or a JSON object.', "auto"),
    Variable("TILELANG_EXECUTION_BACKEND", 'The execution backend meant by execution_backend="auto".', "auto"),
    Variable("TILELANG_CACHE_DIR", "The folder of compiled kernels.", "~/.tilelang/cache"),
    Variable("TILELANG_TMP_DIR", "The folder for temporary files of compilers; the system's without it."),
    Variable("TILELANG_PRINT_ON_COMPILATION", "1 prints a line for every kernel that is compiled.", "0"),
    Variable("TILELANG_DISABLE_CACHE", "1 compiles every kernel again and stores nothing on disk.", "0"),
    Variable("TILELANG_NUM_THREADS", "Threads that a CPU kernel uses; OMP_NUM_THREADS or all cores without it."),
    Variable("TILELANG_CHECK", "1 verifies the program after every pass.", "0"),
    Variable("CXX", "The C++ compiler; c++, g++, clang++ or `python -m ziglang c++` without it."),
)
VARIABLES: Mapping[str, Variable] = MappingProxyType({variable.name: variable for variable in _VARIABLES})


def environment(name: str) -> str:
    """The present value of one of `VARIABLES`, or its default."""
    return VARIABLES[name].read()


def environment_flag(name: str) -> bool:
    """Whether one of `VARIABLES` is switched on.

    Raises:
        OptionError: The value is neither a yes nor a no.
    """
    value = environment(name).lower()
    if value in ("1", "true", "yes", "on"):
        return True
    if value in ("", "0", "false", "no", "off"):
        return False
    raise OptionError(f"{name}: expected 0 or 1, got {environment(name)!r}")


class _CacheSwitch:
    """Whether the program itself switched the disk cache off or on; None leaves it to the environment."""

    enabled: bool | None = None


@public
def disable_cache() -> None:
    """Disables the compile cache from now on, whatever the environment says."""
    _CacheSwitch.enabled = False


@public
def enable_cache() -> None:
    """Uses the disk cache from now on; beats the environment."""
    _CacheSwitch.enabled = True


@public
def is_cache_enabled() -> bool:
    """Whether compiled kernels are kept on disk and taken from there."""
    if _CacheSwitch.enabled is not None:
        return _CacheSwitch.enabled
    return not environment_flag("TILELANG_DISABLE_CACHE")


def cache_folder() -> Path:
    """Where compiled kernels are kept.

    Raises:
        CacheError: The user has no home folder, and no other place is named.
    """
    from pathlib import Path  # noqa: PLC0415  needed once something is compiled

    try:
        return Path(environment("TILELANG_CACHE_DIR")).expanduser()
    except RuntimeError:
        raise CacheError(
            "compile cache: there is no home folder for it",
            hint="set TILELANG_CACHE_DIR to a folder that can be written, or TILELANG_DISABLE_CACHE=1",
        ) from None


def temporary_folder() -> str | None:
    """Where temporary files of compilers are put; None for the system's folder."""
    return environment("TILELANG_TMP_DIR") or None


@public
def set_log_level(level: int | str) -> None:
    """Sets the level of the logger named `tilelang`: a number of `logging`, or a name such as "DEBUG".

    Raises:
        OptionError: There is no such level.
    """
    import logging  # noqa: PLC0415  few programs ask

    try:
        logging.getLogger("tilelang").setLevel(level.upper() if isinstance(level, str) else level)
    except (ValueError, TypeError):
        raise OptionError(f"set_log_level: {level!r} is no level", hint="write 'DEBUG', 'INFO' or 'WARNING'") from None


def num_threads() -> int | None:
    """The number of threads that a CPU kernel shall use, or None to leave it to OpenMP.

    Raises:
        OptionError: TILELANG_NUM_THREADS is not a positive integer.
    """
    text = environment("TILELANG_NUM_THREADS")
    if not text:
        return None
    if not text.isdecimal() or int(text) < 1:
        raise OptionError(f"TILELANG_NUM_THREADS: expected a positive integer, got {text!r}")
    return int(text)
