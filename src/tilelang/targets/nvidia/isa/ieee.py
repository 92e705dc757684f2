"""CUDA texts of arithmetic that is rounded once, by a rounding mode.

Source: CUDA C++ Programming Guide, "Mathematical Functions Appendix", "Intrinsic Functions": `__fadd_rn` and kin.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tilelang.isa.common.ieee import MODES, OPERATIONS
from tilelang.isa.intrinsic import Template

# by the names of `isa.common.ieee`: what the functions of float32 and float64 are called without their mode
_FUNCTIONS = {
    "add": {"float32": "__fadd", "float64": "__dadd"},
    "sub": {"float32": "__fsub", "float64": "__dsub"},
    "mul": {"float32": "__fmul", "float64": "__dmul"},
    "fmaf": {"float32": "__fmaf", "float64": "__fma"},
    "frcp": {"float32": "__frcp", "float64": "__drcp"},
    "fsqrt": {"float32": "__fsqrt", "float64": "__dsqrt"},
    "frsqrt": {"float32": "__frsqrt"},
    "fdiv": {"float32": "__fdiv", "float64": "__ddiv"},
}


def _texts() -> Iterator[tuple[str, Mapping[str, Template]]]:
    for operation, functions in _FUNCTIONS.items():
        operands = ", ".join(f"{{{number}}}" for number in range(OPERATIONS[operation].arity))
        for mode in MODES:
            texts = {dtype: Template(f"{function}_{mode}({operands})") for dtype, function in functions.items()}
            yield f"ieee_{operation}_{mode}", texts


IEEE: Mapping[str, Mapping[str, Template]] = dict(_texts())
