"""The machine code of every kind of kernel that is measured on a Hopper GPU: no spill, and no wait that ptxas adds."""

import pytest
from fake_cuda import needs_nvrtc
from measured_kernels import measured

import tilelang

KERNELS = measured()


@pytest.mark.slow(every=96)
@needs_nvrtc
@pytest.mark.parametrize("name", KERNELS)
def test_nothing_spills_and_no_matrix_instruction_waits_for_registers(name: str) -> None:
    func, configs = KERNELS[name]()
    kernel = tilelang.compile(func, target={"kind": "cuda", "arch": "sm_90a"}, pass_configs=dict(configs))
    for used in kernel.kernel_resources.values():
        assert (0, 0, False) == (used.spill_bytes, used.local_bytes, used.serialized)
    assert () == kernel.warnings
