"""The columns of the table of intrinsics: one per language, each kept by the machine that speaks it.

Gives `spellings`. Invariant: an intrinsic's name finds its text in every language that has it.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilelang.isa.intrinsic import Spelling
from tilelang.targets.cpu.isa import bits as cpu_bits
from tilelang.targets.cpu.isa import math as cpu_math
from tilelang.targets.nvidia.isa import bits as nvidia_bits
from tilelang.targets.nvidia.isa import math as nvidia_math

Column = Mapping[str, Mapping[str, Spelling]]  # by name of the intrinsic, then by compute dtype

COLUMNS: Mapping[str, Column] = {
    "cpp": {**cpu_math.MATH, **cpu_bits.BITS},
    "cuda": {**nvidia_math.MATH, **nvidia_bits.BITS},
}


def spellings(name: str) -> Mapping[str, Mapping[str, Spelling]]:
    """An intrinsic's text by language, then by compute dtype."""
    return {language: column[name] for language, column in COLUMNS.items() if name in column}
