"""How a kernel that spills is compiled for fewer registers.

Gives the flags of the second compilation, and the text that heeds them. LLVM computes all addresses of a loop before it
and keeps them in registers; and it sinks matrix instructions behind branches, to where their sums are used, which keeps
their operands alive until then.
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
