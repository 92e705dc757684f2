"""NVIDIA's GPUs: what they can do, and their figures.

Takes nothing; gives `Feature` and `MACHINES`, and which code runs on which of them.
"""

from __future__ import annotations

import dataclasses
import enum

from tilelang.records import record
from tilelang.targets.gpu.sheet_rates import sheet_rates
from tilelang.targets.machine import CommonFeature, DataSheet, GemmRates, Machine, MeasuredRates


class Feature(enum.Flag):
    """Capabilities of a GPU beyond the instructions that all of them have."""

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
_SUB_PARTITIONS = 4  # of a multiprocessor, each with a quarter of the registers. Source: cuda_occupancy.h of CUDA 13.0
MAX_REGISTERS = 255  # per thread
WARP_SIZE = 32
_RESERVED_SHARED = 1024  # bytes per block, from sm_80 on. Source: CUDA C++ Programming Guide, "Shared Memory"

RESULTS_PER_CYCLE = 128  # of ordinary instructions, per multiprocessor of compute capability 9.0
WGMMA_FLOP_PER_CYCLE, MMA_FLOP_PER_CYCLE = 4096, 2048  # of 16-bit operands, per multiprocessor of an H100 or H200
WGMMA_LATENCY = 60  # cycles by which a group of wgmma outlasts its work; measured on an H200
# Cycles by which warpgroups that wait for it begin their next one later, beside that. On an H200 two that share a gemm
# took 1.18 times as long at 128x128x32 as with another one in flight, and 1.01 to 1.02 times at 128x96x64: 180 to 200
# cycles from gemm to gemm; at 128x128x64, whose halves take 256, they were as fast or up to 4 % faster. One that had no
# other beside it waited for 135 to 165.
WGMMA_RESTART = 135
# The share of lanes that a warpgroup reaches where no other hides its latencies: an epilogue of 128x128 that stores at
# once took it 500 cycles on an H200, twice those of its instructions on all lanes; one in parts up to four times
WARPGROUP_LANES = 1 / 3

# Ordinary instructions and special functions of one call, as the compiler writes it: counted in SASS of CUDA 13.
_FUNCTIONS = {
    "exp": (8, 1), "exp2": (4, 1), "exp10": (10, 1), "log": (20, 0), "log2": (18, 0), "log10": (20, 0),
    "log1p": (30, 0), "sqrt": (10, 1), "rsqrt": (4, 1), "pow": (60, 2), "tanh": (16, 2), "sigmoid": (18, 2),
    "erf": (24, 1), "sin": (24, 0), "cos": (24, 0), "tan": (40, 1), "divide": (9, 1), "abs": (0, 0), "fma": (1, 0),
    "__exp": (1, 1), "__exp2": (0, 1), "__exp10": (1, 1), "__log": (1, 1), "__log2": (0, 1), "__log10": (1, 1),
    "__sin": (1, 1), "__cos": (1, 1), "__tan": (3, 3), "__pow": (1, 2), "__fdividef": (1, 1), "__tanh": (0, 1),
    "__sigmoid": (4, 2), "__sqrt": (1, 1), "__rsqrt": (0, 1), "__divide": (1, 1),
}  # fmt: skip
# Fitted to 744 gemms of 45 shapes on an H200, from 256^3 to 3072^3, with 1 to 512 rows, and with K up to 32768
# (benchmarks/results/gemm-tiles-nvidia-h200.json). Fitted to half of the shapes only, it is as close to the others.
_H200_GEMM = GemmRates(
    min_rows=64,
    step_norm=3.6,
    total_norm=2.5,
    step_overhead=20,
    power_seconds=(30e-6, 300e-6),
    start_latencies=1.5,
    cache_share=1.18,
    exposed_latency=0.45,
    reread_slowdown=0.31,
    cached_bytes=8 << 20,
    multicast_step=1.12,
    multicast_start=100,
    cluster_step=1.1,
    cluster_exchange=950,
    cluster_exchange_per_block=385,
    cluster_bytes_per_cycle=22.5,
    second_launch=4000,
    second_launch_per_split=40,
)
# Figures of data sheets: NVIDIA H200 Tensor Core GPU (clock rate, cache, bandwidth); CUDA C++ Programming Guide,
# "Arithmetic Instructions" (results per cycle); NVIDIA H100 Tensor Core GPU Architecture (4096 FLOP per cycle of matrix
# units). Shares, latencies and the time of a launch: `benchmarks/model.py` on an H200. From `unit_norm` on: chosen by
# the kernels of that file, none of which was held out.
_H200_RATES = MeasuredRates(
    clock=1.98e9,
    matrix=WGMMA_FLOP_PER_CYCLE,
    matrix_by_group=0.94,
    matrix_by_warp=0.47,
    matrix_sustained=0.75,
    lanes=RESULTS_PER_CYCLE,
    lanes_by_group=WARPGROUP_LANES,
    special=16,
    conversions=64,
    shared_bytes=128,
    loaded_bytes=90,
    stored_bytes=32,
    cache_rate=6200,
    cache_bytes=50 << 20,
    memory_share=0.915,
    store_weight=1.08,
    memory_latency=950,
    shared_latency=30,
    arithmetic_latency=4.5,
    matrix_latency=WGMMA_LATENCY,
    matrix_restart=WGMMA_RESTART,
    barrier=30,
    launch=3.1e-6,
    block=700,
    least_registers=32,
    most_registers=MAX_REGISTERS,
    schedulers=_SUB_PARTITIONS,
    warps_per_group=4,
    shuffle_latency=25,
    box_copy_issue=30,
    first_box_copy=1.5,
    unit_norm=6.0,
    launch_norm=12.0,
    queueing=0.9,
    dirty_share=0.55,
    written_back=0.4,
    functions=_FUNCTIONS,
    gemm=_H200_GEMM,
)


