"""The compile cache on disk: content under a key, written atomically, verified on every read.

Takes a key and a function that makes the content, gives a file with that content. Invariant: what is returned was
written whole by some process under the same key. An entry carries its own checksum; a damaged one is made again.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable
from pathlib import Path

from tilelang.errors import CacheError
from tilelang.options import cache_folder

_MARK = b"\ntilelang-cache-1 "  # followed by the SHA-256 of everything before it, in hexadecimal
_TRAILER_BYTES = len(_MARK) + 64


def key_of(*parts: str) -> str:
    """A key for content that is decided by these texts."""
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
    except OSError:
        return None
    return _content(data)


def get_or_make(key: str, suffix: str, make: Callable[[], bytes]) -> Path:
    """The file with the content under a key; `make` is called if there is none or it is damaged.

    The file ends in a checksum after the content, which loaders of shared objects ignore.

    Raises:
        CacheError: The folder cannot be written.
    """
    path = _entry(key, suffix)
    if lookup(key, suffix) is None:
        store(key, suffix, make())
    return path


def store(key: str, suffix: str, content: bytes) -> Path:
    """Puts content under a key, replacing what is there in one step.

    Raises:
        CacheError: The folder cannot be written.
    """
    path = _entry(key, suffix)
    temporary = path.with_name(f".new-{os.urandom(16).hex()}")  # `tempfile` takes longer to load than this to write
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(temporary, "xb") as file:
            file.write(content + _MARK + hashlib.sha256(content).hexdigest().encode())
        os.chmod(temporary, 0o644)  # caches may be shared between users
        os.replace(temporary, path)
    except OSError as error:
        with contextlib.suppress(OSError):  # there may be none, or no folder
            temporary.unlink()
        raise CacheError(
            f"compile cache: cannot write to {cache_folder()}: {error.strerror or error}",
            hint="set TILELANG_CACHE_DIR to a folder that can be written, or TILELANG_DISABLE_CACHE=1",
        ) from None
    return path


def _entry(key: str, suffix: str) -> Path:
    return cache_folder() / key[:2] / f"{key[2:]}{suffix}"


def _content(data: bytes) -> bytes | None:
    content, trailer = data[:-_TRAILER_BYTES], data[-_TRAILER_BYTES:]
    if not trailer.startswith(_MARK):
        return None
    return content if hashlib.sha256(content).hexdigest().encode() == trailer[len(_MARK) :] else None
