"""What saves registers: a second compilation of kernels that spill, and offsets that are computed in each iteration.

Gives the flags of that compilation, and the macros and the function by which texts save registers: with its macro, or
where arrays alone leave few. LLVM hoists all addresses of a loop out of it and keeps them in registers; and it sinks
matrix instructions below branches, to the uses of their sums, which extends the live ranges of their operands.
"""

from __future__ import annotations

from tilelang.isa.intrinsic import Helper
from tilelang.targets.amd.machines import ARRAY_REGISTERS, CDNA_REGISTERS, CDNA_WAVE, RDNA_WAVE, RESERVED_REGISTERS
from tilelang.targets.gpu.isa.save_registers import DEFINE, SAVE_REGISTERS

_OF_FOUR_WAVES = CDNA_REGISTERS.registers // 4  # the most of a wave of which a SIMD unit of CDNA holds four
_ADDRESSES = 16  # registers for offsets that are computed in each iteration, at least
FLAGS = (DEFINE, "-mllvm", "-disable-machine-sink")
REMATERIALIZE = Helper(
    "TL_REMATERIALIZE",
    f"""\
// Where registers are scarce, what follows from a value is computed in each iteration of a loop, not kept for all.
#ifdef {SAVE_REGISTERS}
#define TL_REMATERIALIZE(value) asm volatile("" : "+v"(value))
#else
#define TL_REMATERIALIZE(value)
#endif
""",
)
ITERATIONS = Helper(
    "TL_ITERATIONS",
    f"""\
// Iterations that become one, where registers are not scarce.
#ifdef {SAVE_REGISTERS}
#define TL_ITERATIONS(count) 1
#else
#define TL_ITERATIONS(count) count
#endif
""",
)
FORGET = Helper(
    "tl_forget",
    """\
// What follows from a value is computed behind a loop, not kept in registers while it runs.
__device__ __forceinline__ void tl_forget(int& value) { asm volatile("" : "+v"(value)); }
""",
)
RECOMPUTE = Helper(
    "tl_recompute",
    f"""\
// Where arrays of so many registers leave few for others, of all or, on CDNA, of those with which four waves run on a
// SIMD unit, offsets in a tile are computed from one in each iteration.
template <int REGISTERS> __device__ __forceinline__ void tl_recompute(int& offset) {{
#if defined({SAVE_REGISTERS})
    const bool scarce = true;
#elif defined(__GFX9__)
    const bool scarce = REGISTERS >= {ARRAY_REGISTERS - RESERVED_REGISTERS[CDNA_WAVE]} ||
                        (REGISTERS >= {_OF_FOUR_WAVES - _ADDRESSES} && REGISTERS <= {_OF_FOUR_WAVES});
#else
    const bool scarce = REGISTERS >= {ARRAY_REGISTERS - RESERVED_REGISTERS[RDNA_WAVE]};
#endif
    if (scarce) asm volatile("" : "+v"(offset));
}}
""",
)
