from fake_cuda import FakeCuda
from fake_hip import FakeHip

from tilelang.targets.amd.runtime.hip_driver import HipDriver
from tilelang.targets.gpu.runtime.device_names import device_names
from tilelang.targets.nvidia.runtime.cuda_driver import CudaDriver


def test_devices_have_a_name_and_an_architecture() -> None:
    assert "Imaginary GPU (sm_90), Imaginary GPU (sm_90)" == device_names(CudaDriver(FakeCuda(devices=2)))
    assert "Imaginary Instinct (gfx942)" == device_names(HipDriver(FakeHip()))
