"""The CUDA text of instructions that GPUs of every vendor have, those of `targets.gpu.isa`.

Gives `TEXTS`: templates, by the first element of an instruction's `dialect_key`. Invariant: a template and the meaning
of its record agree.

Source: CUDA C++ Programming Guide, "Synchronization Functions", "Memory Fence Functions", "Warp Shuffle Functions",
"Warp Vote Functions", "Warp Match Functions", "Warp Reduce Functions"; PTX ISA, "Parallel Synchronization and
Communication Instructions: elect.sync"; CUDA Toolkit, cooperative_groups/details/driver_abi.h, for the grid.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from tilelang.dtypes import DType
from tilelang.isa.intrinsic import Helper, Template
from tilelang.targets.nvidia.isa.types import INTEGERS, cuda_type

_SYNC_GRID = Helper(
    "tl_sync_grid",
    """\
// All threads of all blocks meet. The driver gives every cooperative launch a word of its own for that: its upper bit
// turns over when all blocks have arrived, and the bits below count them and are zero again then.
__device__ __forceinline__ void tl_sync_grid() {
    __syncthreads();
    if (threadIdx.x + threadIdx.y + threadIdx.z == 0) {
        unsigned low, high, before, now;
        asm("mov.u32 %0, %%envreg2; mov.u32 %1, %%envreg1;" : "=r"(low), "=r"(high));
        const unsigned long long word = ((unsigned long long)high << 32 | low) + 4;
        const unsigned others = gridDim.x * gridDim.y * gridDim.z - 1;
        const bool first = blockIdx.x + blockIdx.y + blockIdx.z == 0;
        __threadfence();
        asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], %2;"
                     : "=r"(before)
                     : "l"(word), "r"(first ? 0x80000000u - others : 1u)
                     : "memory");
        do {
            asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(word) : "memory");
        } while (((before ^ now) & 0x80000000u) == 0);
        __threadfence();
    }
    __syncthreads();
}
""",
)

_MATCH_ALL = Helper(
    "tl_match_all",
    """\
// The mask if the value is the same in all its lanes, otherwise 0.
template <typename T> __device__ __forceinline__ uint32_t tl_match_all(uint32_t mask, T value) {
    int same;
    return __match_all_sync(mask, value, &same);
}
""",
    needs=(INTEGERS,),
)

_ELECT = Helper(
    "tl_elect",
    """\
// Whether this lane is elected among those of the mask.
__device__ __forceinline__ bool tl_elect(uint32_t mask) {
#if __CUDA_ARCH__ >= 900
    uint32_t elected;
    asm volatile("{ .reg .pred p; elect.sync _|p, %1; selp.u32 %0, 1, 0, p; }" : "=r"(elected) : "r"(mask) : "memory");
    return elected != 0;
#else
    uint32_t lane;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    return lane == __ffs(mask) - 1;
#endif
}
""",
    needs=(INTEGERS,),
)

_REDUX_FLOAT = {
    op: Helper(
        f"tl_redux_{op}",
        f"""\
// The {size} of a float over the lanes of the mask; NaN if any is NaN. The bits of floats that are not negative are in
// the order of integers; those of negative ones are once their other bits are inverted. max.NaN gives the positive NaN.
__device__ __forceinline__ float tl_redux_{op}(uint32_t mask, float value) {{
    float number;
    asm("max.NaN.f32 %0, %1, %1;" : "=f"(number) : "f"({sign}value));
    int32_t bits = __float_as_int(number);
    bits ^= bits >> 31 & 0x7fffffff;
    bits = __reduce_max_sync(mask, bits);
    bits ^= bits >> 31 & 0x7fffffff;
    return {sign}__int_as_float(bits);
}}
""",
        needs=(INTEGERS,),
    )
    for op, size, sign in (("max", "maximum", ""), ("min", "minimum", "-"))
}

_SHUFFLES = {"idx": "__shfl_sync", "up": "__shfl_up_sync", "down": "__shfl_down_sync", "xor": "__shfl_xor_sync"}


def _shuffle(mode: str, dtype: DType) -> Template:
    kind = cuda_type(dtype)
    helper = None if kind.helper is None else INTEGERS
    return Template(f"({kind.value}){_SHUFFLES[mode]}({{0}}, {{1}}, {{2}}, {{3}})", helper)


def _redux(op: str, dtype: DType) -> Template:
    if dtype.is_float:
        return Template(f"tl_redux_{op}({{0}}, {{1}})", _REDUX_FLOAT[op])
    if op in ("and", "or", "xor") and dtype == "int32":  # the bitwise ones exist for unsigned only
        return Template(f"(int32_t)__reduce_{op}_sync({{0}}, (uint32_t)({{1}}))", INTEGERS)
    return Template(f"__reduce_{op}_sync({{0}}, {cuda_type(dtype).value}({{1}}))", INTEGERS)


def _call_extern(result: DType | None, name: str, arity: int) -> Template:
    call = f"{name}({', '.join(f'{{{number}}}' for number in range(arity))})"
    if result is None:
        return Template(call)
    kind = cuda_type(result)
    return Template(f"({kind.value})({call})", kind.helper)


TEXTS: Mapping[str, Template | Callable[..., Template]] = MappingProxyType(
    {
        "sync_threads": Template("__syncthreads()"),
        "sync_threads_count": Template("__syncthreads_count({0})"),
        "sync_threads_and": Template("(int)(__syncthreads_and({0}) != 0)"),
        "sync_threads_or": Template("(int)(__syncthreads_or({0}) != 0)"),
        "sync_grid": Template("tl_sync_grid()", _SYNC_GRID),
        "sync_warp": Template("__syncwarp({0})"),
        "fence_block": Template("__threadfence_block()"),
        "fence_device": Template("__threadfence()"),
        "fence_system": Template("__threadfence_system()"),
        "shuffle": _shuffle,
        "ballot": Template("__ballot_sync({0}, {1})"),
        "any": Template("(__any_sync({0}, {1}) != 0)"),
        "all": Template("(__all_sync({0}, {1}) != 0)"),
        "match_any": Template("__match_any_sync({0}, {1})"),
        "match_all": Template("tl_match_all({0}, {1})", _MATCH_ALL),
        "active_mask": Template("__activemask()"),
        "elect": Template("tl_elect({0})", _ELECT),
        "redux": _redux,
        "call_extern": _call_extern,
    }
)
