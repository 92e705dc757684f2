"""A CUDA driver and a torch with devices, as far as the runtime looks at them, on a machine that has neither.

`FakeCuda` stands for libcuda: it fills in what its functions are given pointers to, and remembers launches as the
driver would see them. `FakeTensor` stands for a torch tensor on a device; its memory is the host's.
"""

from __future__ import annotations

import ctypes
import struct
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tilelang.codegen.source import DeviceLaunch, KernelArgument, Source, TensorMapText
from tilelang.dtypes import INT32, as_dtype
from tilelang.errors import ToolchainError
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Const, Expr, Var, const
from tilelang.ir.func import Param, PrimFunc, ScalarParam, TensorParam
from tilelang.ir.stmt import Seq, Store
from tilelang.options import CompileOptions
from tilelang.runtime.parameters import Signature
from tilelang.targets.gpu.runtime.device_code import DeviceCode
from tilelang.targets.gpu.runtime.device_runtime import DeviceRuntime
from tilelang.targets.gpu.runtime.failures import FailureBoard
from tilelang.targets.nvidia.runtime.cuda_driver import CudaDriver
from tilelang.targets.nvidia.runtime.cuda_program import CudaProgram
from tilelang.targets.nvidia.runtime.nvcc import find_tool
from tilelang.targets.nvidia.runtime.nvrtc import open_nvrtc


def _has_nvrtc() -> bool:
    try:
        open_nvrtc()
    except ToolchainError:
        return False
    return True


needs_nvrtc = pytest.mark.skipif(not _has_nvrtc(), reason="needs NVRTC")
needs_nvcc = pytest.mark.skipif(find_tool("nvcc") is None, reason="needs nvcc, of the CUDA toolkit")


@dataclass
class Launched:
    """One launch, as the driver was told."""

    kernel: str
    grid: tuple[int, ...]
    threads: tuple[int, ...]
    shared_bytes: int
    stream: int
    attributes: list[tuple[int, tuple[int, ...]]]
    arguments: list[bytes]
    context: int

    def values(self, letters: Sequence[str]) -> list[Any]:
        """The arguments, read by `struct`'s letters."""
        return [struct.unpack(f"<{c}", a[: struct.calcsize(c)])[0] for c, a in zip(letters, self.arguments, strict=True)]


_MAP = struct.Struct("<Q5Q4Q5H6B32x")


@dataclass(frozen=True)
class EncodedMap:
    """What imaginary drivers write into the bytes of a tensor map."""

    address: int
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    steps: tuple[int, ...]
    dtype: int
    interleave: int
    swizzle: int
    promotion: int
    fill: int

    @staticmethod
    def of(data: bytes) -> "EncodedMap":
        """What the bytes say."""
        address, *rest = _MAP.unpack(data[:128])
        rank = rest[14]
        return EncodedMap(
            address, tuple(rest[:rank]), tuple(rest[5 : 4 + rank]), tuple(rest[9 : 9 + rank]), (1,) * rank, *rest[15:]
        )


def encode_map(place: int, dtype: int, rank: int, address: int, dims: Any, strides: Any, box: Any, steps: Any, *how: int) -> int:
    """Writes a tensor map; addresses and numbers are plain integers, arrays can be indexed."""
    assert place % 64 == 0
    assert list(steps[:rank]) == [1] * rank
    padded = [*dims[:rank], *[0] * (5 - rank), *strides[: rank - 1], *[0] * (5 - rank), *box[:rank], *[0] * (5 - rank)]
    ctypes.memmove(place, _MAP.pack(address, *padded, rank, dtype, *how), 128)
    return 0


