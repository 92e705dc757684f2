"""What drivers of all vendors share, on that of CUDA over imaginary devices."""

import ctypes

import pytest
from fake_cuda import FakeCuda, cuda, driver  # noqa: F401
from fake_hip import FakeHip

from tilelang.errors import DriverError
from tilelang.targets.amd.runtime.hip_driver import HipDriver
from tilelang.targets.gpu.runtime.driver import device_names
from tilelang.targets.nvidia.runtime.cuda_driver import CudaDriver


def test_devices_are_counted_and_named(driver: CudaDriver) -> None:
    assert (1, "Imaginary GPU", 232448) == (driver.device_count(), driver.name(0), driver.max_shared_bytes(0))


def test_an_address_belongs_to_a_device(cuda: FakeCuda, driver: CudaDriver) -> None:
    cuda.where[4096] = 3
    assert 3 == driver.device_of(4096)


def test_pinned_memory_is_zeroed(cuda: FakeCuda, driver: CudaDriver) -> None:
    pointer = driver.pin(16)
    assert bytes(16) == ctypes.string_at(pointer, 16)


def test_memory_is_allocated_filled_and_given_back_in_order(cuda: FakeCuda, driver: CudaDriver) -> None:
    pointer = driver.allocate(64, 7)
    driver.fill(pointer, 0, 16, 7)
    driver.free(pointer, 7)
    assert ["cuMemAllocAsync", "cuMemsetD32Async", "cuMemFreeAsync"] == cuda.calls[-3:]


def test_the_capture_mode_is_given_back_after_a_failure(cuda: FakeCuda, driver: CudaDriver) -> None:
    cuda.failing["cuModuleLoadData"] = 2
    with pytest.raises(DriverError, match="cuModuleLoadData failed with CUDA_ERROR_2"), driver.unrecorded():
        driver.load(b"code")
    assert 2 == cuda.calls.count("cuThreadExchangeStreamCaptureMode")


def test_a_function_that_the_library_lacks_has_no_address(driver: CudaDriver) -> None:
    assert (0, 0) == (driver.address("cuNoSuchFunction"), driver.address(""))


def test_time_is_taken_between_events(driver: CudaDriver) -> None:
    first, second = driver.event(), driver.event()
    driver.record(first, 0)
    driver.record(second, 0)
    assert 2.0 == driver.elapsed_ms(first, second)
    driver.discard(first)


def test_reports_name_each_device_and_its_architecture() -> None:
    assert "Imaginary GPU (sm_90), Imaginary GPU (sm_90)" == device_names(CudaDriver(FakeCuda(devices=2)))
    assert "Imaginary Instinct (gfx942)" == device_names(HipDriver(FakeHip()))


def test_an_event_is_ahead_until_it_has_happened_or_the_device_failed(cuda: FakeCuda, driver: CudaDriver) -> None:
    event = driver.event()
    assert driver.is_ahead(event)
    for status in (0, 700):
        cuda.failing["cuEventQuery"] = status
        assert not driver.is_ahead(event)
