"""The HIP runtime of ROCm as a `Driver`: names of functions, error codes, devices, launches.

Takes addresses and numbers, gives handles; see `targets.gpu.runtime.driver`. Invariant: the library is opened when the
first kernel is called or device asked for. HIP has no contexts to choose from: the current device of the calling thread
stands for one.

This has been tested against an imitation of the library only, on no hardware.

Source: HIP Runtime API Reference, the sections of the functions named, and hip_runtime_api.h for the numbers.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tilelang.codegen.source import DeviceLaunch
from tilelang.errors import DriverError
from tilelang.targets.amd.present_device import device_arch
from tilelang.targets.amd.runtime.hip_library import open_library
from tilelang.targets.gpu.runtime.driver import Driver, DriverFunctions
from tilelang.targets.gpu.runtime.launch_block import launch_values

# enum hipError_t
OUT_OF_MEMORY, NO_DEVICE, INVALID_DEVICE = 2, 100, 101
OUT_OF_RESOURCES, TOO_LARGE = 701, 720
_UNREADABLE = frozenset({200, 209})  # invalid image, no binary for GPU
LOST = frozenset({700, 702, 710, 719})  # the device cannot be used by this process any more

_RESTART = "the device cannot be used by this process any more; restart it"
_NO_GPU = (
    "check `rocminfo`, that this user may open /dev/kfd (groups render and video), and HIP_VISIBLE_DEVICES; without an "
    "AMD GPU, execution_backend='simulator' runs the kernel on the CPU"
)
_HINTS = {
    OUT_OF_MEMORY: "free device memory: drop tensors, or empty the cache of the framework that holds it",
    NO_DEVICE: _NO_GPU,
    INVALID_DEVICE: _NO_GPU,
    OUT_OF_RESOURCES: "use fewer threads or registers: a smaller `threads=`, or smaller tiles",
    TOO_LARGE: "T.sync_grid needs all blocks at once: launch a smaller grid, such as one block per compute unit",
}
_OLDEST = (6, 0)  # the first that supports gfx942


class HipDriver(Driver):
    """An opened driver.

    Args:
        library: The functions of libamdhip64.
    """

    functions = DriverFunctions(
        start="hipInit",
        version="hipDriverGetVersion",
        device_count="hipGetDeviceCount",
        device_name="hipDeviceGetName",
        attribute="hipDeviceGetAttribute",
        pointer_attribute="hipPointerGetAttribute",
        load="hipModuleLoadData",
        function="hipModuleGetFunction",
        pin="hipHostMalloc",
        allocate="hipMallocAsync",
        free="hipFreeAsync",
        fill="hipMemsetD32Async",
        event="hipEventCreateWithFlags",
        record="hipEventRecord",
        query="hipEventQuery",
        elapsed="hipEventElapsedTime",
        discard="hipEventDestroy",
        synchronize="hipDeviceSynchronize",
        capture_mode="hipThreadExchangeStreamCaptureMode",
        context_of="hipGetDevice",
        launch_values="hipModuleLaunchKernel",
        max_shared_bytes=74,  # hipDeviceAttributeMaxSharedMemoryPerBlock
        not_ready=600,  # hipErrorNotReady
        device_of_pointer=9,  # HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL
        pinned=0x40000003,  # hipHostMallocPortable, Mapped and Coherent: seen while a kernel runs
        relaxed_capture=2,  # hipStreamCaptureModeRelaxed
    )
    title = "HIP"
    device_type = "rocm"
    default_stream = 0  # the null stream

    def __init__(self, library: Any) -> None:
        super().__init__(library)
        # looked up now, so that a driver without these functions is refused at once
        self._launch, self._cooperative = library.hipModuleLaunchKernel, library.hipModuleLaunchCooperativeKernel

    def _version_of(self, number: int) -> tuple[int, int]:
        version = (number // 10_000_000, number // 100_000 % 100)  # HIP_VERSION
        if version < _OLDEST:
            raise DriverError(
                f"the HIP driver is too old: it is of ROCm {version[0]}.{version[1]}, and 6.0 or newer is needed",
                hint="update ROCm",
            )
        return version

    def error(self, status: int, what: str) -> DriverError:  # noqa: D102  see `Driver`
        texts = []
        for function in (self._library.hipGetErrorName, self._library.hipGetErrorString):
            function.restype = ctypes.c_char_p
            texts.append((function(status) or b"unknown error").decode())
        hint = _RESTART if status in LOST else _HINTS.get(status, "")
        return DriverError(f"{what} failed with {texts[0]} ({status}): {texts[1]}", hint=hint)

    def launch(self, config: Any, function: Any, parameters: Any, extra: None) -> int:
        """Launches a kernel by the values of a configuration; gives a status."""
        values = launch_values(config.value)
        stream = ctypes.c_void_p(values.stream)
        sizes = (function, *values.grid, *values.threads, values.shared_bytes, stream, parameters)
        status: int = self._cooperative(*sizes) if values.cooperative else self._launch(*sizes, extra)
        return status

    # -- devices --------------------------------------------------------------------------------------------
    def arch(self, device: int) -> str:  # noqa: D102  see `Driver`
        return device_arch(self._library, device)

    def current_device(self) -> int:  # noqa: D102  see `Driver`
        device = ctypes.c_int()
        self._call(self.functions.context_of, ctypes.byref(device))
        return device.value

    def current_context(self) -> int:  # noqa: D102  see `Driver`
        return self.current_device()

    def enter(self, device: int) -> int:  # noqa: D102  see `Driver`
        if self.current_device() != device:
            self._call("hipSetDevice", device)
        return device

    @contextmanager
    def inside(self, device: int) -> Iterator[int]:  # noqa: D102  see `Driver`
        before = self.current_device()
        context = self.enter(device)
        try:
            yield context
        finally:
            if before != device:
                self._call("hipSetDevice", before)

    # -- code -----------------------------------------------------------------------------------------------
    def _hint_for_code(self, status: int) -> str:
        if status not in _UNREADABLE:
            return ""
        major, minor = self.version
        return f"the driver of ROCm {major}.{minor} cannot read this code for this device; update ROCm"

    def prepare(self, function: int, launch: DeviceLaunch, shared_bytes: int) -> None:
        """Nothing: dynamic LDS needs no attribute of the kernel."""


@functools.lru_cache(maxsize=1)
def open_driver() -> HipDriver:
    """The driver of this machine, opened and started.

    Raises:
        DriverError: There is none, it does not start, or it is too old.
    """
    library = open_library("amdhip64")
    if library is None:
        raise DriverError(
            "no HIP driver found: libamdhip64 is in no package of this Python, not below ROCM_PATH, and not among the "
            "system's libraries",
            hint="run on a machine with an AMD GPU and ROCm; without one, execution_backend='simulator' runs the "
            "kernel on the CPU, and get_kernel_source(), get_sass() and the compiled code are there",
        )
    try:
        return HipDriver(library)
    except AttributeError as error:
        raise DriverError(
            f"the HIP driver is too old: {error}; ROCm 6.0 or newer is needed", hint="update ROCm"
        ) from None
