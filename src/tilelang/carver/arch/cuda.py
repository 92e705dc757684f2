"""`CUDA`: figures of a kind of GPU, as a description to write kernels by."""

from __future__ import annotations

from tilelang.api import public
from tilelang.carver.arch import driver
from tilelang.errors import OptionError
from tilelang.targets.nvidia.machines import number_of
from tilelang.targets.target import TargetLike, parse_target


@public
class CUDA:
    """The figures of a kind of GPU.

    Args:
        target: What it is called, as for `tilelang.compile`.

    Attributes:
        target: The same.
        platform: "CUDA".
        sm_version: Such as 90.
        warp_size: Threads of a warp.
        smem_cap: Bytes of shared memory that a block may have.
        compute_max_core: Multiprocessors.
        reg_cap: Registers, of 32 bits, that a block may have: 64 Ki on every GPU. Source: CUDA C++ Programming Guide,
            "Compute Capabilities".

    Raises:
        OptionError: The target is no GPU.
    """

    def __init__(self, target: TargetLike = "cuda") -> None:
        self.target = parse_target(target)
        if self.target.kind == "cpu":
            raise OptionError("carver.arch.CUDA: the target is the CPU", hint="write CUDA('cuda')")
        self.platform = "CUDA"
        self.sm_version = number_of(self.target.arch)
        self.warp_size = self.target.machine.warp_size
        self.smem_cap = self.target.machine.shared_bytes
        self.compute_max_core = driver.get_num_sms()
        self.reg_cap = self.target.machine.registers_per_multiprocessor
