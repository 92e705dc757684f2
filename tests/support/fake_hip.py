"""A HIP driver with devices, as far as the runtime looks at them, on a machine that has none.

`FakeHip` stands for libamdhip64: it fills in what its functions are given pointers to, and remembers launches as the
driver would see them. Tensors are those of `fake_cuda`, whose torch is made one for ROCm.
"""

import ctypes
import struct
import threading
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
from fake_cuda import FakeTorch, torch  # noqa: F401

from tilelang.codegen.source import DeviceLaunch, Source
from tilelang.options import CompileOptions
from tilelang.targets.amd.runtime.device_code import HipCode
from tilelang.targets.amd.runtime.hip_driver import HipDriver


@dataclass
class Launched:
    """One launch, as the driver was told."""

    kernel: str
    grid: tuple[int, ...]
    threads: tuple[int, ...]
    shared_bytes: int
    stream: int
    arguments: list[bytes]
    device: int
    cooperative: bool

    def values(self, letters: str) -> list[Any]:
        """The arguments, read by `struct`'s letters."""
        return [struct.unpack(f"<{c}", a[: struct.calcsize(c)])[0] for c, a in zip(letters, self.arguments, strict=True)]


class _Text:
    """A function that gives a text, whose type ctypes has to be told."""

    def __init__(self, text: str) -> None:
        self._text, self.restype = text, None

    def __call__(self, status: int) -> bytes:
        assert self.restype is ctypes.c_char_p
        return self._text.format(status).encode()


