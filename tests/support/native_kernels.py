"""Kernels of a fake driver in host memory that are launched by launch.cpp; needs torch."""

import ctypes
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from fake_cuda import FakeCuda, device_code, encode_map
from fake_hip import FakeHip, hip_code

from tilelang.dtypes import INT32
from tilelang.ir.expr import Var
from tilelang.runtime.argument_table import ArgumentTable
from tilelang.runtime.arguments import bind
from tilelang.runtime.arrays import Allocation, torch_dtype
from tilelang.runtime.checker import Checker, DlpackExchange, dlpack_exchange
from tilelang.runtime.fast_path import MISSED
from tilelang.runtime.native_call import NativeCall, NativePlan
from tilelang.runtime.parameters import Signature
from tilelang.targets.amd.runtime.hip_driver import HipDriver
from tilelang.targets.amd.runtime.hip_program import HipProgram
from tilelang.targets.cpu.runtime.checker_builder import build
from tilelang.targets.gpu.runtime.failures import FailureBoard
from tilelang.targets.gpu.runtime.launch_block import Placed
from tilelang.targets.gpu.runtime.native_launch import LAUNCH_TEXT, failed_launch, launch_state, start_of
from tilelang.targets.nvidia.runtime.cuda_driver import CudaDriver
from tilelang.targets.nvidia.runtime.cuda_program import CudaProgram

torch = pytest.importorskip("torch")
CHECKER = build(LAUNCH_TEXT)
EXCHANGE = dlpack_exchange(torch.Tensor)
NEEDS_CHECKER = pytest.mark.skipif(CHECKER is None or EXCHANGE is None, reason="needs a C++ compiler and torch >= 2.10")
HOST = 1  # DLPack's number for host memory, on which the tensors of these tests are
NAMES = [f"n{n}" for n in range(193)]
M, N, S = (Var(name, INT32, index=True) for name in "MNS")
A, B, C = (("tensor", n, "void*") for n in range(3))


@dataclass
class Plan:
    """What the long way found out."""

    kernel: "Kernel"
    placed: tuple[Placed, ...]
    symbols: tuple[int, ...]
    outputs: list[Allocation]
    workspaces: list[Allocation]
    flag: int
    context: int

    def native(self, checker: Checker) -> NativePlan:
        """As `device_call` does."""
        kept: list[Any] = []
        driver, program = self.kernel.driver, self.kernel.program
        state = launch_state(driver, self.placed, program, self.context, self.flag, kept)
        failed = self.kernel.failed
        return NativePlan(start_of(checker), state, failed, self.symbols, self.outputs, self.workspaces, kept)


class Machine(FakeCuda):
    """An imaginary driver whose functions have addresses."""

    context = 100  # of every thread

    def __init__(self) -> None:
        super().__init__()
        self.status, self.stream, self.during = 0, 77, lambda: None
        self.done: list[tuple[int, int, tuple[int, ...], list[bytes]]] = []
        self.letters: list[Sequence[str]] = []
        self.encoded = 0
        numbers = [ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.c_void_p, *[ctypes.POINTER(ctypes.c_uint64)] * 2]
        numbers += [*[ctypes.POINTER(ctypes.c_uint32)] * 2, *[ctypes.c_int] * 4]
        self.cuTensorMapEncodeTiled = ctypes.CFUNCTYPE(ctypes.c_int, *numbers)(self._encode)
        self.cuLaunchKernelEx = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)(self._launch)
        self.cuCtxGetCurrent = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_void_p))(self._context)
        kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.POINTER(ctypes.c_void_p))
        self.stream_of = kind(self._stream)

    def _launch(self, config: int, function: int, parameters: int, extra: None) -> int:
        self.during()
        *sizes, stream, attributes, count = struct.unpack("<7I4xQQI", ctypes.string_at(config, 52))
        self.attributes = [struct.unpack("<I4x3I", ctypes.string_at(attributes + 72 * n, 20)) for n in range(count)]
        letters = self.letters[function - 1]
        pointers = struct.unpack(f"<{len(letters)}Q", ctypes.string_at(parameters, 8 * len(letters)))
        values = [struct.unpack(f"<{c}", ctypes.string_at(p, struct.calcsize(c)))[0] for c, p in zip(letters, pointers)]
        self.done.append((function, stream, tuple(sizes), values))
        return self.status

    def _encode(self, place: int, dtype: int, rank: int, address: int, *rest: Any) -> int:
        self.encoded += 1
        return encode_map(place, dtype, rank, address, *rest)

    def _context(self, found: Any) -> int:
        found[0] = self.context
        return 0

    def _stream(self, kind: int, device: int, found: Any) -> int:
        found[0] = self.stream + device
        return 0


