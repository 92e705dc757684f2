"""The runtime of a family of GPUs: what a vendor's folder offers to those who call, time and tune kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilelang.records import record
from tilelang.runtime.parameters import Signature
from tilelang.targets.gpu.runtime.device_code import DeviceCode
from tilelang.targets.gpu.runtime.device_program import DeviceProgram
from tilelang.targets.gpu.runtime.driver import Driver
from tilelang.targets.gpu.runtime.failures import FailureBoard


@record
class DeviceRuntime:
    """Runs compiled kernels of a family of GPUs.

    Attributes:
        open_driver: Gives the driver of this machine; raises a `DriverError` if there is none.
        program_class: What the family's programs are.
        board: Where their failed assertions report.
    """

    open_driver: Callable[[], Driver]
    program_class: Callable[[Signature, DeviceCode, FailureBoard], DeviceProgram]
    board: FailureBoard

    def program(self, signature: Signature, code: DeviceCode) -> DeviceProgram:
        """A compiled program on the devices of this machine."""
        return self.program_class(signature, code, self.board)

    def caller(self, signature: Signature, arch: str, compile_variant: Any, changed: Any) -> Any:
        """Calls a kernel on the devices of this machine: a `DeviceCaller` with these arguments."""
        from tilelang.targets.gpu.runtime.device_call import DeviceCaller  # noqa: PLC0415  needed by calls alone

        return DeviceCaller(signature, arch, compile_variant, self.open_driver, self.board, changed)
