"""Printing by kernels where the device has no `printf`: records in pinned host memory.

Takes a driver; gives the address for the kernel, and texts once it is done. The memory has a count of records, their
largest number, and the records (`codegen.print_records`). Invariant: records beyond that are counted, not written.
"""

from __future__ import annotations

import ctypes
import threading

from tilelang.codegen.print_records import WORDS, printed_texts
from tilelang.targets.gpu.runtime.driver import Driver

_ROOM = 1 << 16
_HEAD_WORDS = 2


class PrintBuffer:
    """The memory of one program; a context must be current when it is made.

    Attributes:
        address: What kernels are given.
        lock: Held by a call from its launch until its texts are taken.
    """

    def __init__(self, driver: Driver) -> None:
        count = _HEAD_WORDS + WORDS * _ROOM
        with driver.unrecorded():
            self.address = driver.pin(8 * count)
        self.lock = threading.Lock()
        self._words = (ctypes.c_uint64 * count).from_address(self.address)
        self._words[1] = _ROOM

    def take(self) -> list[str]:
        """The texts of all statements since the last time; the kernels that print them are done."""
        count, self._words[0] = self._words[0], 0
        texts = printed_texts(self._words[_HEAD_WORDS : _HEAD_WORDS + WORDS * min(count, _ROOM)])
        if count > _ROOM:
            texts.append(f"T.print: {count - _ROOM} of {count} numbers and pieces of text did not fit and are lost\n")
        return texts
