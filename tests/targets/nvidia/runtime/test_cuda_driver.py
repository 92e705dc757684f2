import pytest
from fake_cuda import FakeCuda, cuda, driver  # noqa: F401

from tilelang.errors import DriverError
from tilelang.targets.nvidia.runtime.cuda_driver import CudaDriver, open_driver


def test_a_machine_without_a_driver_says_what_still_works(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr("ctypes.CDLL", absent)
    open_driver.cache_clear()
    with pytest.raises(DriverError) as caught:
        open_driver()
    assert (
        "no CUDA driver found: libcuda.so.1: cannot open shared object file\n"
        "hint: run on a machine with an NVIDIA GPU and its driver; without one, execution_backend='simulator' runs the "
        "kernel on the CPU, and get_kernel_source(), get_ptx() and the compiled code are there"
    ) == str(caught.value)


@pytest.mark.parametrize(("version", "name"), [(11070, "11.7"), (10020, "10.2")])
def test_a_driver_that_is_too_old_is_refused(version: int, name: str) -> None:
    with pytest.raises(DriverError) as caught:
        CudaDriver(FakeCuda(version=version))
    assert (
        f"the CUDA driver is too old: it supports CUDA {name}, and 11.8 or newer is needed\n"
        "hint: update the NVIDIA driver"
    ) == str(caught.value)


def test_a_driver_that_lacks_a_function_is_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    class Old(FakeCuda):
        @property
        def cuLaunchKernelEx(self) -> None:  # type: ignore[override]
            raise AttributeError("undefined symbol: cuLaunchKernelEx")

    monkeypatch.setattr("ctypes.CDLL", lambda name: Old())
    open_driver.cache_clear()
    try:
        with pytest.raises(DriverError, match="too old: undefined symbol: cuLaunchKernelEx"):
            open_driver()
    finally:
        open_driver.cache_clear()


def test_a_failure_says_what_failed_and_what_to_do(cuda: FakeCuda, driver: CudaDriver) -> None:
    cuda.failing["cuCtxSynchronize"] = 700
    with pytest.raises(DriverError) as caught:
        driver.synchronize()
    assert (
        "cuCtxSynchronize failed with CUDA_ERROR_700 (700): so it is\n"
        "hint: the CUDA context is lost: no call on this device can work any more; restart the process"
    ) == str(caught.value)


def test_code_that_the_driver_cannot_read_names_both_versions(cuda: FakeCuda, driver: CudaDriver) -> None:
    cuda.failing["cuModuleLoadData"] = 209
    with pytest.raises(DriverError) as caught:
        driver.load(b"")
    assert (
        "the driver supports CUDA 13.0, and the code was compiled by a newer one; update the driver, or compile with an "
        "older NVRTC (`pip install nvidia-cuda-nvrtc-cu12` for CUDA 12)"
    ) == caught.value.hint


def test_a_thread_without_a_context_gets_the_primary_one(cuda: FakeCuda, driver: CudaDriver) -> None:
    assert driver.current_device() is None
    assert 100 == driver.enter(0) == cuda.context


def test_a_context_of_the_callers_own_is_used(cuda: FakeCuda, driver: CudaDriver) -> None:
    cuda.context = 4000  # of device 0, and not the primary one
    with driver.inside(0) as context:
        assert 4000 == context == cuda.context


def test_another_devices_context_is_entered_and_left() -> None:
    library = FakeCuda(devices=2)
    driver = CudaDriver(library)
    driver.enter(0)
    with driver.inside(1) as context:
        assert 101 == context == library.context
    assert 100 == library.context


def test_the_capability_and_figures_of_a_device(driver: CudaDriver) -> None:
    assert ((9, 0), 232448, 1) == (driver.capability(0), driver.attribute(0, 97), driver.device_count())
    assert (13, 0) == driver.version


def test_a_device_has_a_name() -> None:
    assert "Imaginary GPU" == CudaDriver(FakeCuda()).name(0)