@record
class _Device:
    """A GPU by its data sheet.

    Attributes:
        name: Its name.
        multiprocessors: How many it has.
        clock: Cycles per second at the boost clock.
        matrix: Floating-point operations of 16-bit operands per cycle and multiprocessor, summed in float32: the rate
            of the data sheet over the clock rate and the multiprocessors.
        lanes: Results of ordinary instructions per cycle and multiprocessor.
        cache_mib: Size of the L2 cache.
        by_warp: The share of `matrix` that mma.sync reaches.
        shared_bytes: Of shared memory per cycle and multiprocessor.
    """

    name: str
    multiprocessors: int
    clock: float
    matrix: int
    lanes: int
    cache_mib: int
    by_warp: float = 0.9
    shared_bytes: int = 128


def _machine(
    name: str,
    features: Feature,
    shared_kib: tuple[int, int],
    threads: int,
    blocks: int,
    sheet: tuple[float, float] = (0, 0),
    groups: tuple[int, ...] = (),
    rates: MeasuredRates | None = None,
    device: _Device | None = None,
) -> Machine:
    """The record of a GPU.

    Source: CUDA C++ Programming Guide, "Compute Capabilities", technical specifications per compute capability, and
    "Thread Block Clusters"; banks from "Shared Memory" (compute capability 5.x and later); the features from the PTX
    ISA, "Target ISA Notes" of each instruction; 132 multiprocessors from NVIDIA H100 Tensor Core GPU Architecture,
    table "Comparison of NVIDIA A100 and H100 Data Center GPUs", H100 SXM5, as which H200 is built. It has 8 groups of
    at most 18; that they divide so follows from the 66 clusters of 2 and 30 of 4 blocks that an H200 holds, measured by
    cuOccupancyMaxActiveClusters, since multiprocessors come in pairs.

    Args:
        name: Of the architecture.
        features: What it can do.
        shared_kib: Shared memory of a block at most, and of a multiprocessor.
        threads: Of a multiprocessor.
        blocks: Of a multiprocessor.
        sheet: TFLOP/s of float16 products without sparsity and GB/s of device memory, by NVIDIA's data sheets of T4,
            A100 40GB, RTX A6000, Jetson AGX Orin, L40S, H200 SXM, B200 (HGX) and GeForce RTX 5090.
        groups: See `Machine`.
        rates: See `Machine`.
        device: By whose data sheet times are predicted where there are no rates.
    """
    machine = Machine(
        name,
        features,
        (CommonFeature.REDUCE_LANES if Feature.MMA_AMPERE in features else CommonFeature.NONE)  # redux.sync
        | (CommonFeature.ASYNC_GEMMS if Feature.WGMMA in features else CommonFeature.NONE)
        | CommonFeature.VOTES_AT_BARRIERS,  # bar.red
        warp_size=WARP_SIZE,
        max_threads=MAX_THREADS,
        max_grid=MAX_GRID,
        registers_per_multiprocessor=REGISTERS_PER_SM,
        register_files=_SUB_PARTITIONS,
        array_registers=MAX_REGISTERS,
        shared_bytes=shared_kib[0] * 1024,
        shared_per_multiprocessor=shared_kib[1] * 1024,
        reserved_shared=_RESERVED_SHARED if Feature.CP_ASYNC in features else 0,
        threads_per_multiprocessor=threads,
        blocks_per_multiprocessor=blocks,
        shared_banks=32,
        bank_bytes=4,
        max_cluster=MAX_CLUSTER if Feature.CLUSTER in features else 1,
        groups=groups,
        matrix_flops=sheet[0] * 1e12,
        memory_bandwidth=sheet[1] * 1e9,
        rates=rates,
    )
    return machine if device is None else dataclasses.replace(machine, data_sheet=_data_sheet(device, machine))