class FakeCuda:
    """The functions of libcuda that are used, over imaginary devices."""

    def __init__(self, devices: int = 1, capability: tuple[int, int] = (9, 0), version: int = 13000) -> None:
        self.devices, self.capability, self.version = devices, capability, version
        self.shared = 232448
        self.failing: dict[str, int] = {}  # function: the status that it gives
        self.launches: list[Launched] = []
        self.calls: list[str] = []
        self.image_maps: list[tuple[Any, ...]] = []  # what maps of pixels were encoded from
        self.attributes: list[tuple[int, int]] = []  # of functions, as they were set
        self.arities: dict[str, int] = {}  # kernel: how many arguments are looked at
        self.thread = threading.local()
        self.functions: dict[int, str] = {}
        self.modules: list[bytes] = []
        self.kept: list[Any] = []  # memory that was handed out
        self.where: dict[int, int] = {}  # address: device

    def _status(self, name: str) -> int:
        self.calls.append(name)
        return self.failing.get(name, 0)

    @property
    def context(self) -> int:
        return getattr(self.thread, "context", 0)

    @context.setter
    def context(self, value: int) -> None:
        self.thread.context = value

    def cuInit(self, flags: int) -> int:
        return self._status("cuInit")

    def cuDriverGetVersion(self, value: Any) -> int:
        value._obj.value = self.version
        return self._status("cuDriverGetVersion")

    def cuGetErrorName(self, status: int, text: Any) -> int:
        text._obj.value = f"CUDA_ERROR_{status}".encode()
        return 0

    def cuGetErrorString(self, status: int, text: Any) -> int:
        text._obj.value = b"so it is"
        return 0

    def cuDeviceGetCount(self, value: Any) -> int:
        value._obj.value = self.devices
        return self._status("cuDeviceGetCount")

    def cuDeviceGetName(self, text: Any, size: int, device: int) -> int:
        text.value = b"Imaginary GPU"
        return self._status("cuDeviceGetName")

    def cuDeviceGetAttribute(self, value: Any, which: int, device: int) -> int:
        value._obj.value = {75: self.capability[0], 76: self.capability[1], 97: self.shared}[which]
        return self._status("cuDeviceGetAttribute")

    def cuPointerGetAttribute(self, value: Any, which: int, pointer: Any) -> int:
        value._obj.value = self.where.get(pointer.value, 0)
        return self._status("cuPointerGetAttribute")

    def cuCtxGetDevice(self, value: Any) -> int:
        value._obj.value = self.context % 100
        return 0 if self.context else 201

    def cuCtxGetCurrent(self, value: Any) -> int:
        value._obj.value = self.context or None
        return 0

    def cuCtxSetCurrent(self, context: Any) -> int:
        self.context = context.value or 0
        return self._status("cuCtxSetCurrent")

    def cuDevicePrimaryCtxRetain(self, value: Any, device: int) -> int:
        value._obj.value = 100 + device
        return self._status("cuDevicePrimaryCtxRetain")

    def cuThreadExchangeStreamCaptureMode(self, mode: Any) -> int:
        return self._status("cuThreadExchangeStreamCaptureMode")

    def cuModuleLoadData(self, value: Any, cubin: bytes) -> int:
        self.modules.append(cubin)
        value._obj.value = len(self.modules)
        return self._status("cuModuleLoadData")

    def cuModuleGetFunction(self, value: Any, module: Any, name: bytes) -> int:
        value._obj.value = 1000 + len(self.functions)
        self.functions[value._obj.value] = name.decode()
        return self._status("cuModuleGetFunction")

    def cuFuncSetAttribute(self, function: Any, which: int, value: int) -> int:
        self.attributes.append((which, value))
        return self._status("cuFuncSetAttribute")

    def cuTensorMapEncodeTiled(self, place: Any, dtype: int, rank: int, address: Any, *rest: Any) -> int:
        encode_map(place.value, dtype, rank, address.value or 0, *rest)
        return self._status("cuTensorMapEncodeTiled")

    def cuTensorMapEncodeIm2col(self, place: Any, dtype: int, rank: int, address: Any, *rest: Any) -> int:
        dims, strides, lower, upper, channels, pixels, steps, *how = rest
        self.image_maps.append(
            (dtype, address.value, list(dims), list(strides[: rank - 1]), list(lower), list(upper), channels, pixels,
             list(steps), *how)
        )  # fmt: skip
        return self._status("cuTensorMapEncodeIm2col")

    def cuMemHostAlloc(self, value: Any, size: Any, flags: int) -> int:
        memory = ctypes.create_string_buffer(size.value)
        self.kept.append(memory)
        value._obj.value = ctypes.addressof(memory)
        return self._status("cuMemHostAlloc")

    def cuMemAllocAsync(self, value: Any, size: Any, stream: Any) -> int:
        value._obj.value = 0x7000
        return self._status("cuMemAllocAsync")

    def cuMemFreeAsync(self, pointer: Any, stream: Any) -> int:
        return self._status("cuMemFreeAsync")

    def cuMemsetD32Async(self, pointer: Any, value: int, words: Any, stream: Any) -> int:
        return self._status("cuMemsetD32Async")

    def cuEventCreate(self, value: Any, flags: int) -> int:
        value._obj.value = 5000 + len(self.calls)
        return self._status("cuEventCreate")

    def cuEventRecord(self, event: Any, stream: Any) -> int:
        return self._status("cuEventRecord")

    def cuEventQuery(self, event: Any) -> int:
        self._status("cuEventQuery")
        return self.failing.get("cuEventQuery", 600)

    def cuEventElapsedTime(self, value: Any, first: Any, second: Any) -> int:
        value._obj.value = 2.0
        return self._status("cuEventElapsedTime")

    def cuEventDestroy_v2(self, event: Any) -> int:
        return self._status("cuEventDestroy_v2")

    def cuCtxSynchronize(self) -> int:
        return self._status("cuCtxSynchronize")

    def cuLaunchKernelEx(self, config: Any, function: Any, parameters: Any, extra: None) -> int:
        if not self.context:
            return 201
        kernel = self.functions[function.value]
        *sizes, stream, attributes, count = struct.unpack("<7I4xQQI", ctypes.string_at(config.value, 52))
        assert 0 == config.value % 64
        found = []
        for n in range(count):
            kind, *value = struct.unpack("<I4x3I", ctypes.string_at(attributes + 72 * n, 20))
            found.append((kind, tuple(value)))
        pointers = struct.unpack(
            f"<{self.arities[kernel]}Q", ctypes.string_at(parameters.value, 8 * self.arities[kernel])
        )
        arguments = [ctypes.string_at(pointer, 128) for pointer in pointers]
        self.launches.append(
            Launched(
                kernel, tuple(sizes[:3]), tuple(sizes[3:6]), sizes[6], stream, found, arguments, self.context
            )
        )
        return self._status("cuLaunchKernelEx")


