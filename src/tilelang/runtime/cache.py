"""The compile cache on disk: content by key, written atomically, verified by checksum on every read.

A damaged entry is replaced. If the directory cannot be written, one warning is issued, and existing entries are still
read.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import TypeVar

from tilelang.environment import cache_folder, is_cache_enabled, temporary_folder
from tilelang.errors import NOWHERE, CacheError, calling_line, warn

R = TypeVar("R")

_MARK = b"\ntilelang-cache-1 "  # followed by the SHA-256 of everything before it, in hexadecimal
_TRAILER_BYTES = len(_MARK) + 64


def key_of(*parts: str) -> str:
    """The key of content that is determined by these texts."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


def lookup(key: str, suffix: str) -> bytes | None:
    """The content under a key, or None if there is none or it is damaged."""
    try:
        data = _entry(key, suffix).read_bytes()
    except (OSError, CacheError):
        return None
    content = _content(data)
    if content is not None:
        _record(key, suffix, content)
    return content


def open_or_make(key: str, suffix: str, make: Callable[[], bytes], open_file: Callable[[Path], R]) -> R:
    """Returns `open_file` of the file with the content of a key; `make` creates the content if there is none.

    The file ends with a checksum, which loaders of shared objects ignore. If the cache is off, it is a temporary file,
    deleted afterwards.
    """
    content: bytes | None = None
    if is_cache_enabled():
        path: Path | None = _entry_or_none(key, suffix)
        if lookup(key, suffix) is None:
            content = make()
            path = store(key, suffix, content)
        if path is not None:
            return open_file(path)
    import tempfile  # noqa: PLC0415  a kernel in the cache makes no folder

    with tempfile.TemporaryDirectory(prefix="tilelang-", dir=temporary_folder()) as folder:
        path = Path(folder, f"made{suffix}")
        path.write_bytes(make() if content is None else content)
        return open_file(path)


def store(key: str, suffix: str, content: bytes) -> Path | None:
    """Stores content under a key atomically; on failure, warns once and returns None."""
    _record(key, suffix, content)
    temporary: Path | None = None
    try:
        path = _entry(key, suffix)
        temporary = path.with_name(f".new-{os.urandom(16).hex()}")  # loading `tempfile` takes longer than writing this
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(temporary, "xb") as file:
            file.write(content + _MARK + hashlib.sha256(content).hexdigest().encode())
        os.chmod(temporary, 0o644)  # caches may be shared between users
        os.replace(temporary, path)
    except (OSError, CacheError) as error:
        if temporary is not None:
            with contextlib.suppress(OSError):  # there may be none, or no folder
                temporary.unlink()
        _warn(error)
        return None
    return path


Entries = dict[tuple[str, str], bytes]
"""Contents by key and suffix."""

_RECORDED: ContextVar[Entries | None] = ContextVar("recorded", default=None)


@contextlib.contextmanager
def recorded() -> Iterator[Entries]:
    """The entries that this thread reads or stores inside, so that another machine's cache can get them."""
    found: Entries = {}
    token = _RECORDED.set(found)
    try:
        yield found
    finally:
        _RECORDED.reset(token)


def _record(key: str, suffix: str, content: bytes) -> None:
    found = _RECORDED.get()
    if found is not None:
        found[key, suffix] = content


def is_writable() -> bool:
    """Whether the cache can be written; warns once if not."""
    return is_cache_enabled() and store(key_of("is_writable"), ".probe", b"") is not None


def entries() -> list[Path]:
    """The files of the cache: programs, sources, and probed properties of compilers."""
    try:
        return sorted(path for path in cache_folder().glob("[0-9a-f][0-9a-f]/*") if path.is_file())
    except (OSError, CacheError):
        return []


def clear() -> int:
    """Removes all entries and returns their number; code loaded by running processes stays valid."""
    count = 0
    for path in entries():
        with contextlib.suppress(OSError):  # another process may be faster
            path.unlink()
            count += 1
    return count


_UNUSABLE: set[str] = set()
"""Warnings that were issued."""


def _warn(error: OSError | CacheError) -> None:
    if isinstance(error, CacheError):
        message, hint = error.message, error.hint
    else:
        message = f"compile cache: cannot write to {cache_folder()}: {error.strerror or error}"
        hint = "set TILELANG_CACHE_DIR to a folder that can be written, or TILELANG_DISABLE_CACHE=1"
    if message not in _UNUSABLE:
        _UNUSABLE.add(message)
        warn(f"{message}; kernels are compiled again in every process", calling_line() or NOWHERE, hint=hint)


def _entry(key: str, suffix: str) -> Path:
    return cache_folder() / key[:2] / f"{key[2:]}{suffix}"


def _entry_or_none(key: str, suffix: str) -> Path | None:
    with contextlib.suppress(CacheError):
        return _entry(key, suffix)
    return None


def _content(data: bytes) -> bytes | None:
    content, trailer = data[:-_TRAILER_BYTES], data[-_TRAILER_BYTES:]
    if not trailer.startswith(_MARK):
        return None
    return content if hashlib.sha256(content).hexdigest().encode() == trailer[len(_MARK) :] else None
