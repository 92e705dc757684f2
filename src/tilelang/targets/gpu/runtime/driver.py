"""A driver of GPUs: contexts, modules, launches, events and memory, by ctypes.

Takes the functions of a vendor's library, gives handles. Invariant: every failure is a `DriverError` with a hint;
nothing here synchronizes unless its name says so. The vendors' functions take the same arguments where one record can
name them; what differs are the methods that a vendor's driver defines.
"""

from __future__ import annotations

import ctypes
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from tilelang.codegen.source import DeviceLaunch
from tilelang.errors import DriverError
from tilelang.records import record


@record(kw_only=True)
class DriverFunctions:
    """The names of a library's functions, and the numbers that they take.

    Attributes:
        start: Starts the driver.
        version: Gives the number of the version that it supports.
        device_count: Counts devices.
        device_name: Gives the name of one.
        attribute: Gives a figure of a device.
        pointer_attribute: Gives a figure of an address.
        load: Loads machine code from memory.
        function: Gives a kernel of loaded code.
        pin: Allocates memory of the host that devices see.
        allocate: Allocates memory of a device in the order of a stream.
        free: Gives it back in the order of a stream.
        fill: Sets words of 32 bits in the order of a stream.
        event: Makes an event.
        record: Lets an event happen in the order of a stream.
        query: Tells whether an event has happened.
        elapsed: Gives the time between two events.
        discard: Gives an event back.
        synchronize: Waits for the device.
        capture_mode: Exchanges what a thread may do while it captures a graph.
        context_of: Gives what tells the contexts of the calling thread apart.
        launch: Launches a kernel by a configuration in memory; empty where the library has no such function.
        launch_values: Launches a kernel by values; empty where `launch` is there.
        encode_map: Encodes a tensor map; empty without them.
        max_shared_bytes: The attribute of a device that says how much shared memory a block may have.
        not_ready: The status that says that an event has not happened yet.
        device_of_pointer: The attribute of an address that says which device it belongs to.
        pinned: The flags of memory that every device sees under the same address.
        relaxed_capture: The mode in which everything is allowed.
    """

    start: str
    version: str
    device_count: str
    device_name: str
    attribute: str
    pointer_attribute: str
    load: str
    function: str
    pin: str
    allocate: str
    free: str
    fill: str
    event: str
    record: str
    query: str
    elapsed: str
    discard: str
    synchronize: str
    capture_mode: str
    context_of: str
    launch: str = ""
    launch_values: str = ""
    encode_map: str = ""
    max_shared_bytes: int
    not_ready: int
    device_of_pointer: int
    pinned: int
    relaxed_capture: int


