"""Calls of kernels on imaginary devices of AMD: the driver stands for libamdhip64."""

import struct
from typing import Any

import numpy as np
import pytest
from fake_cuda import FakeTensor, FakeTorch, launch, scalar, signature, tensor, torch  # noqa: F401
from fake_hip import FakeHip, hip, hip_code, hip_driver, rocm_torch  # noqa: F401
from hip_kernels import REVERSE, needs_clang

import tilelang
import tilelang.language as T
from tilelang.codegen.source import DeviceLaunch, KernelArgument, Source
from tilelang.errors import ArgumentError, DeviceAssertError, DriverError, Loc
from tilelang.ir.specialization import Specialization
from tilelang.runtime.parameters import Signature
from tilelang.targets.amd.runtime import hip_driver as driver_module
from tilelang.targets.amd.runtime.device_code import build
from tilelang.targets.amd.runtime.device_runtime import RUNTIME
from tilelang.targets.amd.runtime.hip_driver import HipDriver
from tilelang.targets.amd.runtime.hip_program import HipProgram
from tilelang.targets.gpu.runtime.device_call import DeviceCaller
from tilelang.targets.gpu.runtime.device_runtime import DeviceRuntime
from tilelang.targets.gpu.runtime.failures import FailureBoard
from tilelang.targets.target import Target

ARGUMENTS = (("tensor", 0, "float*"), ("scalar", 1, "int32_t"), ("tensor", 2, "float*"))


def caller_of(hip: FakeHip, s: Signature, code: Any) -> DeviceCaller:
    """Calls code on the imaginary devices."""
    board, driver = FailureBoard(), HipDriver(hip)
    hip.arities = {part.name: len(part.arguments) for part in code.source.launches}
    made = HipProgram(s, code, board)

    def compile_variant(specialization: Specialization) -> HipProgram:
        return made

    return DeviceCaller(s, code.arch, compile_variant, lambda: driver, board)


@pytest.fixture
def scale(hip: FakeHip) -> DeviceCaller:
    s = signature(tensor("A", 8), scalar("n"), tensor("B", 8))
    one = launch(*ARGUMENTS, name="scale", grid=("4", "n"), shared_bytes=1024, threads=(256, 1, 1))
    return caller_of(hip, s, hip_code(one))


def test_the_family_runs_kernels_by_the_driver_of_this_machine() -> None:
    assert RUNTIME is Target("hip", "gfx942").family.device_runtime()
    assert (driver_module.open_driver, HipProgram) == (RUNTIME.open_driver, RUNTIME.program_class)


def test_a_call_launches_with_grid_threads_memory_stream_and_arguments(
    hip: FakeHip, scale: DeviceCaller, rocm_torch: FakeTorch
) -> None:
    a, b = (FakeTensor((8,), rocm_torch.float32) for _ in range(2))
    for _ in range(3):  # the long way, then known sizes
        scale.call(a, 3, b)
    assert 3 == len(hip.launches)
    for launched in hip.launches:
        assert ("scale", (4, 3, 1), (256, 1, 1), 1024, 77, 0, False) == (
            launched.kernel, launched.grid, launched.threads, launched.shared_bytes, launched.stream, launched.device,
            launched.cooperative,
        )  # fmt: skip
        assert [a.pointer, 3, b.pointer] == launched.values("QiQ")
    assert 1 == len(hip.modules)


def test_a_call_runs_on_the_device_of_its_tensors(rocm_torch: FakeTorch) -> None:
    hip = FakeHip(devices=2)
    s = signature(tensor("A", 8), scalar("n"), tensor("B", 8))
    scale = caller_of(hip, s, hip_code(launch(*ARGUMENTS, name="scale", grid=("n",))))
    scale.call(FakeTensor((8,), rocm_torch.float32, 1), 1, FakeTensor((8,), rocm_torch.float32, 1))
    assert [(1, 78)] == [(launched.device, launched.stream) for launched in hip.launches]
    assert 0 == hip.device


def test_a_grid_that_synchronizes_is_launched_as_a_whole(hip: FakeHip, rocm_torch: FakeTorch) -> None:
    s = signature(tensor("A", 8))
    caller = caller_of(hip, s, hip_code(launch(("tensor", 0, "float*"), name="all", cooperative=True)))
    caller.call(FakeTensor((8,), rocm_torch.float32))
    assert [("all", True)] == [(launched.kernel, launched.cooperative) for launched in hip.launches]


def test_tensors_elsewhere_are_refused(hip: FakeHip, scale: DeviceCaller, torch: FakeTorch) -> None:
    a, b = (FakeTensor((8,), torch.float32) for _ in range(2))
    with pytest.raises(ArgumentError, match="'A' is on device cuda:0, expected memory of a HIP device"):
        scale.call(a, 3, b)  # of a torch that is built for CUDA
    with pytest.raises(ArgumentError, match="'A' is in host memory, expected memory of a HIP device"):
        scale.call(np.zeros(8, np.float32), 3, b)
    assert [] == hip.launches


