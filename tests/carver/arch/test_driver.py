import pytest
from fake_cuda import FakeCuda

from tilelang.carver.arch import driver
from tilelang.errors import DriverError
from tilelang.targets.nvidia.runtime.cuda_driver import CudaDriver


def test_without_a_device_figures_are_those_of_the_target(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "present_arch", lambda: None)
    monkeypatch.setattr("tilelang.targets.nvidia.present_device.present_arch", lambda: None)
    assert 132 == driver.get_num_sms()
    assert 227 * 1024 == driver.get_max_dynamic_shared_size_bytes()
    assert (48 * 1024, 64 * 1024) == (driver.get_shared_memory_per_block(), driver.get_registers_per_block())


def test_with_a_device_figures_are_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = CudaDriver(FakeCuda())
    monkeypatch.setattr(fake, "attribute", lambda device, which: 1000 * device + which)
    monkeypatch.setattr(driver, "present_arch", lambda: "sm_90a")
    monkeypatch.setattr(driver, "open_driver", lambda: fake)
    assert 1016 == driver.get_num_sms(1)
    assert 97 == driver.get_max_dynamic_shared_size_bytes()
    assert 38 == driver.get_l2_cache_size_bytes()
    assert "Imaginary GPU" == driver.get_cuda_device_name() == driver.get_device_name()
    assert (8, 12) == (driver.get_shared_memory_per_block(), driver.get_registers_per_block())


def test_what_only_a_device_knows_needs_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent() -> None:
        raise DriverError("no CUDA driver found")

    monkeypatch.setattr(driver, "open_driver", absent)
    with pytest.raises(DriverError):
        driver.get_l2_cache_size_bytes()