class FakeHip:
    """The functions of libamdhip64 that are used, over imaginary devices."""

    def __init__(self, devices: int = 1, arch: bytes = b"gfx942:sramecc+:xnack-", version: int = 60_241_133) -> None:
        self.devices, self.gcn_arch, self.version = devices, arch, version
        self.shared = 65536
        self.failing: dict[str, int] = {}  # function: the status that it gives
        self.launches: list[Launched] = []
        self.calls: list[str] = []
        self.arities: dict[str, int] = {}  # kernel: how many arguments are looked at
        self.functions: dict[int, str] = {}
        self.modules: list[bytes] = []
        self.pinned: list[tuple[int, int]] = []  # bytes and flags
        self.kept: list[Any] = []  # memory that was handed out
        self.where: dict[int, int] = {}  # address: device
        self.thread = threading.local()
        self.hipGetErrorName, self.hipGetErrorString = _Text("hipError{}"), _Text("so it is")

    def _status(self, name: str) -> int:
        self.calls.append(name)
        return self.failing.get(name, 0)

    @property
    def device(self) -> int:
        return getattr(self.thread, "device", 0)

    def hipInit(self, flags: int) -> int:
        return self._status("hipInit")

    def hipDriverGetVersion(self, value: Any) -> int:
        value._obj.value = self.version
        return self._status("hipDriverGetVersion")

    def hipGetDeviceCount(self, value: Any) -> int:
        value._obj.value = self.devices
        return self._status("hipGetDeviceCount")

    def hipDeviceGetName(self, text: Any, size: int, device: int) -> int:
        text.value = b"Imaginary Instinct"
        return self._status("hipDeviceGetName")

    def hipDeviceGetAttribute(self, value: Any, which: int, device: int) -> int:
        value._obj.value = {74: self.shared}[which]
        return self._status("hipDeviceGetAttribute")

    def hipGetDevicePropertiesR0600(self, properties: Any, device: int) -> int:
        record = properties._obj
        record[:18] = b"Imaginary Instinct"
        record[1160 : 1160 + len(self.gcn_arch)] = self.gcn_arch
        return self._status("hipGetDevicePropertiesR0600")

    def hipPointerGetAttribute(self, value: Any, which: int, pointer: Any) -> int:
        assert which == 9
        value._obj.value = self.where.get(pointer.value, 0)
        return self._status("hipPointerGetAttribute")

    def hipGetDevice(self, value: Any) -> int:
        value._obj.value = self.device
        return self._status("hipGetDevice")

    def hipSetDevice(self, device: int) -> int:
        self.thread.device = device
        return self._status("hipSetDevice")

    def hipThreadExchangeStreamCaptureMode(self, mode: Any) -> int:
        return self._status("hipThreadExchangeStreamCaptureMode")

    def hipModuleLoadData(self, value: Any, code: bytes) -> int:
        self.modules.append(code)
        value._obj.value = len(self.modules)
        return self._status("hipModuleLoadData")

    def hipModuleGetFunction(self, value: Any, module: Any, name: bytes) -> int:
        value._obj.value = 1000 + len(self.functions)
        self.functions[value._obj.value] = name.decode()
        return self._status("hipModuleGetFunction")

    def hipHostMalloc(self, value: Any, size: Any, flags: int) -> int:
        memory = ctypes.create_string_buffer(size.value)
        self.kept.append(memory)
        self.pinned.append((size.value, flags))
        value._obj.value = ctypes.addressof(memory)
        return self._status("hipHostMalloc")

    def hipMallocAsync(self, value: Any, size: Any, stream: Any) -> int:
        value._obj.value = 0x7000
        return self._status("hipMallocAsync")

    def hipFreeAsync(self, pointer: Any, stream: Any) -> int:
        return self._status("hipFreeAsync")

    def hipMemsetD32Async(self, pointer: Any, value: int, words: Any, stream: Any) -> int:
        return self._status("hipMemsetD32Async")

    def hipEventCreateWithFlags(self, value: Any, flags: int) -> int:
        value._obj.value = 5000 + len(self.calls)
        return self._status("hipEventCreateWithFlags")

    def hipEventRecord(self, event: Any, stream: Any) -> int:
        return self._status("hipEventRecord")

    def hipEventQuery(self, event: Any) -> int:
        self._status("hipEventQuery")
        return self.failing.get("hipEventQuery", 600)

    def hipEventElapsedTime(self, value: Any, first: Any, second: Any) -> int:
        value._obj.value = 2.0
        return self._status("hipEventElapsedTime")

    def hipEventDestroy(self, event: Any) -> int:
        return self._status("hipEventDestroy")

    def hipDeviceSynchronize(self) -> int:
        return self._status("hipDeviceSynchronize")

    def _launched(self, function: Any, sizes: tuple[int, ...], stream: Any, parameters: Any, cooperative: bool) -> None:
        kernel = self.functions[function.value]
        count = self.arities[kernel]
        pointers = struct.unpack(f"<{count}Q", ctypes.string_at(parameters.value, 8 * count))
        arguments = [ctypes.string_at(pointer, 8) for pointer in pointers]
        shape = (sizes[:3], sizes[3:6], sizes[6])
        self.launches.append(Launched(kernel, *shape, stream.value or 0, arguments, self.device, cooperative))

    def hipModuleLaunchKernel(self, function: Any, *rest: Any) -> int:
        *sizes, stream, parameters, extra = rest
        assert extra is None
        self._launched(function, tuple(sizes), stream, parameters, cooperative=False)
        return self._status("hipModuleLaunchKernel")

    def hipModuleLaunchCooperativeKernel(self, function: Any, *rest: Any) -> int:
        *sizes, stream, parameters = rest
        self._launched(function, tuple(sizes), stream, parameters, cooperative=True)
        return self._status("hipModuleLaunchCooperativeKernel")


@pytest.fixture
def hip() -> FakeHip:
    return FakeHip()


@pytest.fixture
def hip_driver(hip: FakeHip) -> HipDriver:
    return HipDriver(hip)


@pytest.fixture
def rocm_torch(torch: FakeTorch) -> FakeTorch:
    """torch with tensors on imaginary devices of ROCm, which it calls CUDA's."""
    torch.version = SimpleNamespace(hip="6.2.41133", cuda=None)
    return torch


def hip_code(*launches: DeviceLaunch, arch: str = "gfx942", **fields: Any) -> HipCode:
    source = Source("hip", "// text\n", launches[0].name, launches=launches, **fields)
    return HipCode(source, arch, "clang", CompileOptions(), b"code object", {}, ())
