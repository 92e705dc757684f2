"""What kernels print goes through pinned memory to the standard output of the host."""

import ctypes
from typing import Any

import pytest
from fake_cuda import FakeTensor, FakeTorch, launch, signature, tensor, torch  # noqa: F401
from fake_hip import FakeHip, hip, hip_code, hip_driver, rocm_torch  # noqa: F401

from tilelang.codegen.print_records import KIND_BITS, WORDS, Kind
from tilelang.targets.amd.runtime.hip_driver import HipDriver
from tilelang.targets.amd.runtime.hip_program import HipProgram
from tilelang.targets.gpu.runtime import print_buffer
from tilelang.targets.gpu.runtime.device_call import DeviceCaller
from tilelang.targets.gpu.runtime.failures import FailureBoard
from tilelang.targets.gpu.runtime.print_buffer import PrintBuffer

HEAD = 2


def write(address: int, *records: tuple[Kind, int]) -> None:
    """As a thread does."""
    count = ctypes.c_uint64.from_address(address)
    room = ctypes.c_uint64.from_address(address + 8).value
    for kind, value in records:
        if count.value < room:
            place = (ctypes.c_uint64 * WORDS).from_address(address + 8 * (HEAD + WORDS * count.value))
            place[:] = [5 << KIND_BITS | kind, 0, value]
        count.value += 1


NEWLINE = (Kind.TEXT, 10)
END = (Kind.END, 0)


def test_texts_are_taken_once(hip_driver: HipDriver) -> None:
    buffer = PrintBuffer(hip_driver)
    assert [] == buffer.take()
    write(buffer.address, (Kind.SIGNED, 3), NEWLINE, END)
    assert ["3\n"] == buffer.take()
    write(buffer.address, (Kind.SIGNED, 4), NEWLINE, END)
    assert ["4\n"] == buffer.take()
    assert [] == buffer.take()


def test_it_is_said_what_did_not_fit(hip_driver: HipDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(print_buffer, "_ROOM", 4)
    buffer = PrintBuffer(hip_driver)
    for number in range(3):
        write(buffer.address, (Kind.SIGNED, number), NEWLINE, END)
    assert ["0\n", "T.print: 5 of 9 numbers and pieces of text did not fit and are lost\n"] == buffer.take()


@pytest.fixture
def caller(hip: FakeHip) -> DeviceCaller:
    """Calls a kernel that prints the number of its launch."""
    program = launch(("prints", 0, "void*"), ("tensor", 0, "float*"), name="printing")
    hip.arities = {"printing": 2}
    start = hip.hipModuleLaunchKernel

    def run(*given: Any) -> int:
        status = start(*given)
        write(hip.launches[-1].values("QQ")[0], (Kind.SIGNED, len(hip.launches)), NEWLINE, END)
        return status

    hip.hipModuleLaunchKernel = run  # type: ignore[method-assign]
    s, driver, board = signature(tensor("A", 8)), HipDriver(hip), FailureBoard()
    made = HipProgram(s, hip_code(program), board)
    return DeviceCaller(s, "gfx942", lambda _: made, lambda: driver, board)


def test_a_call_waits_for_its_kernel_and_writes_what_it_prints(
    hip: FakeHip, caller: DeviceCaller, rocm_torch: FakeTorch, capsys: pytest.CaptureFixture[str]
) -> None:
    a = FakeTensor((8,), rocm_torch.float32)
    for number in (1, 2, 3):  # the long way, then known sizes
        caller.call(a)
        assert (f"{number}\n", number) == (capsys.readouterr().out, hip.calls.count("hipDeviceSynchronize"))


def test_what_was_printed_before_a_failure_is_written(
    hip: FakeHip, caller: DeviceCaller, rocm_torch: FakeTorch, capsys: pytest.CaptureFixture[str]
) -> None:
    hip.failing["hipDeviceSynchronize"] = 719
    with pytest.raises(Exception, match="hipError719"):
        caller.call(FakeTensor((8,), rocm_torch.float32))
    assert "1\n" == capsys.readouterr().out