class Driver(ABC):
    """An opened driver.

    Args:
        library: The functions of the vendor's library, or of what stands for it in tests.

    Attributes:
        functions: What they are called.
        title: What messages call devices.
        device_type: What frameworks call them, as in "cuda:0".
        default_stream: The stream that waits for all others.
        launch: Takes pointers to the configuration, function and parameters of `launch_block`, gives a status.
        version: The newest version of the vendor's interface that it supports, as (major, minor).
        overlaps_launches: Whether launches may begin before those in front of them have ended, in graphs, too.
    """

    functions: ClassVar[DriverFunctions]
    title: ClassVar[str]
    device_type: ClassVar[str]
    default_stream: ClassVar[int]
    launch: Callable[..., int]
    overlaps_launches = False

    def __init__(self, library: Any) -> None:
        self._library = library
        self._call(self.functions.start, 0)
        number = ctypes.c_int()
        self._call(self.functions.version, ctypes.byref(number))
        self.version = self._version_of(number.value)

    def _call(self, name: str, *args: Any) -> None:
        status = getattr(self._library, name)(*args)
        if status:
            raise self.error(status, name)

    @abstractmethod
    def _version_of(self, number: int) -> tuple[int, int]:
        """The version that the library numbers so.

        Raises:
            DriverError: It is too old.
        """

    @abstractmethod
    def error(self, status: int, what: str) -> DriverError:
        """The error for a status that a function gave."""

    def address(self, name: str) -> int:
        """Where a function lies, for a caller in machine code; 0 where the library does not have it."""
        function = getattr(self._library, name, None) if name else None
        return 0 if function is None else ctypes.cast(function, ctypes.c_void_p).value or 0

    # -- devices and contexts -------------------------------------------------------------------------------
    def device_count(self) -> int:
        """Return the number of devices that this process sees."""
        count = ctypes.c_int()
        self._call(self.functions.device_count, ctypes.byref(count))
        return count.value

    def attribute(self, device: int, which: int) -> int:
        """A figure of a device; `which` is a number of the library's."""
        value = ctypes.c_int()
        self._call(self.functions.attribute, ctypes.byref(value), which, device)
        return value.value

    def max_shared_bytes(self, device: int) -> int:
        """Bytes of shared memory that a block may have on a device."""
        return self.attribute(device, self.functions.max_shared_bytes)

    def name(self, device: int) -> str:
        """The name of a device, by its vendor."""
        text = ctypes.create_string_buffer(256)
        self._call(self.functions.device_name, text, len(text), device)
        return text.value.decode("utf-8", "replace")

    @abstractmethod
    def arch(self, device: int) -> str:
        """The architecture of a device, as compilers name it."""

    def device_of(self, pointer: int) -> int:
        """The device whose memory an address is in."""
        value = ctypes.c_int()
        which = self.functions.device_of_pointer
        self._call(self.functions.pointer_attribute, ctypes.byref(value), which, ctypes.c_uint64(pointer))
        return value.value

    @abstractmethod
    def current_device(self) -> int | None:
        """The device that the calling thread uses; None if it uses none."""

    @abstractmethod
    def current_context(self) -> int:
        """The identity of the context that the calling thread uses."""

    @abstractmethod
    def enter(self, device: int) -> int:
        """Makes sure that the calling thread uses a device, and gives the context."""

    @contextmanager
    @abstractmethod
    def inside(self, device: int) -> Iterator[int]:
        """Inside, the calling thread uses a device; afterwards it uses again what it used before, if any."""

    @contextmanager
    def unrecorded(self) -> Iterator[None]:
        """Inside, loading code and pinning memory is allowed even while the thread captures a graph."""
        mode = ctypes.c_int(self.functions.relaxed_capture)
        self._call(self.functions.capture_mode, ctypes.byref(mode))
        try:
            yield
        finally:
            self._call(self.functions.capture_mode, ctypes.byref(mode))

    # -- code -----------------------------------------------------------------------------------------------
    def load(self, binary: bytes) -> int:
        """Loads machine code into the current context; gives the module."""
        module = ctypes.c_void_p()
        status = getattr(self._library, self.functions.load)(ctypes.byref(module), binary)
        if status:
            error = self.error(status, self.functions.load)
            error.hint = self._hint_for_code(status) or error.hint
            raise error
        return module.value or 0

    @abstractmethod
    def _hint_for_code(self, status: int) -> str:
        """The hint for machine code that the driver did not load; empty without one."""

    def function(self, module: int, name: str) -> int:
        """A kernel of a module."""
        function = ctypes.c_void_p()
        self._call(self.functions.function, ctypes.byref(function), ctypes.c_void_p(module), name.encode())
        return function.value or 0

    @abstractmethod
    def prepare(self, function: int, launch: DeviceLaunch, shared_bytes: int) -> None:
        """Lets a kernel have what a launch needs and not every kernel has.

        Args:
            function: The kernel.
            launch: The launch.
            shared_bytes: The most dynamic shared memory that it asks for.
        """

    # -- memory ---------------------------------------------------------------------------------------------
    def pin(self, size_bytes: int) -> int:
        """Pinned host memory, zeroed, that every device sees under the same address; it is never freed."""
        pointer = ctypes.c_void_p()
        self._call(self.functions.pin, ctypes.byref(pointer), ctypes.c_size_t(size_bytes), self.functions.pinned)
        ctypes.memset(pointer.value or 0, 0, size_bytes)
        return pointer.value or 0

    def allocate(self, size_bytes: int, stream: int) -> int:
        """Device memory from the driver's pool, in the order of a stream."""
        pointer = ctypes.c_uint64()
        self._call(
            self.functions.allocate, ctypes.byref(pointer), ctypes.c_size_t(size_bytes), ctypes.c_void_p(stream)
        )
        return pointer.value

    def free(self, pointer: int, stream: int) -> None:
        """Gives device memory back once the stream has come this far."""
        self._call(self.functions.free, ctypes.c_uint64(pointer), ctypes.c_void_p(stream))

    def fill(self, pointer: int, value: int, words: int, stream: int) -> None:
        """Sets 32-bit words of device memory."""
        self._call(
            self.functions.fill, ctypes.c_uint64(pointer), value, ctypes.c_size_t(words), ctypes.c_void_p(stream)
        )

    # -- time -----------------------------------------------------------------------------------------------
    def event(self) -> int:
        """A new event that takes the time."""
        event = ctypes.c_void_p()
        self._call(self.functions.event, ctypes.byref(event), 0)
        return event.value or 0

    def record(self, event: int, stream: int) -> None:
        """Lets an event happen when the stream has come this far."""
        self._call(self.functions.record, ctypes.c_void_p(event), ctypes.c_void_p(stream))

    def is_ahead(self, event: int) -> bool:
        """Whether an event has not completed; `synchronize` reports what failed before it."""
        status = getattr(self._library, self.functions.query)(ctypes.c_void_p(event))
        return bool(status == self.functions.not_ready)

    def elapsed_ms(self, first: int, second: int) -> float:
        """The time between two events that have happened, in milliseconds."""
        value = ctypes.c_float()
        self._call(self.functions.elapsed, ctypes.byref(value), ctypes.c_void_p(first), ctypes.c_void_p(second))
        return value.value

    def discard(self, event: int) -> None:
        """Gives an event back."""
        self._call(self.functions.discard, ctypes.c_void_p(event))

    def synchronize(self) -> None:
        """Waits until everything in the current context is done."""
        self._call(self.functions.synchronize)


def device_names(driver: Driver) -> str:
    """The name and the architecture of each device, for reports."""
    return ", ".join(f"{driver.name(device)} ({driver.arch(device)})" for device in range(driver.device_count()))
