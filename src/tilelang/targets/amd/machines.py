"""The machine records of AMD's GPUs.

Gives `Feature`, `MACHINES`, and the sizes of register files. The names are those of LLVM's AMDGPU target: gfx90a,
gfx942 and gfx950 are of CDNA (MI200, MI300, MI350), gfx11 of RDNA 3 and 3.5, gfx12 of RDNA 4.
"""

from __future__ import annotations

import enum

from tilelang.records import record
from tilelang.targets.amd import lds_phases
from tilelang.targets.machine import CommonFeature, Machine, SharedPhases


class Feature(enum.Flag):
    """Hardware features that not all of these GPUs have."""

    NONE = 0
    MFMA = enum.auto()  # v_mfma on float16, bfloat16 and float32: 16x16x16, 32x32x8, 16x16x4, 32x32x2
    MFMA_F64 = enum.auto()  # v_mfma on float64: 16x16x4, 4x4x4
    MFMA_I8_NARROW = enum.auto()  # v_mfma on int8: 16x16x16, 32x32x8
    MFMA_I8 = enum.auto()  # v_mfma on int8: 16x16x32, 32x32x16
    MFMA_XF32 = enum.auto()  # v_mfma on float32 with 11 bits of precision: 16x16x8, 32x32x4
    MFMA_FP8_FNUZ = enum.auto()  # v_mfma on float8 without negative zero: 16x16x32, 32x32x16
    MFMA_FP8_OCP = enum.auto()  # v_mfma on float8 of the Open Compute Project: 16x16x32, 32x32x16
    MFMA_WIDE = enum.auto()  # twice the depth: float16 and bfloat16 16x16x32, 32x32x16; int8 16x16x64, 32x32x32
    MFMA_SCALED = enum.auto()  # float8, float6, float4 with scales of blocks: 16x16x128, 32x32x64
    MFMA_FLUSHES = enum.auto()  # v_mfma flushes subnormal float16 and bfloat16 to zero
    WMMA_REPEATED = enum.auto()  # v_wmma 16x16x16 whose inputs both halves of a wave hold
    WMMA_SPLIT = enum.auto()  # v_wmma 16x16x16 whose inputs are divided between the halves, and on float8
    DIRECT_TO_LDS = enum.auto()  # global_load_lds: global -> LDS without registers, 1, 2 or 4 bytes a lane
    DIRECT_TO_LDS_WIDE = enum.auto()  # the same, 12 or 16 bytes a lane
    TRANSPOSED_READ = enum.auto()  # ds_read_b64_tr
    PERMLANE_SWAP = enum.auto()  # v_permlane16_swap, v_permlane32_swap
    PERMLANE_X16 = enum.auto()  # v_permlane16, v_permlanex16
    ROW_BROADCAST = enum.auto()  # row_bcast of data-parallel primitives
    ATOMIC_ADD_F32 = enum.auto()  # float32 is added to any memory in one instruction
    ATOMIC_ADD_F64 = enum.auto()  # float64 is added to global memory and LDS in one instruction
    ATOMIC_ADD_F16X2 = enum.auto()  # the same for two float16
    ATOMIC_ADD_BF16X2 = enum.auto()  # the same for two bfloat16
    CONVERT_BFLOAT16 = enum.auto()  # float32 to bfloat16 in one instruction
    CONVERT_FP8_FNUZ = enum.auto()  # float32 to and from float8 without negative zero in one instruction
    CONVERT_FP8_OCP = enum.auto()  # float32 to and from float8 of the Open Compute Project in one instruction
    STORE_COUNTER = enum.auto()  # vscnt: a counter for stores, apart from that of loads
    SPLIT_COUNTERS = enum.auto()  # a counter and a wait for each kind of memory operation: loadcnt, storecnt, dscnt
    SPLIT_BARRIER = enum.auto()  # s_barrier_signal and s_barrier_wait
    L2_PER_XCD = enum.auto()  # `XCDS` dies (XCDs) with an L2 each, which fences of the device write back


_CDNA2 = (
    Feature.MFMA | Feature.MFMA_F64 | Feature.MFMA_I8_NARROW | Feature.MFMA_FLUSHES | Feature.ROW_BROADCAST
    | Feature.ATOMIC_ADD_F64 | Feature.ATOMIC_ADD_F16X2
)  # fmt: skip
_CDNA3_4 = (
    Feature.MFMA | Feature.MFMA_F64 | Feature.MFMA_I8 | Feature.DIRECT_TO_LDS | Feature.ROW_BROADCAST
    | Feature.ATOMIC_ADD_F32 | Feature.ATOMIC_ADD_F64 | Feature.ATOMIC_ADD_F16X2 | Feature.ATOMIC_ADD_BF16X2
    | Feature.L2_PER_XCD
)  # fmt: skip
_CDNA3 = _CDNA3_4 | Feature.MFMA_XF32 | Feature.MFMA_FP8_FNUZ | Feature.CONVERT_FP8_FNUZ
_CDNA4 = (
    _CDNA3_4 | Feature.MFMA_FP8_OCP | Feature.MFMA_WIDE | Feature.MFMA_SCALED | Feature.DIRECT_TO_LDS_WIDE
    | Feature.TRANSPOSED_READ | Feature.PERMLANE_SWAP | Feature.CONVERT_BFLOAT16 | Feature.CONVERT_FP8_OCP
)  # fmt: skip
_RDNA3 = Feature.WMMA_REPEATED | Feature.PERMLANE_X16 | Feature.ATOMIC_ADD_F32 | Feature.STORE_COUNTER
_RDNA4 = (
    Feature.WMMA_SPLIT | Feature.PERMLANE_X16 | Feature.ATOMIC_ADD_F32 | Feature.ATOMIC_ADD_F16X2
    | Feature.ATOMIC_ADD_BF16X2 | Feature.CONVERT_FP8_OCP | Feature.STORE_COUNTER | Feature.SPLIT_COUNTERS
    | Feature.SPLIT_BARRIER
)  # fmt: skip


