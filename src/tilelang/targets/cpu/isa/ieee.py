"""C++ texts of operations that are rounded once, in a given rounding mode.

Source: ISO C++, [cfenv]; ISO C, 7.6 "Floating-point environment".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tilelang.isa.common.ieee import OPERATIONS
from tilelang.isa.intrinsic import Helper, Template

_MODES = {"rn": "FE_TONEAREST", "rz": "FE_TOWARDZERO", "ru": "FE_UPWARD", "rd": "FE_DOWNWARD"}
# by the names of `isa.common.ieee`, of operands x, y and z
_EXPRESSIONS = {
    "add": "x + y",
    "sub": "x - y",
    "mul": "x * y",
    "fmaf": "std::fma((T)x, (T)y, (T)z)",
    "frcp": "T(1) / x",
    "fsqrt": "std::sqrt((T)x)",
    "frsqrt": "T(1.0L / std::sqrt((long double)x))",
    "fdiv": "x / y",
}

# Accesses to volatile objects stay between the calls that change the mode, and are neither fused nor moved.
_ROUNDING = Helper(
    "ieee_rounding",
    """\
namespace tl {
struct rounding {
    int before = FE_TONEAREST;
    explicit rounding(int mode) : before(std::fegetround()) { std::fesetround(mode); }
    ~rounding() { std::fesetround(before); }
};
}  // namespace tl
""",
    headers=("<cfenv>", "<cmath>"),
)


def _helper(name: str, arity: int, expression: str) -> Helper:
    letters = "abc"[:arity]
    taken = ", ".join(f"T {letter}" for letter in letters)
    held = " ".join(f"volatile T {operand} = {letter};" for operand, letter in zip("xyz", letters, strict=False))
    text = f"""\
namespace tl {{
template <int Mode, class T> __attribute__((noinline)) static T {name}({taken}) {{
    {held}
    const rounding under(Mode);
    volatile T result = {expression};
    return result;
}}
}}  // namespace tl
"""
    return Helper(name, text, needs=(_ROUNDING,))


def _texts() -> Iterator[tuple[str, Mapping[str, Template]]]:
    for operation, expression in _EXPRESSIONS.items():
        arity = OPERATIONS[operation].arity
        name, operands = f"ieee_{operation}", ", ".join(f"{{{number}}}" for number in range(arity))
        helper = _helper(name, arity, expression)
        for mode, macro in _MODES.items():
            text = Template(f"tl::{name}<{macro}>({operands})", helper)
            yield f"{name}_{mode}", {"float32": text, "float64": text}


IEEE: Mapping[str, Mapping[str, Template]] = dict(_texts())
