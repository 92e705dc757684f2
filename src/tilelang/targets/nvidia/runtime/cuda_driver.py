"""The CUDA driver: contexts, modules, launches, events and memory, by ctypes.

Takes addresses and numbers, gives handles. Invariant: the library is opened when the first kernel is called or device
asked for; every failure is a `DriverError` with a hint; nothing here synchronizes unless its name says
so.

Source: CUDA Driver API, the sections of the functions named.
"""

from __future__ import annotations

import ctypes
import functools
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tilelang.codegen.source import DeviceLaunch
from tilelang.errors import DriverError
from tilelang.targets.gpu.runtime.driver import Driver, DriverFunctions
from tilelang.targets.nvidia.machines import PORTABLE_CLUSTER

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
OUT_OF_MEMORY, NO_DEVICE, INVALID_CONTEXT = 2, 100, 201
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
# Edges of graphs that do not wait for a kernel's end. Source: CUDA 12.3 release notes, "CUDA Graphs: graph edge data"
_OVERLAPS_IN_GRAPHS = (12, 3)


class CudaDriver(Driver):
    """An opened driver.

    Args:
        library: The functions of libcuda.
    """

    functions = DriverFunctions(
        start="cuInit",
        version="cuDriverGetVersion",
        device_count="cuDeviceGetCount",
        device_name="cuDeviceGetName",
        attribute="cuDeviceGetAttribute",
        pointer_attribute="cuPointerGetAttribute",
        load="cuModuleLoadData",
        function="cuModuleGetFunction",
        pin="cuMemHostAlloc",
        allocate="cuMemAllocAsync",
        free="cuMemFreeAsync",
        fill="cuMemsetD32Async",
        event="cuEventCreate",
        record="cuEventRecord",
        query="cuEventQuery",
        elapsed="cuEventElapsedTime",
        discard="cuEventDestroy_v2",
        synchronize="cuCtxSynchronize",
        capture_mode="cuThreadExchangeStreamCaptureMode",
        context_of="cuCtxGetCurrent",
        launch="cuLaunchKernelEx",
        encode_map="cuTensorMapEncodeTiled",
        max_shared_bytes=MAX_SHARED_BYTES,
        not_ready=600,  # CUDA_ERROR_NOT_READY
        device_of_pointer=_POINTER_DEVICE,
        pinned=_HOST_PORTABLE | _HOST_MAPPED,
        relaxed_capture=_CAPTURE_RELAXED,
    )
    title = "CUDA"
    device_type = "cuda"
    default_stream = 1  # CU_STREAM_LEGACY

    def __init__(self, library: Any) -> None:
        super().__init__(library)
        self.launch: Callable[..., int] = library.cuLaunchKernelEx
        self.overlaps_launches = self.version >= _OVERLAPS_IN_GRAPHS
        self._contexts: dict[int, int] = {}

    def _version_of(self, number: int) -> tuple[int, int]:
        version = (number // 1000, number % 1000 // 10)
        if version < _OLDEST:
            major, minor = version
            raise DriverError(
                f"the CUDA driver is too old: it supports CUDA {major}.{minor}, and 11.8 or newer is needed",
                hint="update the NVIDIA driver",
            )
        return version

    def error(self, status: int, what: str) -> DriverError:  # noqa: D102  see `Driver`
        name, text = ctypes.c_char_p(), ctypes.c_char_p()
        self._library.cuGetErrorName(status, ctypes.byref(name))
        self._library.cuGetErrorString(status, ctypes.byref(text))
        shown = (name.value or b"unknown error").decode()
        said = (text.value or b"").decode()
        hint = _RESTART if status in LOST else _HINTS.get(status, "")
        return DriverError(f"{what} failed with {shown} ({status}): {said}", hint=hint)

    # -- devices and contexts -------------------------------------------------------------------------------
    def capability(self, device: int) -> tuple[int, int]:
        """The compute capability, as (9, 0)."""
        return self.attribute(device, _MAJOR), self.attribute(device, _MINOR)

    def arch(self, device: int) -> str:  # noqa: D102  see `Driver`
        return f"sm_{''.join(map(str, self.capability(device)))}"

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

    # -- code -----------------------------------------------------------------------------------------------
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

    def _hint_for_code(self, status: int) -> str:
        if status not in _UNREADABLE:
            return ""
        major, minor = self.version
        return (
            f"the driver supports CUDA {major}.{minor}, and the code was compiled by a newer one; update the "
            "driver, or compile with an older NVRTC (`pip install nvidia-cuda-nvrtc-cu12` for CUDA 12)"
        )

    def prepare(self, function: int, launch: DeviceLaunch, shared_bytes: int) -> None:
        """Lets a kernel have dynamic shared memory, and more blocks in a cluster than every GPU can run together."""
        self._allow(function, _FUNCTION_SHARED_BYTES, shared_bytes)
        if math.prod(launch.cluster) > PORTABLE_CLUSTER:
            self._allow(function, _FUNCTION_LARGE_CLUSTERS, 1)

    def _allow(self, function: int, attribute: int, value: int) -> None:
        self._call("cuFuncSetAttribute", ctypes.c_void_p(function), attribute, value)


@functools.lru_cache(maxsize=1)
def open_driver() -> CudaDriver:
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
        return CudaDriver(library)
    except AttributeError as error:
        raise DriverError(
            f"the CUDA driver is too old: {error}; CUDA 11.8 or newer is needed", hint="update the NVIDIA driver"
        ) from None
