"""Arithmetic on pairs of float16 in a 32-bit word, and pairs of unsigned bit fields as float16.

Gives intrinsics, which passes use, and their texts. Operands and results are uint32, with the first float16 in the
lower half. Invariant: each half is what the language gives for the two float16, rounded once.

A field of a byte stands in the fraction of the power of two whose float16 has a one at the field's lowest bit: bit 4
makes it `64 + field`. An addition, which is exact, gives the field, with any integer added that keeps it exact. The
constants of an addition fit into the instruction; for a multiplication and addition ptxas moves some to a register
each time.
Source: PTX ISA, "Half Precision Floating Point Instructions"; "Data Movement and Conversion Instructions: prmt".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from tilelang.dtypes import SCALARS, DType
from tilelang.ir.expr import Call, Cast, Expr, Load, cast, const
from tilelang.ir.scalar import BinaryOp
from tilelang.isa.intrinsic import Helper, Intrinsic, Template
from tilelang.targets.nvidia.isa.types import INTEGERS

UINT32 = SCALARS["uint32"]
FIELD_BITS = 8
"""Bits of a word that a field must not cross: those that a byte permutation moves."""
MAX_EXACT = 2048
"""Integers of at most this size are exact in float16."""

_IN_PLACE, _SAME_WORD = (0, 2), 0x3210
"""The bytes of fields that no permutation has to move, and the selector of one that moves nothing."""
_WHOLE = 1024
"""The power of two whose float16 has a fraction in ones."""


def pair_bits(low: float, high: float) -> int:
    """Two float16 in a word."""
    first, second = (int(np.float16(value).view(np.uint16)) for value in (low, high))
    return first | second << 16


def _word(dtypes: tuple[DType, ...]) -> DType:
    return UINT32


def _halves(words: Any) -> tuple[np.ndarray, np.ndarray]:
    array = np.asarray(words, np.uint32)
    low, high = (array & 0xFFFF).astype(np.uint16), (array >> 16).astype(np.uint16)
    return low.view(np.float16), high.view(np.float16)


def _joined(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    first, second = (np.asarray(half, np.float16).view(np.uint16).astype(np.uint32) for half in (low, high))
    return np.asarray(first | second << np.uint32(16), np.uint32)


def _by_half(function: Callable[..., Any]) -> Callable[..., np.ndarray]:
    def meaning(*words: Any) -> np.ndarray:
        with np.errstate(all="ignore"):
            return _joined(*(function(*operands) for operands in zip(*map(_halves, words), strict=True)))

    return meaning


def _fields(word: Any, selector: Any, mask: Any, wholes: Any, offset: Any) -> np.ndarray:
    words, places = np.asarray(word, np.uint32), np.asarray(selector, np.uint32)
    low, high = (words >> (places >> np.uint32(place) & 3) * np.uint32(8) & 0xFF for place in (0, 8))
    bits = (low | high << np.uint32(16)) & np.asarray(mask, np.uint32) | np.asarray(wholes, np.uint32)
    return _joined(*(x + y for x, y in zip(_halves(bits), _halves(offset), strict=True)))


def _arithmetic(name: str) -> Template:
    text = f"""\
// Two float16 at once.
__device__ __forceinline__ uint32_t tl_{name}_f16x2(uint32_t a, uint32_t b) {{
    uint32_t c;
    asm("{name}.rn.f16x2 %0, %1, %2;" : "=r"(c) : "r"(a), "r"(b));
    return c;
}}
"""
    return Template(f"tl_{name}_f16x2({{0}}, {{1}})", Helper(f"tl_{name}_f16x2", text, needs=(INTEGERS,)))


_FIELDS_TEXT = Helper(
    "tl_half2_of_fields",
    """\
// Two bit fields of a word as float16: their bytes go to the fractions of powers of two, which are subtracted again.
__device__ __forceinline__ uint32_t tl_half2_of_fields(
    uint32_t word, uint32_t selector, uint32_t mask, uint32_t wholes, uint32_t offset) {
    uint32_t pair = selector == 0x3210u ? word : __byte_perm(word, 0, selector);  // ptxas does not leave it out
    asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(pair) : "r"(pair), "r"(mask), "r"(wholes));  // pair & mask | wholes
    asm("add.rn.f16x2 %0, %0, %1;" : "+r"(pair) : "r"(offset));
    return pair;
}
""",
    needs=(INTEGERS,),
)

_FIELDS = Intrinsic("half2_of_fields", 5, _word, _fields, _word, "PTX ISA, prmt, add.f16x2")
PAIRED: Mapping[BinaryOp, Intrinsic] = MappingProxyType(
    {
        BinaryOp.ADD: Intrinsic("add_f16x2", 2, _word, _by_half(lambda a, b: a + b), _word, "PTX ISA, add.f16x2"),
        BinaryOp.SUB: Intrinsic("sub_f16x2", 2, _word, _by_half(lambda a, b: a - b), _word, "PTX ISA, sub.f16x2"),
        BinaryOp.MUL: Intrinsic("mul_f16x2", 2, _word, _by_half(lambda a, b: a * b), _word, "PTX ISA, mul.f16x2"),
    }
)
"""Arithmetic on pairs, by the operator on float16."""

HALF2: Mapping[str, Mapping[str, Template]] = {
    "half2_of_fields": {"uint32": Template("tl_half2_of_fields({0}, {1}, {2}, {3}, {4})", _FIELDS_TEXT)},
    **{f"{name}_f16x2": {"uint32": _arithmetic(name)} for name in ("add", "sub", "mul")},
}


def half2_of_fields(word: Expr, shifts: tuple[int, int], bits: int, plus: int) -> Expr:
    """The fields of `bits` bits at `shifts` as float16, plus an integer.

    Each field must lie within a byte, and sums within `MAX_EXACT`.
    """
    inside = [shift % FIELD_BITS for shift in shifts]
    first, second = (shift // FIELD_BITS for shift in shifts)
    selector = first | 4 << 4 | second << 8 | 4 << 12  # 4 is a byte of zeros
    if (first, second) == _IN_PLACE:
        selector = _SAME_WORD  # the mask leaves out the other bytes
    masks = [((1 << bits) - 1) << shift for shift in inside]
    wholes = [_WHOLE >> shift for shift in inside]
    offset = pair_bits(*(plus - whole for whole in wholes))
    numbers = (selector, masks[0] | masks[1] << 16, pair_bits(*wholes), offset)
    return Call(_FIELDS, (word, *(const(number, UINT32) for number in numbers)), UINT32)


def byte_of_fields(expr: Expr) -> Load | None:
    """The byte in memory of which an expression takes two fields; None for any other expression."""
    if not isinstance(expr, Call) or expr.callee is not _FIELDS:
        return None
    word = expr.args[0]
    byte = word.a if isinstance(word, Cast) else word
    return byte if isinstance(byte, Load) and byte.dtype == SCALARS["uint8"] else None


def fields_of_word(fields: Expr, word: Expr, byte: Expr) -> Expr:
    """The fields of a byte, given a word that holds it and the number of the byte in there."""
    assert isinstance(fields, Call)
    assert fields.callee is _FIELDS
    _, selector, *numbers = fields.args
    return Call(_FIELDS, (word, selector + cast(byte, UINT32) * const(0x0101, UINT32), *numbers), UINT32)
