"""What the operators and functions of AMD's pseudo-code compute."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from amd_values import Bits


def common(a: Bits, b: Bits) -> tuple[Any, Any]:
    """Two values as numbers that can be compared."""
    if a.kind == b.kind or a.kind in ("f", "bf") or b.kind in ("f", "bf"):
        return a.data, b.data
    width = max(a.width, b.width)
    return Bits.of(a.data, "u", width).data, Bits.of(b.data, "u", width).data


def chosen(mask: Any, a: Bits, b: Bits) -> Bits:
    """The first value where the mask says so, else the second."""
    if a.kind == b.kind and a.width == b.width:
        return Bits(np.where(mask, a.data, b.data), a.kind, a.width)
    if "f" in (a.kind, b.kind):
        width = max(v.width for v in (a, b) if v.kind == "f")
        return Bits(np.where(mask, a.cast("f", width).data, b.cast("f", width).data), "f", width)
    width = max(a.width, b.width)
    return Bits.of(np.where(mask, a.cast("u", width).raw(), b.cast("u", width).raw()), "u", width)


def shifted(sign: str, a: Bits, b: Bits) -> Bits:
    """A value shifted to the left ("<<") or right."""
    if a.width > 64:
        count = b.data.astype(object)
        return Bits.of(a.data << count if sign == "<<" else a.data >> count, "u", a.width)
    count = b.raw().astype(np.uint64)
    beyond, count = count >= np.uint64(64), np.minimum(count, np.uint64(63))
    if sign == "<<":
        return Bits.of(np.where(beyond, np.uint64(0), a.raw() << count), a.kind, a.width)
    if a.kind == "i":
        return Bits.of(a.data >> count.astype(np.int64), "i", a.width)
    return Bits.of(np.where(beyond, np.uint64(0), a.raw() >> count), a.kind, a.width)


def to_bfloat16(value: Bits) -> Bits:
    """Rounds to nearest, ties to even."""
    if value.kind == "bf":
        return value
    word = value.cast("f", 32).data.view(np.uint32).astype(np.uint64)
    up = word + np.uint64(0x7FFF) + (word >> np.uint64(16) & np.uint64(1))
    quiet = word | np.uint64(0x400000)
    kept = np.where(np.isnan(value.data), quiet, up) & np.uint64(0xFFFF0000)
    return Bits(kept.astype(np.uint32).view(np.float32), "bf", 16)


def _fma(a: Bits, b: Bits, c: Bits) -> Bits:
    wide = np.longdouble if a.width == 64 else np.float64
    result = a.data.astype(wide) * b.data.astype(wide) + c.data.astype(wide)
    return Bits(result.astype(a.data.dtype), "f", a.width)


def _to_int(bits: int, signed: bool) -> Callable[[Bits], Bits]:
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)

    def convert(x: Bits) -> Bits:
        number = np.where(np.isnan(x.data), 0, np.trunc(x.data.astype(np.float64)))
        return Bits.of(np.clip(number, low, high).astype(np.int64), "i" if signed else "u", bits)

    return convert


def _exponent(x: Bits) -> Bits:
    low, width = {16: (10, 5), 32: (23, 8), 64: (52, 11)}[x.width]
    field = x.raw() >> np.uint64(low) & np.uint64((1 << width) - 1)
    return Bits.of(field, "i", 32)


def _from_bit(x: Bits, width: Bits) -> Bits:
    """The lowest so many bits as a signed number; 0 for none."""
    unused = np.int64(64) - width.data.astype(np.int64)
    wide = x.raw().view(np.int64)
    return Bits.of(np.where(unused == 64, 0, (wide << np.minimum(unused, 63)) >> np.minimum(unused, 63)), "i", x.width)


def _float(function: Callable[..., Any]) -> Callable[..., Bits]:
    return lambda *x: Bits(function(*(v.data for v in x)).astype(x[0].data.dtype), "f", x[0].width)


def _question(function: Callable[[Any], Any]) -> Callable[[Bits], Bits]:
    return lambda x: Bits.of(function(x.data), "u", 1)


COMPARE: Mapping[str, Callable[[Any, Any], Any]] = {
    "==": np.equal, "!=": np.not_equal, "<": np.less, ">": np.greater, "<=": np.less_equal, ">=": np.greater_equal,
}  # fmt: skip
ARITHMETIC: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "/": lambda a, b: a / b,
    "%": lambda a, b: a % b, "&": lambda a, b: a & b, "|": lambda a, b: a | b, "^": lambda a, b: a ^ b,
}  # fmt: skip
FUNCTIONS: Mapping[str, Callable[..., Bits]] = {
    "fma": _fma,
    "pow": _float(np.power),
    "log2": _float(np.log2),
    "sqrt": _float(np.sqrt),
    "sin": _float(np.sin),
    "cos": _float(np.cos),
    "floor": _float(np.floor),
    "trunc": _float(np.trunc),
    "fract": _float(lambda x: x - np.floor(x)),
    "ldexp": lambda x, n: Bits(np.ldexp(x.data, n.data.astype(np.int64)).astype(x.data.dtype), "f", x.width),
    "abs": lambda x: Bits(np.abs(x.data), x.kind, x.width),
    "v_maximum_f32": _float(np.maximum),  # which CDNA has of three operands only
    "v_minimum_f32": _float(np.minimum),
    "isEven": _question(lambda x: x % 2 == 0),
    "isNAN": _question(np.isnan),
    "isQuietNAN": _question(np.isnan),
    "isSignalNAN": _question(lambda x: np.zeros(len(x), bool)),  # which nothing here makes
    "cvtToQuietNAN": lambda x: x,
    "sign": lambda x: Bits.of(x.raw() >> np.uint64(x.width - 1), "u", 1),
    "exponent": _exponent,
    "signext": lambda x: Bits.of(x.cast("i", x.width).data.astype(np.int64), "i", 64),
    "signext_from_bit": _from_bit,
    "f32_to_f16": lambda x: x.cast("f", 16),
    "f16_to_f32": lambda x: x.cast("f", 32),
    "f32_to_f64": lambda x: x.cast("f", 64),
    "f64_to_f32": lambda x: x.cast("f", 32),
    "f32_to_bf16": to_bfloat16,
    "i32_to_f32": lambda x: x.cast("f", 32),
    "u32_to_f32": lambda x: x.cast("f", 32),
    "i32_to_f64": lambda x: x.cast("f", 64),
    "u32_to_f64": lambda x: x.cast("f", 64),
    "f32_to_i32": _to_int(32, True),
    "f32_to_u32": _to_int(32, False),
    "f64_to_i32": _to_int(32, True),
    "f64_to_u32": _to_int(32, False),
}
