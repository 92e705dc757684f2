"""What CDNA's integer instructions compute, scalar ones of numbers and vector ones of a number per lane.

Source: AMD Instinct MI300 and CDNA 4 Instruction Set Architecture reference guides.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

WAVE = 64
M32, M64 = (1 << 32) - 1, (1 << 64) - 1
KEPT = object()  # a condition code that an instruction leaves alone


def _signed(value: int, bits: int = 32) -> int:
    return value - (value >> bits - 1 << bits)


def compare(name: str, a: int, b: int) -> bool:
    """What a scalar comparison says of two numbers."""
    if name.startswith("S_BITCMP"):
        return (a >> (b & 31) & 1) == int(name[8])
    relation, kind = name.split("_")[2], name.rpartition("_")[2]
    if kind.startswith("I"):
        a, b = _signed(a), _signed(b)
    return {"EQ": a == b, "LG": a != b, "NE": a != b, "GT": a > b, "GE": a >= b, "LT": a < b, "LE": a <= b,
            "F": False, "T": True}[relation]  # fmt: skip


def _logical(function: Callable[..., int], bits: int) -> Callable[..., tuple[int, int]]:
    """An instruction whose condition code says that its result is not zero."""

    def run(*operands: int) -> tuple[int, int]:
        result = function(*operands) & ((1 << bits) - 1)
        return result, int(result != 0)

    return run


def _plain(function: Callable[..., int]) -> Callable[..., tuple[int, Any]]:
    return lambda *operands: (function(*operands) & M64, KEPT)


def _overflows(value: int) -> int:
    return int(not -(1 << 31) <= value < 1 << 31)


def _field(value: int, place: int, *, signed: bool, bits: int = 32) -> int:
    """The bits that a field of offset and width takes."""
    offset, width = place & (bits - 1), place >> 16 & 0x7F
    found = value >> offset & ((1 << width) - 1)
    return _signed(found, width) if signed and width else found


# the result and the condition code
SCALAR: dict[str, Callable[..., tuple[int, Any]]] = {
    "S_ADD_U32": lambda a, b: (a + b & M32, a + b >> 32),
    "S_ADDC_U32": lambda a, b, c: (a + b + c & M32, a + b + c >> 32),
    "S_SUB_U32": lambda a, b: (a - b & M32, int(b > a)),
    "S_SUBB_U32": lambda a, b, c: (a - b - c & M32, int(b + c > a)),
    "S_ADD_I32": lambda a, b: (a + b & M32, _overflows(_signed(a) + _signed(b))),
    "S_SUB_I32": lambda a, b: (a - b & M32, _overflows(_signed(a) - _signed(b))),
    "S_MIN_I32": lambda a, b: (min(a, b, key=_signed), int(_signed(a) < _signed(b))),
    "S_MAX_I32": lambda a, b: (max(a, b, key=_signed), int(_signed(a) > _signed(b))),
    "S_MIN_U32": lambda a, b: (min(a, b), int(a < b)),
    "S_MAX_U32": lambda a, b: (max(a, b), int(a > b)),
    "S_MUL_I32": _plain(lambda a, b: a * b & M32),
    "S_MUL_HI_U32": _plain(lambda a, b: a * b >> 32),
    "S_MUL_HI_I32": _plain(lambda a, b: _signed(a) * _signed(b) >> 32 & M32),
    "S_ABS_I32": _logical(lambda a: abs(_signed(a)), 32),
    "S_SEXT_I32_I8": _plain(lambda a: _signed(a & 0xFF, 8) & M32),
    "S_SEXT_I32_I16": _plain(lambda a: _signed(a & 0xFFFF, 16) & M32),
    "S_BFM_B32": _plain(lambda a, b: ((1 << (a & 31)) - 1) << (b & 31) & M32),
    "S_BFE_U32": _logical(lambda a, b: _field(a, b, signed=False), 32),
    "S_BFE_I32": _logical(lambda a, b: _field(a, b, signed=True), 32),
    "S_PACK_LL_B32_B16": _plain(lambda a, b: a & 0xFFFF | (b & 0xFFFF) << 16),
    "S_BITSET0_B32": _plain(lambda a, old: old & ~(1 << (a & 31))),
    "S_BITSET1_B32": _plain(lambda a, old: old | 1 << (a & 31)),
    "S_FF1_I32_B32": _plain(lambda a: (a & -a).bit_length() - 1 & M32),
    **{f"S_LSHL{n}_ADD_U32": (lambda n: lambda a, b: ((a << n) + b & M32, int((a << n) + b > M32)))(n) for n in range(1, 5)},
    **{
        f"S_{name}_{kind}{bits}": _logical(function, bits)
        for bits in (32, 64)
        for kind, name, function in (
            ("B", "AND", lambda a, b: a & b), ("B", "OR", lambda a, b: a | b), ("B", "XOR", lambda a, b: a ^ b),
            ("B", "ANDN2", lambda a, b: a & ~b), ("B", "ORN2", lambda a, b: a | ~b), ("B", "NOT", lambda a: ~a),
            ("B", "NAND", lambda a, b: ~(a & b)), ("B", "NOR", lambda a, b: ~(a | b)), ("B", "XNOR", lambda a, b: ~(a ^ b)),
        )
    },
    **{f"S_MOV_B{bits}": _plain(lambda a: a) for bits in (32, 64)},
    "S_LSHL_B32": _logical(lambda a, b: a << (b & 31), 32),
    "S_LSHL_B64": _logical(lambda a, b: a << (b & 63), 64),
    "S_LSHR_B32": _logical(lambda a, b: a >> (b & 31), 32),
    "S_LSHR_B64": _logical(lambda a, b: a >> (b & 63), 64),
    "S_ASHR_I32": _logical(lambda a, b: _signed(a) >> (b & 31), 32),
    "S_ASHR_I64": _logical(lambda a, b: _signed(a, 64) >> (b & 63), 64),
}  # fmt: skip


def _lane_signed(value: Any, bits: int = 32) -> Any:
    return value - (value >> bits - 1 & 1) * (1 << bits)


def _bits24(value: Any) -> Any:
    return value & 0xFFFFFF


def _product(a: Any, b: Any) -> Any:
    """The low 64 bits of a product of 32-bit numbers, as signed numbers of NumPy wrap."""
    return (a.astype(np.uint64) * b.astype(np.uint64)).astype(np.int64)


def _counted(mask: Any, base: Any, lanes: Sequence[int]) -> Any:
    """The bits of a mask below each lane, added to a base."""
    below = np.array([(1 << min(max(lane, 0), 32)) - 1 for lane in lanes], np.int64)
    return base + np.array([int(m).bit_count() for m in (mask & below)], np.int64)


def _by_table(a: Any, b: Any, c: Any, table: int) -> Any:
    """The bits that a table of truth gives for the bits of three operands, the first of which counts 4."""
    rows = (
        (a if row & 4 else ~a) & (b if row & 2 else ~b) & (c if row & 1 else ~c) for row in range(8) if table >> row & 1
    )
    return sum(rows, np.zeros(WAVE, np.int64))


VECTOR: dict[str, Callable[..., Any]] = {
    "V_MOV_B32": lambda a: a,
    "V_NOT_B32": lambda a: ~a,
    "V_BFREV_B32": lambda a: sum((a >> bit & 1) << 31 - bit for bit in range(32)),
    "V_ADD_U32": lambda a, b: a + b,
    "V_ADD_CO_U32": lambda a, b: a + b,
    "V_SUB_U32": lambda a, b: a - b,
    "V_SUBREV_U32": lambda a, b: b - a,
    "V_LSHLREV_B32": lambda a, b: b << (a & 31),
    "V_LSHRREV_B32": lambda a, b: b >> (a & 31),
    "V_ASHRREV_I32": lambda a, b: _lane_signed(b) >> (a & 31),
    "V_LSHLREV_B16": lambda a, b: b << (a & 15) & 0xFFFF,
    "V_LSHRREV_B16": lambda a, b: (b & 0xFFFF) >> (a & 15),
    "V_AND_B32": lambda a, b: a & b,
    "V_OR_B32": lambda a, b: a | b,
    "V_XOR_B32": lambda a, b: a ^ b,
    "V_XNOR_B32": lambda a, b: ~(a ^ b),
    "V_ADD_U16": lambda a, b: a + b & 0xFFFF,
    "V_MUL_LO_U16": lambda a, b: (a & 0xFFFF) * (b & 0xFFFF) & 0xFFFF,
    "V_MUL_U32_U24": lambda a, b: _bits24(a) * _bits24(b),
    "V_MUL_I32_I24": lambda a, b: _lane_signed(_bits24(a), 24) * _lane_signed(_bits24(b), 24),
    "V_MUL_LO_U32": _product,
    "V_MIN_U32": np.minimum,
    "V_MAX_U32": np.maximum,
    "V_MIN_I32": lambda a, b: np.minimum(_lane_signed(a), _lane_signed(b)),
    "V_MAX_I32": lambda a, b: np.maximum(_lane_signed(a), _lane_signed(b)),
    "V_MBCNT_LO_U32_B32": lambda a, b: _counted(a, b, range(WAVE)),
    "V_MBCNT_HI_U32_B32": lambda a, b: _counted(a, b, [lane - 32 for lane in range(WAVE)]),
    "V_CNDMASK_B32": lambda a, b, c: a,
    "V_BITOP3_B32": lambda a, b, c, table: _by_table(a, b, c, int(table[0])),
    "V_MAD_U32_U24": lambda a, b, c: _bits24(a) * _bits24(b) + c,
    "V_MAD_I32_I24": lambda a, b, c: _lane_signed(_bits24(a), 24) * _lane_signed(_bits24(b), 24) + c,
    "V_LSHL_ADD_U32": lambda a, b, c: (a << (b & 31)) + c,
    "V_ADD_LSHL_U32": lambda a, b, c: (a + b & M32) << (c & 31),
    "V_LSHL_OR_B32": lambda a, b, c: a << (b & 31) | c,
    "V_AND_OR_B32": lambda a, b, c: a & b | c,
    "V_OR3_B32": lambda a, b, c: a | b | c,
    "V_ADD3_U32": lambda a, b, c: a + b + c,
    "V_XAD_U32": lambda a, b, c: (a ^ b) + c,
    "V_BFI_B32": lambda a, b, c: a & b | ~a & c,
    "V_BFE_U32": lambda a, b, c: a >> (b & 31) & ((1 << (c & 31)) - 1),
    "V_BFE_I32": lambda a, b, c: _lane_signed(a >> (b & 31) & ((1 << (c & 31)) - 1), np.maximum(c & 31, 1)),
}
# with which operands have 64 bits
VECTOR64: dict[str, tuple[Callable[..., Any], tuple[bool, ...]]] = {
    "V_LSHL_ADD_U64": (lambda a, b, c: (a << (b & np.uint64(7))) + c, (True, False, True)),
    "V_LSHLREV_B64": (lambda a, b: b << (a & np.uint64(63)), (False, True)),
    "V_LSHRREV_B64": (lambda a, b: b >> (a & np.uint64(63)), (False, True)),
    "V_MAD_U64_U32": (lambda a, b, c: a * b + c, (False, False, True)),
    "V_MOV_B64": (lambda a: a, (True,)),
}
TERNARY = frozenset(
    "V_BITOP3_B32 V_MAD_U32_U24 V_MAD_I32_I24 V_LSHL_ADD_U32 V_ADD_LSHL_U32 V_LSHL_OR_B32 V_AND_OR_B32 V_OR3_B32 V_ADD3_U32 V_XAD_U32 "
    "V_BFI_B32 V_BFE_U32 V_BFE_I32".split()
)
