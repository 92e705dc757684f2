"""The machine records of AMD's GPUs.

Gives `Feature`, `MACHINES`, and the sizes of register files. The names are those of LLVM's AMDGPU target: gfx90a,
gfx942 and gfx950 are of CDNA (MI200, MI300, MI350), gfx11 of RDNA 3 and 3.5, gfx12 of RDNA 4.
"""

from __future__ import annotations

import dataclasses
import enum

from tilelang.records import record
from tilelang.targets.amd import lds_phases
from tilelang.targets.gpu.sheet_rates import sheet_rates
from tilelang.targets.machine import CommonFeature, DataSheet, Machine, SharedPhases


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
    PACKED_FLOAT32 = enum.auto()  # v_pk_fma_f32, v_pk_mul_f32, v_pk_add_f32: on two registers at a time
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
    | Feature.ATOMIC_ADD_F64 | Feature.ATOMIC_ADD_F16X2 | Feature.PACKED_FLOAT32
)  # fmt: skip
_CDNA3_4 = (
    Feature.MFMA | Feature.MFMA_F64 | Feature.MFMA_I8 | Feature.DIRECT_TO_LDS | Feature.ROW_BROADCAST
    | Feature.ATOMIC_ADD_F32 | Feature.ATOMIC_ADD_F64 | Feature.ATOMIC_ADD_F16X2 | Feature.ATOMIC_ADD_BF16X2
    | Feature.L2_PER_XCD | Feature.PACKED_FLOAT32
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
_GROUPS_OF_CDNA, _GROUPS_OF_RDNA = 16, 32  # work-groups of several waves. Source: LLVM, getMaxWorkGroupsPerCU
SIMDS = 4  # of a compute unit of CDNA, and of the pair of compute units of RDNA that runs a work-group

# Source: HIP Programming Guide, "Hardware implementation", and limits of hipDeviceProp_t
MAX_THREADS = 1024  # per work-group
MAX_GRID = (2**31 - 1, 65535, 65535)  # work-groups along x, y and z
MAX_GRID_THREADS = 2**32 - 1  # along each; Source: HIP Runtime API Reference, hipModuleLaunchKernel
CDNA_WAVE, RDNA_WAVE = 64, 32  # lanes
# Of a lane, for addresses, and for operands while they are deinterleaved; those of gfx11 are replicated
RESERVED_REGISTERS = {CDNA_WAVE: 48, RDNA_WAVE: 64}


@record
class _Device:
    """A GPU by its data sheet.

    Attributes:
        name: Its name.
        multiprocessors: Compute units of CDNA, of one of two dies for MI250X; pairs of compute units of RDNA.
        clock: Cycles per second at the peak engine clock.
        matrix: Floating-point operations of 16-bit operands per cycle and multiprocessor: the peak rate of matrices
            without sparsity over the clock rate and the multiprocessors.
        cache_mib: Size of the L2 caches.
        memory: Bytes per second of device memory.
        shared_kib: LDS of a multiprocessor.
    """

    name: str
    multiprocessors: int
    clock: float
    matrix: int
    cache_mib: int
    memory: float
    shared_kib: int


# Source: AMD's product pages of these devices (clock, rate, bandwidth); ROCm, "AMD GPU specifications" (compute units,
# caches, LDS)
_MI250X = _Device("MI250X", 110, 1.7e9, 1024, 8, 1.6e12, 64)
_MI300X = _Device("MI300X", 304, 2.1e9, 2048, 32, 5.3e12, 64)
_MI355X = _Device("MI355X", 256, 2.4e9, 4096, 32, 8e12, 160)
_RX_7900_XTX = _Device("Radeon RX 7900 XTX", 48, 2.5e9, 1024, 6, 960e9, 128)
_RADEON_8060S = _Device("Radeon 8060S", 20, 2.9e9, 1024, 2, 256e9, 128)
_RX_9060_XT = _Device("Radeon RX 9060 XT", 16, 3.13e9, 2048, 4, 320e9, 128)
_RX_9070_XT = _Device("Radeon RX 9070 XT", 32, 2.97e9, 2048, 8, 640e9, 128)
# Ordinary instructions and transcendental ones of one call, where the hardware has exp2, log2, sqrt, rsqrt, rcp, sin
# and cos in one instruction, and a division is refined. Source: LLVM, AMDGPU lowering of divisions and exponentials.
_FUNCTIONS = {
    "exp": (8, 1), "exp2": (4, 1), "exp10": (10, 1), "log": (10, 1), "log2": (8, 1), "log10": (10, 1),
    "log1p": (30, 1), "sqrt": (10, 1), "rsqrt": (4, 1), "pow": (60, 2), "tanh": (16, 2), "sigmoid": (18, 2),
    "erf": (24, 1), "sin": (24, 1), "cos": (24, 1), "tan": (40, 2), "divide": (9, 1), "abs": (0, 0), "fma": (1, 0),
    "__exp": (1, 1), "__exp2": (0, 1), "__exp10": (1, 1), "__log": (1, 1), "__log2": (0, 1), "__log10": (1, 1),
    "__sin": (1, 1), "__cos": (1, 1), "__tan": (3, 3), "__pow": (1, 2), "__fdividef": (1, 1), "__tanh": (4, 2),
    "__sigmoid": (3, 2), "__sqrt": (0, 1), "__rsqrt": (0, 1), "__divide": (1, 1),
}  # fmt: skip


def _cdna(
    name: str,
    features: Feature,
    device: _Device,
    shared_kib: int = 64,
    banks: int = 32,
    phases: tuple[SharedPhases, ...] = lds_phases.CDNA3,
) -> Machine:
    """The record of a GPU of CDNA.

    Source: AMD Instinct MI200, MI300 and CDNA 4 Instruction Set Architecture reference guides, "Data Share" and the
    list of instructions of each; LLVM, "User Guide for AMDGPU Backend", "Processors". That LDS of more than 64 KiB is
    refused, and of more than 160 KiB on gfx950, is what clang 22 says.
    """
    return _machine(name, features, device, CDNA_WAVE, CDNA_REGISTERS, shared_kib, banks, phases)


def _rdna(name: str, features: Feature, device: _Device) -> Machine:
    """The record of a GPU of RDNA, whose waves have 32 lanes as code is compiled here.

    Source: RDNA 3, 3.5 and 4 Instruction Set Architecture reference guides, "Local Data Share" and the list of
    instructions of each; as for `_cdna`.
    """
    return _machine(name, features, device, RDNA_WAVE, RDNA_REGISTERS, 64, 32)


def _machine(
    name: str,
    features: Feature,
    device: _Device,
    wave: int,
    file: RegisterFile,
    shared_kib: int,
    banks: int,
    phases: tuple[SharedPhases, ...] = (),
) -> Machine:
    wide = Feature.DIRECT_TO_LDS_WIDE in features
    machine = Machine(
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
    return dataclasses.replace(machine, data_sheet=_data_sheet(device, machine, file))


def _data_sheet(device: _Device, machine: Machine, file: RegisterFile) -> DataSheet:
    lanes = SIMDS * (16 if machine.warp_size == CDNA_WAVE else 32)  # of vector units
    known = dataclasses.replace(
        machine,
        shared_per_multiprocessor=device.shared_kib * 1024,
        threads_per_multiprocessor=SIMDS * file.max_waves * machine.warp_size,
        blocks_per_multiprocessor=_GROUPS_OF_CDNA if machine.warp_size == CDNA_WAVE else _GROUPS_OF_RDNA,
        groups=(device.multiprocessors,),
        memory_bandwidth=device.memory,
    )
    rates = sheet_rates(
        clock=device.clock,
        matrix=device.matrix,
        multiprocessors=device.multiprocessors,
        lanes=lanes,
        special=lanes // 4,
        cache_bytes=device.cache_mib << 20,
        functions=_FUNCTIONS,
        most_registers=file.most,
    )
    return DataSheet(device.name, known, rates)


MACHINES: dict[str, Machine] = {
    row.name: row
    for row in (
        _cdna("gfx90a", _CDNA2, _MI250X),
        _cdna("gfx942", _CDNA3, _MI300X),
        _cdna("gfx950", _CDNA4, _MI355X, 160, 64, lds_phases.CDNA4),
        _rdna("gfx1100", _RDNA3, _RX_7900_XTX),
        _rdna("gfx1151", _RDNA3, _RADEON_8060S),
        _rdna("gfx1200", _RDNA4, _RX_9060_XT),
        _rdna("gfx1201", _RDNA4, _RX_9070_XT),
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