class FakeDevice:
    """A torch device."""

    type = "cuda"

    def __init__(self, number: int) -> None:
        self.number = number

    def __str__(self) -> str:
        return f"cuda:{self.number}"


class FakeTensor:
    """A torch tensor on an imaginary device."""

    def __init__(self, shape: Sequence[int], dtype: Any, device: int = 0, strides: Sequence[int] | None = None) -> None:
        self.memory = np.zeros(int(np.prod(shape)) * 16 + 64, np.uint8)
        self.pointer = self.memory.ctypes.data + (-self.memory.ctypes.data % 64)
        self.shape, self.dtype, self.number = tuple(shape), dtype, device
        dense = [int(np.prod(shape[n + 1 :])) for n in range(len(shape))]
        self.strides = tuple(dense if strides is None else strides)
        self.dense = self.strides == tuple(dense)
        self.layout, self.is_cuda, self.is_cpu = "torch.strided", True, False

    @property
    def device(self) -> FakeDevice:
        return FakeDevice(self.number)

    ndim = property(lambda self: len(self.shape))

    def shifted(self, count_bytes: int) -> FakeTensor:
        """The same memory, some bytes further."""
        other = FakeTensor(self.shape, self.dtype, self.number, self.strides)
        other.memory, other.pointer = self.memory, self.pointer + count_bytes
        return other

    def data_ptr(self) -> int:
        return self.pointer

    def get_device(self) -> int:
        return self.number

    def is_contiguous(self) -> bool:
        return self.dense

    def stride(self) -> tuple[int, ...]:
        return self.strides

    def is_neg(self) -> bool:
        return False

    def is_conj(self) -> bool:
        return False

    def element_size(self) -> int:
        return int(self.dtype.itemsize)