def _data_sheet(device: _Device, machine: Machine) -> DataSheet:
    rates = sheet_rates(
        clock=device.clock,
        matrix=device.matrix,
        multiprocessors=device.multiprocessors,
        lanes=device.lanes,
        special=16,
        cache_bytes=device.cache_mib << 20,
        functions=_FUNCTIONS,
        most_registers=MAX_REGISTERS,
        matrix_by_warp=device.by_warp,
        shared_bytes=device.shared_bytes,
    )
    return DataSheet(device.name, dataclasses.replace(machine, groups=(device.multiprocessors,)), rates)


_T4, _A100, _A6000, _L40S, _ORIN = (65, 320), (312, 1555), (155, 768), (362, 864), (42.5, 205)
_H200_SHEET, _B200, _RTX_5090 = (989, 4800), (2250, 8000), (210, 1792)
# Source: NVIDIA's whitepapers on the architectures Turing (T4), A100, GA102 (A6000), Ada, Blackwell (B200) and RTX
# Blackwell, the data sheet of Jetson AGX Orin, and CUDA C++ Programming Guide, "Arithmetic Instructions". That mma.sync
# does on a B200 what it does on an H200 is assumed: matrix units reach their rate by tcgen05 only.
_DEVICE_T4 = _Device("T4", 40, 1.59e9, 1024, 64, 4, shared_bytes=64)
_DEVICE_A100 = _Device("A100", 108, 1.41e9, 2048, 64, 40)
_DEVICE_A6000 = _Device("RTX A6000", 84, 1.80e9, 1024, 128, 6)
_DEVICE_ORIN = _Device("Jetson AGX Orin", 16, 1.3e9, 2048, 128, 4)
_DEVICE_L40S = _Device("L40S", 142, 2.52e9, 1024, 128, 96)
_DEVICE_B200 = _Device("B200", 148, 1.85e9, 8192, 128, 126, by_warp=0.9 * MMA_FLOP_PER_CYCLE / 8192)
_DEVICE_RTX_5090 = _Device("GeForce RTX 5090", 170, 2.41e9, 512, 128, 96)
_DATACENTER, _GRAPHICS = (2048, 32), (1536, 24)

MACHINES: dict[str, Machine] = {
    row.name: row
    for row in (
        _machine("sm_75", _TURING, (64, 64), 1024, 16, _T4, device=_DEVICE_T4),
        _machine("sm_80", _AMPERE, (163, 164), *_DATACENTER, _A100, device=_DEVICE_A100),
        _machine("sm_86", _AMPERE, (99, 100), 1536, 16, _A6000, device=_DEVICE_A6000),
        _machine("sm_87", _AMPERE, (163, 164), 1536, 16, _ORIN, device=_DEVICE_ORIN),
        _machine("sm_89", _ADA, (99, 100), *_GRAPHICS, _L40S, device=_DEVICE_L40S),
        _machine("sm_90", _HOPPER, (227, 228), *_DATACENTER, _H200_SHEET, _H200, _H200_RATES),
        _machine("sm_90a", _HOPPER | Feature.WGMMA, (227, 228), *_DATACENTER, _H200_SHEET, _H200, _H200_RATES),
        _machine("sm_100", _HOPPER, (227, 228), *_DATACENTER, _B200, device=_DEVICE_B200),
        _machine("sm_100a", _HOPPER, (227, 228), *_DATACENTER, _B200, device=_DEVICE_B200),
        _machine("sm_100f", _HOPPER, (227, 228), *_DATACENTER, _B200, device=_DEVICE_B200),
        _machine("sm_103a", _HOPPER, (227, 228), *_DATACENTER, _B200, device=_DEVICE_B200),
        _machine("sm_120", _HOPPER, (99, 100), *_GRAPHICS, _RTX_5090, device=_DEVICE_RTX_5090),
        _machine("sm_120a", _HOPPER, (99, 100), *_GRAPHICS, _RTX_5090, device=_DEVICE_RTX_5090),
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