def test_a_refused_launch_is_an_error_with_its_kernel(hip: FakeHip, scale: DeviceCaller, rocm_torch: FakeTorch) -> None:
    hip.failing["hipModuleLaunchKernel"] = 701
    with pytest.raises(DriverError, match=r"kernel: launch of scale failed with hipError701 \(701\)"):
        scale.call(FakeTensor((8,), rocm_torch.float32), 1, FakeTensor((8,), rocm_torch.float32))


def test_a_failed_assertion_is_reported_by_the_next_call(hip: FakeHip, rocm_torch: FakeTorch) -> None:
    s = signature(tensor("A", 8))
    one = launch(("tensor", 0, "float*"), ("failure", 0, "int32_t*"), name="checked")
    caller = caller_of(hip, s, hip_code(one, asserts=(("A is positive", Loc("user.py", 3), ""),)))
    a = FakeTensor((8,), rocm_torch.float32)
    caller.call(a)
    _, flag = hip.launches[0].values("QQ")
    assert flag
    hip.kept[0][0] = b"\1"  # what the kernel writes: assertion 0 failed
    with pytest.raises(DeviceAssertError) as caught:
        caller.call(a)
    assert "A is positive" == caught.value.message
    assert "the kernel was stopped, and with it the HIP context" in caught.value.hint
    assert 1 == len(hip.launches)


def test_workspaces_and_outputs_are_those_of_torch(hip: FakeHip, rocm_torch: FakeTorch) -> None:
    s = signature(tensor("A", 8), tensor("B", 8), out_idx=-1)
    one = launch(("tensor", 0, "float*"), ("workspace", 0, "void*"), ("tensor", 1, "float*"), name="k")
    caller = caller_of(hip, s, hip_code(one, workspaces=("64",)))
    result = caller.call(FakeTensor((8,), rocm_torch.float32))
    assert result.pointer == hip.launches[0].values("QQQ")[2]
    assert [((8,), 0), ((64,), 0)] == sorted(((shape, device) for shape, _, device in rocm_torch.allocated), key=lambda row: row[0])


@needs_clang
def test_compiled_code_is_what_the_driver_loads(hip: FakeHip, rocm_torch: FakeTorch) -> None:
    arguments = (KernelArgument("tensor", 0, "float*"), KernelArgument("tensor", 1, "float*"))
    one = DeviceLaunch("reverse", ("2",), (256, 1, 1), 0, (1, 1, 1), arguments)
    code = build(Source("hip", REVERSE, "reverse", launches=(one,)), "gfx942", "clang")
    caller = caller_of(hip, signature(tensor("A", 512), tensor("B", 512)), code)
    caller.call(FakeTensor((512,), rocm_torch.float32), FakeTensor((512,), rocm_torch.float32))
    assert [code.binary] == hip.modules
    assert "reverse" == hip.launches[0].kernel


@needs_clang
def test_a_compiled_function_is_called_with_its_arguments(
    hip: FakeHip, rocm_torch: FakeTorch, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = HipDriver(hip)
    runtime = DeviceRuntime(lambda: driver, HipProgram, FailureBoard())
    monkeypatch.setattr("tilelang.targets.amd.runtime.device_runtime.RUNTIME", runtime)
    N = T.dynamic("N")

    @T.prim_func
    def scale(A: T.Tensor((N,), "float32"), factor: T.float32, B: T.Tensor((N,), "float32")):
        with T.Kernel(T.ceildiv(N, 256), threads=128) as bx:
            for i in T.Parallel(256):
                B[bx * 256 + i] = A[bx * 256 + i] * factor

    kernel = tilelang.compile(scale, out_idx=-1, target={"kind": "hip", "arch": "gfx942"})
    (launched,) = kernel.artifact.device_mod.source.launches
    hip.arities = {launched.name: len(launched.arguments)}
    for size in (1024, 1000, 1024):
        a = FakeTensor((size,), rocm_torch.float32)
        result = kernel(a, 0.5)
        made = hip.launches[-1]
        assert ((4, 1, 1), (128, 1, 1), 77) == (made.grid, made.threads, made.stream)
        arguments = {argument[:8] for argument in made.arguments}
        for value in (struct.pack("<Q", a.pointer), struct.pack("<Q", result.pointer)):
            assert value in arguments
        assert struct.pack("<f", 0.5) in {argument[:4] for argument in made.arguments}
    assert 3 == len(hip.launches)
    assert 2 == len(hip.modules)  # for sizes that divide evenly, and for others
    assert all(module.startswith(b"\x7fELF") for module in hip.modules)
