"""NVIDIA's GPUs: what they can do, and their figures.

Takes nothing; gives `Feature` and `MACHINES`, and which code runs on which of them.
"""

from __future__ import annotations

import enum

from tilelang.targets.machine import CommonFeature, Machine


class Feature(enum.Flag):
    """What a GPU can do beyond the instructions that all of them have."""

    NONE = 0
    MMA_F16 = enum.auto()  # mma.sync m16n8k8 on float16, ldmatrix
    MMA_INT8 = enum.auto()  # mma.sync m8n8k16 on int8, m8n8k32 on int4
    MMA_AMPERE = enum.auto()  # mma.sync m16n8k16, bfloat16, tf32, float64 m8n8k4, int8 m16n8k32
    MMA_FLOAT8 = enum.auto()  # mma.sync m16n8k32 on float8
    MMA_FLOAT64 = enum.auto()  # mma.sync m16n8k4, k8 and k16 on float64
    CP_ASYNC = enum.auto()  # global -> shared without registers
    STMATRIX = enum.auto()
    CONVERT_FLOAT8 = enum.auto()  # cvt to and from float8 in one instruction
    BFLOAT16_MATH = enum.auto()  # bfloat16 conversion and arithmetic instructions
    MBARRIER = enum.auto()
    CLUSTER = enum.auto()
    TMA = enum.auto()
    WGMMA = enum.auto()  # and setmaxnreg; only in sm_90a
    TCGEN05 = enum.auto()  # matrix units with a memory of their own; no row has it, since nothing generates them



_TURING = Feature.MMA_F16 | Feature.MMA_INT8
_AMPERE = _TURING | Feature.MMA_AMPERE | Feature.CP_ASYNC | Feature.BFLOAT16_MATH | Feature.MBARRIER
_ADA = _AMPERE | Feature.MMA_FLOAT8 | Feature.CONVERT_FLOAT8
_HOPPER = _ADA | Feature.MMA_FLOAT64 | Feature.STMATRIX | Feature.CLUSTER | Feature.TMA
_H200 = (18, 18, 18, 18, 16, 16, 14, 14)

# Source: CUDA C++ Programming Guide, "Compute Capabilities" and "Thread Block Clusters"
MAX_THREADS = 1024  # per block
MAX_GRID = (2**31 - 1, 65535, 65535)  # blocks along x, y and z
PORTABLE_CLUSTER, MAX_CLUSTER = 8, 16  # blocks
REGISTERS_PER_SM = 65536  # of 32 bits
MAX_REGISTERS = 255  # per thread
WARP_SIZE = 32


def _machine(name: str, features: Feature, shared_kib: int, groups: tuple[int, ...] = ()) -> Machine:
    """The record of a GPU.

    Source: CUDA C++ Programming Guide, "Compute Capabilities", technical specifications per compute capability, and
    "Thread Block Clusters"; banks from "Shared Memory" (compute capability 5.x and later); the features from the PTX
    ISA, "Target ISA Notes" of each instruction; 132 multiprocessors from NVIDIA H100 Tensor Core GPU Architecture,
    table "Comparison of NVIDIA A100 and H100 Data Center GPUs", H100 SXM5, as which H200 is built. It has 8 groups of
    at most 18; that they divide so follows from the 66 clusters of 2 and 30 of 4 blocks that an H200 holds, measured by
    cuOccupancyMaxActiveClusters, since multiprocessors come in pairs.
    """
    return Machine(
        name,
        features,
        # redux.sync
        CommonFeature.REDUCE_LANES if Feature.MMA_AMPERE in features else CommonFeature.NONE,
        warp_size=WARP_SIZE,
        max_threads=MAX_THREADS,
        max_grid=MAX_GRID,
        registers_per_multiprocessor=REGISTERS_PER_SM,
        shared_bytes=shared_kib * 1024,
        shared_banks=32,
        bank_bytes=4,
        max_cluster=MAX_CLUSTER if Feature.CLUSTER in features else 1,
        groups=groups,
    )


MACHINES: dict[str, Machine] = {
    row.name: row
    for row in (
        _machine("sm_75", _TURING, 64),
        _machine("sm_80", _AMPERE, 163),
        _machine("sm_86", _AMPERE, 99),
        _machine("sm_87", _AMPERE, 163),
        _machine("sm_89", _ADA, 99),
        _machine("sm_90", _HOPPER, 227, _H200),
        _machine("sm_90a", _HOPPER | Feature.WGMMA, 227, _H200),
        _machine("sm_100", _HOPPER, 227),
        _machine("sm_100a", _HOPPER, 227),
        _machine("sm_100f", _HOPPER, 227),
        _machine("sm_103a", _HOPPER, 227),
        _machine("sm_120", _HOPPER, 99),
        _machine("sm_120a", _HOPPER, 99),
    )
}
DEFAULT_ARCH = "sm_90a"  # where no device is present


def number_of(arch: str) -> int:
    """90 of "sm_90a"."""
    return int(arch.removeprefix("sm_").rstrip("af"))


def arch_of(major: int, minor: int) -> str | None:
    """The best row of `MACHINES` whose code runs on devices of a compute capability, or None if none does.

    Code for an architecture runs on devices of the same major number and no smaller minor number; what ends in "a" runs
    on that very capability only.

    Source: CUDA C++ Programming Guide, "Binary Compatibility" and "Feature Set Compiler Targets".
    """
    number = major * 10 + minor
    if f"sm_{number}a" in MACHINES:
        return f"sm_{number}a"
    fitting = [name for name in MACHINES if number_of(name) // 10 == major and number_of(name) <= number]
    plain = [name for name in fitting if not name.endswith(("a", "f"))]
    return max(plain, key=number_of) if plain else None


def runs_on(code_for: Machine, machine: Machine) -> bool:
    """Whether a GPU runs code for another one. Source: as for `arch_of`."""
    built, other = number_of(code_for.name), number_of(machine.name)
    same = other // 10 == built // 10 and other >= built
    return same and (not code_for.name.endswith("a") or other == built)