class HipMachine(FakeHip):
    """The same of HIP, whose driver is given values."""

    device = 100  # of every thread, as the number of a context in these tests

    def __init__(self) -> None:
        super().__init__()
        self.stream, self.done, self.letters = 77, [], []
        numbers = [ctypes.c_void_p, *[ctypes.c_uint32] * 7, *[ctypes.c_void_p] * 3]
        self.hipModuleLaunchKernel = ctypes.CFUNCTYPE(ctypes.c_int, *numbers)(self._launch)
        self.hipGetDevice = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int))(self._device)
        kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.POINTER(ctypes.c_void_p))
        self.stream_of = kind(self._stream)

    def _launch(self, function: int, *rest: Any) -> int:
        *sizes, stream, parameters, extra = rest
        assert extra is None
        letters = self.letters[function - 1]
        pointers = struct.unpack(f"<{len(letters)}Q", ctypes.string_at(parameters, 8 * len(letters)))
        values = [struct.unpack(f"<{c}", ctypes.string_at(p, struct.calcsize(c)))[0] for c, p in zip(letters, pointers)]
        self.done.append((function, stream, tuple(sizes), values))
        return self.failing.get("hipModuleLaunchKernel", 0)

    def _device(self, found: Any) -> int:
        found[0] = self.device
        return 0

    def _stream(self, kind: int, device: int, found: Any) -> int:
        found[0] = self.stream + device
        return 0


class Kernel:
    """A kernel on imaginary devices in host memory: what does not go through the launcher is remembered."""

    machine_class: Any = Machine
    driver_class: Any = CudaDriver
    program_class: Any = CudaProgram
    code_of = staticmethod(device_code)

    def __init__(self, s: Signature, *launches: Any, symbols: bool = True, asserts: bool = False, **source: Any) -> None:
        self.signature, self.machine = s, self.machine_class()
        self.driver = self.driver_class(self.machine)
        self.long: list[tuple[Any, ...]] = []
        self.failures: list[tuple[int, str]] = []
        self.program = self.program_class(s, self.code_of(*launches, **source), FailureBoard())
        self.machine.letters = [f.letters for f in self.program.formats]
        self.flag = ctypes.c_int32(0)
        self.asserts = asserts
        exchange = DlpackExchange(EXCHANGE.tensor_of, ctypes.cast(self.machine.stream_of, ctypes.c_void_p).value)
        self.table = ArgumentTable(s, device=True, launch_scalars=self.program.used_names)
        self.native = NativeCall(self.table, CHECKER, (self.slow_path, lambda args: MISSED), exchange, HOST)
        self.call = self.native.call

    def add_plan(self, *args: Any, context: int = 100) -> bool:
        bound = bind(self.signature, args)
        names = {symbol.name: value for symbol, value in zip(self.signature.symbols, bound.symbols)}
        for param, value in zip(self.signature.params, bound.values):
            if not hasattr(value, "pointer"):
                names[param.name] = value
        program = self.program
        maps = program.encoded_maps(self.driver, names)
        for one in (one for several in maps for one in several):
            one[bound.address(one.tensor)]
        parts = zip(program.launches, program.grids(names), range(1, 99), program.formats, maps)
        outputs = [
            Allocation(torch.empty, (bound.values[i].shape,), {"dtype": torch_dtype(self.signature.params[i].dtype)})
            for i in self.signature.outputs
        ]
        spaces = [Allocation(torch.empty, ((size,),), {"dtype": torch.uint8}) for size in program.workspaces(names)]
        flag = ctypes.addressof(self.flag) if self.asserts else 0
        plan = Plan(self, tuple(Placed(*part) for part in parts), tuple(bound.symbols), outputs, spaces, flag, context)
        return self.native.add_plan(self.table.key(bound), plan)

    def slow_path(self, args: Any) -> str:
        self.long.append(args)
        return "the long way"

    def failed(self, answer: int) -> None:
        status, launch = failed_launch(answer)
        kernel = self.program.launches[launch].name
        self.failures.append((status, kernel))
        raise RuntimeError(f"{kernel} {status}")

    @property
    def last(self) -> list[Any]:
        return self.machine.done[-1][3]


class HipKernel(Kernel):
    """The same on imaginary devices of AMD."""

    machine_class = HipMachine
    driver_class = HipDriver
    program_class = HipProgram
    code_of = staticmethod(hip_code)


def three() -> list[Any]:
    return [torch.zeros(8, 4) for _ in range(3)]
