"""The CUDA driver: contexts, modules, launches, events and memory, by ctypes.

Takes addresses and numbers, gives handles. Invariant: the library is opened when the first kernel is called or device
asked for; every failure is a `DriverError` with a hint; nothing here synchronizes unless its name says
so.

Source: CUDA Driver API, the sections of the functions named.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tilelang.errors import DriverError

# enum CUdevice_attribute
MAX_SHARED_BYTES = 97  # CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
SHARED_BYTES = 8  # CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK
REGISTERS = 12  # CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK
MULTIPROCESSORS = 16  # CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
L2_BYTES = 38  # CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE
_MAJOR, _MINOR = 75, 76
_FUNCTION_SHARED_BYTES = 8  # enum CUfunction_attribute, MAX_DYNAMIC_SHARED_SIZE_BYTES
_FUNCTION_LARGE_CLUSTERS = 14  # NON_PORTABLE_CLUSTER_SIZE_ALLOWED
_POINTER_DEVICE = 9  # enum CUpointer_attribute, DEVICE_ORDINAL
_HOST_PORTABLE, _HOST_MAPPED = 1, 2  # CU_MEMHOSTALLOC_*
_CAPTURE_RELAXED = 2  # enum CUstreamCaptureMode

# enum CUresult
INVALID_VALUE, OUT_OF_MEMORY, NO_DEVICE = 1, 2, 100
INVALID_CONTEXT, INVALID_HANDLE = 201, 400
OUT_OF_RESOURCES = 701
_UNREADABLE = frozenset({200, 209, 222, 300})  # invalid image, no binary for GPU, unsupported PTX, invalid source
LOST = frozenset({700, 710, 714, 715, 716, 717, 718, 719})  # the context cannot be used any more

_RESTART = "the CUDA context is lost: no call on this device can work any more; restart the process"
_HINTS = {
    OUT_OF_MEMORY: "free device memory: drop tensors, or empty the cache of the framework that holds it",
    NO_DEVICE: "check `nvidia-smi` and CUDA_VISIBLE_DEVICES",
    OUT_OF_RESOURCES: "use fewer threads or registers: a smaller `threads=`, or smaller tiles",
    3: "CUDA was used before this process was forked; start processes with multiprocessing's 'spawn'",
    720: "T.sync_grid needs all blocks at once: launch a smaller grid, such as one block per multiprocessor",
    802: "the driver is still starting up (its fabric manager is not ready); try again later",
    912: "clusters this large do not fit: pass a smaller `cluster_dims=` to T.Kernel, or use less shared memory",
    803: "the driver and the libcuda that was found do not belong together; check LD_LIBRARY_PATH",
}
_OLDEST = (11, 8)  # cuLaunchKernelEx, which every launch uses


class Driver:
    """An opened driver. The same surface, faked, is what tests give to the code that uses it.

    Args:
        library: The functions of libcuda.

    Attributes:
        launch: `cuLaunchKernelEx` as it is: takes pointers to the configuration, function and parameters, gives a
            status.
        version: The newest CUDA that it supports, as (major, minor).
    """

    def __init__(self, library: Any) -> None:
        self._library = library
        self._call("cuInit", 0)
        number = ctypes.c_int()
        self._call("cuDriverGetVersion", ctypes.byref(number))
        self.version = (number.value // 1000, number.value % 1000 // 10)
        if self.version < _OLDEST:
            major, minor = self.version
            raise DriverError(
                f"the CUDA driver is too old: it supports CUDA {major}.{minor}, and 11.8 or newer is needed",
                hint="update the NVIDIA driver",
            )
        self.launch: Callable[..., int] = library.cuLaunchKernelEx
        self._contexts: dict[int, int] = {}

    def _call(self, name: str, *args: Any) -> None:
        status = getattr(self._library, name)(*args)
        if status:
            raise self.error(status, name)

    def error(self, status: int, what: str) -> DriverError:
        """The error for a status that a function gave."""
        name, text = ctypes.c_char_p(), ctypes.c_char_p()
        self._library.cuGetErrorName(status, ctypes.byref(name))
        self._library.cuGetErrorString(status, ctypes.byref(text))
        shown = (name.value or b"unknown error").decode()
        said = (text.value or b"").decode()
        hint = _RESTART if status in LOST else _HINTS.get(status, "")
        return DriverError(f"{what} failed with {shown} ({status}): {said}", hint=hint)

    def address(self, name: str) -> int:
        """Where a function lies, for a caller in machine code; 0 where the driver does not have it."""
        function = getattr(self._library, name, None)
        return 0 if function is None else ctypes.cast(function, ctypes.c_void_p).value or 0

    # -- devices and contexts -------------------------------------------------------------------------------
    def device_count(self) -> int:
        """How many devices this process sees."""
        count = ctypes.c_int()
        self._call("cuDeviceGetCount", ctypes.byref(count))
        return count.value

    def attribute(self, device: int, which: int) -> int:
        """A figure of a device; `which` is a CUdevice_attribute."""
        value = ctypes.c_int()
        self._call("cuDeviceGetAttribute", ctypes.byref(value), which, device)
        return value.value

    def name(self, device: int) -> str:
        """What its maker calls it, as "NVIDIA H200"."""
        text = ctypes.create_string_buffer(256)
        self._call("cuDeviceGetName", text, len(text), device)
        return text.value.decode("utf-8", "replace")

    def capability(self, device: int) -> tuple[int, int]:
        """The compute capability, as (9, 0)."""
        return self.attribute(device, _MAJOR), self.attribute(device, _MINOR)

    def device_of(self, pointer: int) -> int:
        """The device whose memory an address is in."""
        value = ctypes.c_int()
        self._call("cuPointerGetAttribute", ctypes.byref(value), _POINTER_DEVICE, ctypes.c_uint64(pointer))
        return value.value

    def current_device(self) -> int | None:
        """The device of the calling thread's context; None if it has none."""
        device = ctypes.c_int()
        status = self._library.cuCtxGetDevice(ctypes.byref(device))
        if status == INVALID_CONTEXT:
            return None
        if status:
            raise self.error(status, "cuCtxGetDevice")
        return device.value

    def current_context(self) -> int:
        """The calling thread's context; 0 if it has none."""
        context = ctypes.c_void_p()
        self._call("cuCtxGetCurrent", ctypes.byref(context))
        return context.value or 0

    def enter(self, device: int) -> int:
        """Makes sure that the calling thread's context is one of a device, and gives it.

        The caller's own context is used if it is of that device; otherwise the device's primary context, the one that
        frameworks share, becomes current.
        """
        if self.current_device() != device:
            self._call("cuCtxSetCurrent", ctypes.c_void_p(self._primary(device)))
        return self.current_context()

    @contextmanager
    def inside(self, device: int) -> Iterator[int]:
        """Inside, the calling thread's context is one of a device; afterwards it is again what it was, if any."""
        before = self.current_context()
        context = self.enter(device)
        try:
            yield context
        finally:
            if before and before != context:
                self._call("cuCtxSetCurrent", ctypes.c_void_p(before))

    def _primary(self, device: int) -> int:
        if device not in self._contexts:
            context = ctypes.c_void_p()
            self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
            self._contexts[device] = context.value or 0
        return self._contexts[device]

    @contextmanager
    def unrecorded(self) -> Iterator[None]:
        """Inside, loading code and pinning memory is allowed even while the thread captures a graph."""
        mode = ctypes.c_int(_CAPTURE_RELAXED)
        self._call("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode))
        try:
            yield
        finally:
            self._call("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode))

    def map_encoder(self, name: str) -> Callable[..., int]:
        """One of the functions that encode tensor maps, as it is.

        Raises:
            DriverError: The driver is older.
        """
        try:
            encode: Callable[..., int] = getattr(self._library, name)
        except AttributeError:
            raise DriverError(
                "the CUDA driver is too old for tensor maps: CUDA 12.0 or newer is needed",
                hint="update the NVIDIA driver, or compile with pass_configs={'tl.disable_tma_lower': True}",
            ) from None
        return encode

    # -- code -----------------------------------------------------------------------------------------------
    def load(self, cubin: bytes) -> int:
        """Loads machine code into the current context; gives the module."""
        module = ctypes.c_void_p()
        status = self._library.cuModuleLoadData(ctypes.byref(module), cubin)
        if status:
            error = self.error(status, "cuModuleLoadData")
            if status in _UNREADABLE:
                major, minor = self.version
                error.hint = (
                    f"the driver supports CUDA {major}.{minor}, and the code was compiled by a newer one; update the "
                    "driver, or compile with an older NVRTC (`pip install nvidia-cuda-nvrtc-cu12` for CUDA 12)"
                )
            raise error
        return module.value or 0

    def function(self, module: int, name: str) -> int:
        """A kernel of a module."""
        function = ctypes.c_void_p()
        self._call("cuModuleGetFunction", ctypes.byref(function), ctypes.c_void_p(module), name.encode())
        return function.value or 0

    def allow_shared(self, function: int, size_bytes: int) -> None:
        """Lets a kernel have that much dynamic shared memory."""
        self._call("cuFuncSetAttribute", ctypes.c_void_p(function), _FUNCTION_SHARED_BYTES, size_bytes)

    def allow_large_clusters(self, function: int) -> None:
        """Lets a kernel have more blocks in a cluster than every GPU can run together."""
        self._call("cuFuncSetAttribute", ctypes.c_void_p(function), _FUNCTION_LARGE_CLUSTERS, 1)

    # -- memory ---------------------------------------------------------------------------------------------
    def pin(self, size_bytes: int) -> int:
        """Pinned host memory, zeroed, that every device sees under the same address; it is never freed."""
        pointer = ctypes.c_void_p()
        flags = _HOST_PORTABLE | _HOST_MAPPED
        self._call("cuMemHostAlloc", ctypes.byref(pointer), ctypes.c_size_t(size_bytes), flags)
        ctypes.memset(pointer.value or 0, 0, size_bytes)
        return pointer.value or 0

    def allocate(self, size_bytes: int, stream: int) -> int:
        """Device memory from the driver's pool, in the order of a stream."""
        pointer = ctypes.c_uint64()
        self._call("cuMemAllocAsync", ctypes.byref(pointer), ctypes.c_size_t(size_bytes), ctypes.c_void_p(stream))
        return pointer.value

    def free(self, pointer: int, stream: int) -> None:
        """Gives device memory back once the stream has come this far."""
        self._call("cuMemFreeAsync", ctypes.c_uint64(pointer), ctypes.c_void_p(stream))

    def fill(self, pointer: int, value: int, words: int, stream: int) -> None:
        """Sets 32-bit words of device memory."""
        self._call("cuMemsetD32Async", ctypes.c_uint64(pointer), value, ctypes.c_size_t(words), ctypes.c_void_p(stream))

    # -- time -----------------------------------------------------------------------------------------------
    def event(self) -> int:
        """A new event that takes the time."""
        event = ctypes.c_void_p()
        self._call("cuEventCreate", ctypes.byref(event), 0)
        return event.value or 0

    def record(self, event: int, stream: int) -> None:
        """Lets an event happen when the stream has come this far."""
        self._call("cuEventRecord", ctypes.c_void_p(event), ctypes.c_void_p(stream))

    def elapsed_ms(self, first: int, second: int) -> float:
        """The time between two events that have happened, in milliseconds."""
        value = ctypes.c_float()
        name = "cuEventElapsedTime"
        self._call(name, ctypes.byref(value), ctypes.c_void_p(first), ctypes.c_void_p(second))
        return value.value

    def discard(self, event: int) -> None:
        """Gives an event back."""
        self._call("cuEventDestroy_v2", ctypes.c_void_p(event))

    def synchronize(self) -> None:
        """Waits until everything in the current context is done."""
        self._call("cuCtxSynchronize")


@functools.lru_cache(maxsize=1)
def open_driver() -> Driver:
    """The driver of this machine, opened and started.

    Raises:
        DriverError: There is none, it does not start, or it is too old.
    """
    try:
        library = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError as error:
        raise DriverError(
            f"no CUDA driver found: {error}",
            hint="run on a machine with an NVIDIA GPU and its driver; without one, execution_backend='simulator' runs "
            "the kernel on the CPU, and get_kernel_source(), get_ptx() and the compiled code are there",
        ) from None
    try:
        return Driver(library)
    except AttributeError as error:
        raise DriverError(
            f"the CUDA driver is too old: {error}; CUDA 11.8 or newer is needed", hint="update the NVIDIA driver"
        ) from None