class FakeTorch:
    """torch, with tensors on imaginary devices; everything else is the real one's."""

    Tensor = FakeTensor

    def __init__(self, real: Any) -> None:
        self.real = real
        self.stream, self.current, self.allocated = 77, 0, []
        self._C = SimpleNamespace(
            _cuda_getCurrentRawStream=lambda device: self.stream + device, _cuda_getDevice=lambda: self.current
        )
        self.cuda = SimpleNamespace(is_initialized=lambda: True)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    def empty(self, shape: Any, dtype: Any, device: Any) -> FakeTensor:
        number = int(str(device).partition(":")[2] or 0)
        shape = (shape,) if isinstance(shape, int) else shape
        self.allocated.append((shape, dtype, number))
        return FakeTensor(shape, dtype, number)

    def device(self, text: str) -> str:
        return text


@pytest.fixture
def cuda() -> FakeCuda:
    return FakeCuda()


@pytest.fixture
def driver(cuda: FakeCuda) -> CudaDriver:
    return CudaDriver(cuda)


@pytest.fixture
def runtime(driver: CudaDriver) -> DeviceRuntime:
    return DeviceRuntime(lambda: driver, CudaProgram, FailureBoard())


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> FakeTorch:
    fake = FakeTorch(pytest.importorskip("torch"))
    monkeypatch.setitem(sys.modules, "torch", fake)
    return fake


# -- programs ------------------------------------------------------------------------------------------------
def tensor(name: str, *shape: int | Expr, dtype: str = "float32", strides: Any = None) -> TensorParam:
    extents = tuple(e if isinstance(e, Expr) else Const(e, INT32) for e in shape)
    return TensorParam(Buffer(name, extents, as_dtype(dtype), Scope.GLOBAL, strides))


def scalar(name: str, dtype: str = "int32") -> ScalarParam:
    return ScalarParam(Var(name, as_dtype(dtype), index=dtype.startswith("int")))


def signature(*params: Param, symbols: tuple[Var, ...] = (), out_idx: Any = None) -> Signature:
    """The signature of a function that writes its last tensor."""
    last = [p for p in params if isinstance(p, TensorParam)][-1]
    body = Store(last.buffer, (Const(0, INT32),) * last.buffer.rank, const(0, last.dtype))
    return Signature.of(PrimFunc("kernel", params, Seq((body,)), symbols=symbols), out_idx)


def launch(
    *arguments: tuple[str, int, str],
    name: str = "kernel_kernel",
    grid: tuple[str, ...] = ("4", "2"),
    shared_bytes: int = 1024,
    threads: tuple[int, int, int] = (128, 1, 1),
    cluster: tuple[int, int, int] = (1, 1, 1),
    cooperative: bool = False,
    maps: tuple[TensorMapText, ...] = (),
    early: bool = False,
    shared_text: str = "",
) -> DeviceLaunch:
    values = tuple(KernelArgument(*argument) for argument in arguments)
    return DeviceLaunch(name, grid, threads, shared_bytes, cluster, values, cooperative, maps, early, shared_text)


def map_text(
    tensor: int = 0,
    dims: tuple[str, ...] = ("64", "32"),
    strides: tuple[str, ...] = ("256",),
    box: tuple[int, ...] = (64, 32),
    swizzle: int = 128,
    dtype: str = "float16",
) -> TensorMapText:
    return TensorMapText(tensor, as_dtype(dtype), dims, strides, box, swizzle)


def device_code(*launches: DeviceLaunch, arch: str = "sm_90a", **fields: Any) -> DeviceCode:
    source = Source("cuda", "// text\n", launches[0].name, launches=launches, **fields)
    return DeviceCode(source, arch, "nvrtc", CompileOptions(), b"cubin", {}, ())
