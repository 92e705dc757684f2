import pytest
from fake_cuda import FakeCuda, cuda, driver  # noqa: F401

from tilelang.codegen.source import Source
from tilelang.errors import NOWHERE, DeviceAssertError, Loc
from tilelang.targets.gpu.runtime.failures import FailureBoard
from tilelang.targets.nvidia.runtime.cuda_driver import CudaDriver

SOURCE = Source("cuda", "", "kernel", asserts=(("first", NOWHERE, ""), ("too large", Loc("user.py", 7), "")))


def test_an_assertion_that_failed_says_its_message_place_and_what_to_do(driver: CudaDriver) -> None:
    board = FailureBoard()
    flag = board.flag(driver, SOURCE)
    board.check()
    flag.number.value = 2
    with pytest.raises(DeviceAssertError) as caught:
        board.check()
    assert (
        "too large\n"
        " --> user.py:7:1\n"
        "hint: the kernel was stopped, and with it the CUDA context: no call on this device can work any more; "
        "restart the process"
    ) == str(caught.value)


def test_every_program_has_a_flag_of_its_own(cuda: FakeCuda, driver: CudaDriver) -> None:
    board = FailureBoard()
    flags = [board.flag(driver, SOURCE) for _ in range(1500)]
    assert 1500 == len({flag.address for flag in flags})
    assert 2 == cuda.calls.count("cuMemHostAlloc")  # 1024 to a page
    flags[-1].number.value = 1
    flags[3].check()
    with pytest.raises(DeviceAssertError, match="first"):
        flags[-1].check()
