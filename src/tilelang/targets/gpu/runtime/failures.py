"""Where failed assertions of kernels on a device leave their number, and how the host finds out.

A kernel whose assertion fails writes its number into pinned host memory and traps. Invariant: the memory outlives every
context, so the failed assertion can be reported although the context is lost.
"""

from __future__ import annotations

import ctypes
import threading

from tilelang.codegen.source import Source
from tilelang.errors import NOWHERE, DeviceAssertError
from tilelang.records import record
from tilelang.targets.gpu.runtime.driver import Driver

_PAGE_BYTES = 4096

_RESTART = (
    "the kernel was stopped, and with it the {title} context: no call on this device can work any more; "
    "restart the process"
)


@record
class Flag:
    """The place of one program.

    Attributes:
        address: What the kernel is given.
        number: What it wrote: n + 1 if assertion n failed, 0 as long as none did.
        source: The program, which has the texts of its assertions.
        title: What messages call the devices.
    """

    address: int
    number: ctypes.c_int32
    source: Source
    title: str

    def check(self) -> None:
        """Raises if an assertion of the program has failed.

        Raises:
            DeviceAssertError: One has; the message names it.
        """
        number = self.number.value
        if 0 < number <= len(self.source.asserts):
            message, loc, _ = self.source.asserts[number - 1]
            hint = _RESTART.format(title=self.title)
            raise DeviceAssertError(message or "assertion failed", loc=loc if loc is not NOWHERE else None, hint=hint)


class FailureBoard:
    """The flags of all programs of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._flags: list[Flag] = []
        self._next = self._end = 0

    def flag(self, driver: Driver, source: Source) -> Flag:
        """A new flag for a program; a context must be current."""
        with self._lock:
            if self._next == self._end:
                with driver.unrecorded():
                    self._next = driver.pin(_PAGE_BYTES)
                self._end = self._next + _PAGE_BYTES
            flag = Flag(self._next, ctypes.c_int32.from_address(self._next), source, driver.title)
            self._next += 4
            self._flags.append(flag)
            return flag

    def check(self) -> None:
        """Raises if any program's assertion has failed.

        Raises:
            DeviceAssertError: One has.
        """
        for flag in self._flags:
            flag.check()

