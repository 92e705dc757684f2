"""Which kind of machine a description is of, and the descriptions of machines besides NVIDIA's."""

from __future__ import annotations

import os

from tilelang.api import public
from tilelang.carver.arch.cuda import CUDA
from tilelang.errors import NoLowering
from tilelang.targets.nvidia.present_device import present_arch
from tilelang.targets.target import TargetLike, parse_target


@public
class CPU:
    """The machine at hand, without a GPU.

    Attributes:
        target: The target "cpu".
        platform: "CPU".
        compute_max_core: Processors.
    """

    def __init__(self, target: TargetLike = "cpu") -> None:
        self.target = parse_target(target)
        self.platform = "CPU"
        self.compute_max_core = os.cpu_count() or 1


@public
class CDNA:
    """A GPU of AMD, of which there is no description here: constructing one is an error."""

    def __init__(self, target: TargetLike = "hip") -> None:
        name = type(self).__name__
        raise NoLowering(f"carver.arch.{name}: there is no description for {target!r:.40}", hint="write CUDA('cuda')")


@public
class RDNA(CDNA):
    """As `CDNA`."""


@public
class METAL(CDNA):
    """A GPU of Apple; as `CDNA`."""


@public
def get_arch(target: TargetLike = "cuda") -> CUDA | CPU:
    """The description of a target.

    Raises:
        OptionError: There is no such target.
    """
    return CPU(target) if parse_target(target).kind == "cpu" else CUDA(target)


@public
def auto_infer_current_arch() -> CUDA | CPU:
    """The description of the GPU that is present; of the GPU that kernels are compiled for without one."""
    present = present_arch()
    return CUDA(present if present is not None else "cuda")


@public
def is_cuda_arch(arch: object) -> bool:
    """Whether it is one of NVIDIA."""
    return isinstance(arch, CUDA)


@public
def is_cpu_arch(arch: object) -> bool:
    """Whether it is a CPU."""
    return isinstance(arch, CPU)


@public
def is_cdna_arch(arch: object) -> bool:
    """Whether it is one of AMD's CDNA: never here."""
    return isinstance(arch, CDNA) and not isinstance(arch, RDNA | METAL)


@public
def is_rdna_arch(arch: object) -> bool:
    """Whether it is one of AMD's RDNA: never here."""
    return isinstance(arch, RDNA)


@public
def is_metal_arch(arch: object) -> bool:
    """Whether it is one of Apple: never here."""
    return isinstance(arch, METAL)


def _is_within(arch: object, first: int, end: int) -> bool:
    return isinstance(arch, CUDA) and first <= arch.sm_version < end


@public
def is_volta_arch(arch: object) -> bool:
    """Whether it is of compute capability 7.0 or 7.2."""
    return _is_within(arch, 70, 75)


@public
def is_ampere_arch(arch: object) -> bool:
    """Whether it is of compute capability 8.0 to 8.7."""
    return _is_within(arch, 80, 89)


@public
def is_ada_arch(arch: object) -> bool:
    """Whether it is of compute capability 8.9."""
    return _is_within(arch, 89, 90)


@public
def is_hopper_arch(arch: object) -> bool:
    """Whether it is of compute capability 9.0."""
    return _is_within(arch, 90, 100)


@public
def has_mma_support(arch: object) -> bool:
    """Whether it multiplies matrices of 16-bit elements by an instruction."""
    return _is_within(arch, 75, 1000)
