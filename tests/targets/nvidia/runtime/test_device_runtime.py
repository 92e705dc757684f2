from tilelang.targets.nvidia.runtime import cuda_driver
from tilelang.targets.nvidia.runtime.cuda_program import CudaProgram
from tilelang.targets.nvidia.runtime.device_runtime import RUNTIME
from tilelang.targets.target import Target


def test_the_family_runs_kernels_by_the_driver_of_this_machine() -> None:
    assert RUNTIME is Target("cuda", "sm_90a").family.device_runtime()
    assert (cuda_driver.open_driver, CudaProgram) == (RUNTIME.open_driver, RUNTIME.program_class)
