"""Launches in machine code (launch.cpp) by a driver that is given values, as HIP's is."""

import pytest
from fake_cuda import launch, signature, tensor
from native_kernels import NEEDS_CHECKER, A, B, C, HipKernel, M, three, torch

from tilelang.runtime.native_call import NotNative

pytestmark = NEEDS_CHECKER


@pytest.fixture
def add() -> HipKernel:
    made = HipKernel(signature(tensor("A", 8, 4), tensor("B", 8, 4), tensor("C", 8, 4)), launch(A, B, C))
    made.add_plan(*three())
    return made


def test_addresses_and_sizes_reach_the_kernel_on_the_current_stream(add: HipKernel) -> None:
    for stream in (5, 6):
        add.machine.stream = stream
        given = three()
        assert add.call(*given) is None
        assert [t.data_ptr() for t in given] == add.last
        assert (1, stream, (4, 2, 1, 128, 1, 1, 1024)) == add.machine.done[-1][:3]
    assert [] == add.long


def test_symbols_are_arguments(add: HipKernel) -> None:
    kernel = HipKernel(signature(tensor("A", M, 4), symbols=(M,)), launch(A, ("symbol", 0, "int"), grid=("M",)))
    kernel.add_plan(torch.zeros(8, 4))
    assert kernel.call(torch.zeros(8, 4)) is None
    assert 8 == kernel.last[1]


def test_another_device_takes_the_slow_path(add: HipKernel) -> None:
    add.machine.device = 101
    assert "the long way" == add.call(*three())
    assert [] == add.machine.done


def test_a_refused_launch_names_its_kernel(add: HipKernel) -> None:
    add.machine.failing["hipModuleLaunchKernel"] = 719
    with pytest.raises(RuntimeError, match="kernel_kernel 719"):
        add.call(*three())
    assert [(719, "kernel_kernel")] == add.failures


def test_a_grid_that_synchronizes_is_launched_from_python() -> None:
    kernel = HipKernel(signature(tensor("A", 8, 4)), launch(A, cooperative=True))
    with pytest.raises(NotNative):
        kernel.add_plan(torch.zeros(8, 4))
