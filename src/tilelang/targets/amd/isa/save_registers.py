"""The second compilation of a kernel that spills, for fewer registers.

Gives its flags, and the macro that they enable. LLVM hoists all addresses of a loop out of it and keeps them in
registers; and it sinks matrix instructions below branches, to the uses of their sums, which extends the live ranges of
their operands.
"""

from __future__ import annotations

from tilelang.isa.intrinsic import Helper

_MACRO = "TL_SAVE_REGISTERS"
FLAGS = (f"-D{_MACRO}", "-mllvm", "-disable-machine-sink")
REMATERIALIZE = Helper(
    "TL_REMATERIALIZE",
    f"""\
// Where registers are scarce, what follows from a value is computed in each iteration of a loop, not kept for all.
#ifdef {_MACRO}
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
#ifdef {_MACRO}
#define TL_ITERATIONS(count) 1
#else
#define TL_ITERATIONS(count) count
#endif
""",
)
