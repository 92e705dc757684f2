from collections.abc import Callable

import pytest
from fake_cuda import FakeCuda

from tilelang.errors import DriverError, OptionError
from tilelang.targets.gpu.runtime.device_runtime import DeviceRuntime
from tilelang.targets.gpu.runtime.failures import FailureBoard
from tilelang.targets.nvidia.runtime.cuda_driver import CudaDriver
from tilelang.targets.nvidia.runtime.cuda_program import CudaProgram
from tilelang.targets.target import Target
from tilelang.tune.device import check_can_measure, device_name, is_lost


def use(monkeypatch: pytest.MonkeyPatch, open_driver: Callable[[], CudaDriver]) -> None:
    """Makes another driver that of the family's devices."""
    runtime = DeviceRuntime(open_driver, CudaProgram, FailureBoard())
    monkeypatch.setattr("tilelang.targets.nvidia.runtime.device_runtime.RUNTIME", runtime)


CPU, GPU = Target("cpu"), Target("cuda", "sm_90a")


def test_the_cpu_has_a_name_and_a_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILELANG_NUM_THREADS", "3")
    assert device_name(CPU).endswith(", 3 threads")
    assert 12 < len(device_name(CPU))
    check_can_measure("scale", CPU, "cc")
    assert not is_lost(CPU)


def test_a_gpu_has_a_name_and_a_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, lambda: CudaDriver(FakeCuda()))
    check_can_measure("scale", GPU, "nvrtc")
    assert "Imaginary GPU" == device_name(GPU)
    assert not is_lost(GPU)


def test_a_gpu_may_be_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = FakeCuda()
    use(monkeypatch, lambda: CudaDriver(cuda))
    monkeypatch.setattr(cuda, "cuCtxSynchronize", lambda: 700, raising=False)
    assert is_lost(GPU)


@pytest.mark.parametrize(("backend", "verb"), [("simulator", "simulates"), ("reference", "interprets")])
def test_simulated_and_interpreted_kernels_are_not_tuned(backend: str, verb: str) -> None:
    with pytest.raises(OptionError) as caught:
        check_can_measure("scale", GPU, backend)
    assert (
        f"autotune: 'scale' cannot be tuned with execution_backend '{backend}', which {verb} kernels: their times do "
        "not reflect a device\n"
        "hint: tune on a device or with target='cpu'; or give the tunables a value, then nothing is tuned"
    ) == str(caught.value)


def test_without_a_gpu_nothing_is_tuned_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent() -> CudaDriver:
        raise DriverError("no CUDA driver found")

    use(monkeypatch, absent)
    with pytest.raises(DriverError, match="no CUDA driver found"):
        check_can_measure("scale", GPU, "nvrtc")