@record
class RegisterFile:
    """The vector registers of a SIMD unit, which its waves share.

    Attributes:
        registers: Registers of each lane, accumulator registers included.
        granule: The allocation granularity.
        max_waves: The most waves of a SIMD unit, however few registers they have.
        most: The most registers of one wave.
    """

    registers: int
    granule: int
    max_waves: int
    most: int

    def waves(self, registers: int) -> int:
        """Waves that a SIMD unit holds at once, with `registers` for each."""
        granules = -(-max(registers, 1) // self.granule)
        return min(self.max_waves, self.registers // (granules * self.granule))


# Source: clang's -Rpass-analysis=kernel-resource-usage with forced numbers of registers; LLVM, AMDGPUBaseInfo.cpp
CDNA_REGISTERS = RegisterFile(registers=512, granule=8, max_waves=8, most=512)
RDNA_REGISTERS = RegisterFile(registers=1536, granule=24, max_waves=16, most=256)
ARRAY_REGISTERS = 256  # that are addressed at once; CDNA's others accumulate
XCDS = 8  # dies of a GPU with `L2_PER_XCD`
SIMDS = 4  # of a compute unit of CDNA, and of the pair of compute units of RDNA that runs a work-group

# Source: HIP Programming Guide, "Hardware implementation", and limits of hipDeviceProp_t
MAX_THREADS = 1024  # per work-group
MAX_GRID = (2**31 - 1, 65535, 65535)  # work-groups along x, y and z
MAX_GRID_THREADS = 2**32 - 1  # along each; Source: HIP Runtime API Reference, hipModuleLaunchKernel
CDNA_WAVE, RDNA_WAVE = 64, 32  # lanes
# Of a lane, for addresses, and for operands while they are deinterleaved; those of gfx11 are replicated
RESERVED_REGISTERS = {CDNA_WAVE: 48, RDNA_WAVE: 64}


def _cdna(
    name: str,
    features: Feature,
    shared_kib: int = 64,
    banks: int = 32,
    phases: tuple[SharedPhases, ...] = lds_phases.CDNA3,
) -> Machine:
    """The record of a GPU of CDNA.

    Source: AMD Instinct MI200, MI300 and CDNA 4 Instruction Set Architecture reference guides, "Data Share" and the
    list of instructions of each; LLVM, "User Guide for AMDGPU Backend", "Processors". That LDS of more than 64 KiB is
    refused, and of more than 160 KiB on gfx950, is what clang 22 says.
    """
    return _machine(name, features, CDNA_WAVE, CDNA_REGISTERS, shared_kib, banks, phases)


def _rdna(name: str, features: Feature) -> Machine:
    """The record of a GPU of RDNA, whose waves have 32 lanes as code is compiled here.

    Source: RDNA 3, 3.5 and 4 Instruction Set Architecture reference guides, "Local Data Share" and the list of
    instructions of each; as for `_cdna`.
    """
    return _machine(name, features, RDNA_WAVE, RDNA_REGISTERS, 64, 32)


def _machine(
    name: str,
    features: Feature,
    wave: int,
    file: RegisterFile,
    shared_kib: int,
    banks: int,
    phases: tuple[SharedPhases, ...] = (),
) -> Machine:
    wide = Feature.DIRECT_TO_LDS_WIDE in features
    return Machine(
        name,
        features,
        CommonFeature.FILLED_BY_WARPS if wide else CommonFeature.NONE,
        warp_size=wave,
        max_threads=MAX_THREADS,
        max_grid=MAX_GRID,
        max_grid_threads=MAX_GRID_THREADS,
        registers_per_multiprocessor=SIMDS * file.registers * wave,
        register_files=SIMDS,
        array_registers=ARRAY_REGISTERS,
        shared_bytes=shared_kib * 1024,
        shared_banks=banks,
        bank_bytes=4,
        shared_phases=phases,
    )


MACHINES: dict[str, Machine] = {
    row.name: row
    for row in (
        _cdna("gfx90a", _CDNA2),
        _cdna("gfx942", _CDNA3),
        _cdna("gfx950", _CDNA4, 160, 64, lds_phases.CDNA4),
        _rdna("gfx1100", _RDNA3),
        _rdna("gfx1151", _RDNA3),
        _rdna("gfx1200", _RDNA4),
        _rdna("gfx1201", _RDNA4),
    )
}
EXAMPLE_ARCH = "gfx942"  # what messages name where a user must name a machine


def register_file(machine: Machine) -> RegisterFile:
    """The registers of a SIMD unit of a machine."""
    return CDNA_REGISTERS if machine.warp_size == CDNA_WAVE else RDNA_REGISTERS


def arch_of(name: str) -> str | None:
    """The row of `MACHINES` for what a driver calls a device, such as "gfx942:sramecc+:xnack-"; None without one."""
    arch = name.partition(":")[0]
    return arch if arch in MACHINES else None
