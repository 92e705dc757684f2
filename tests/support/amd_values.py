"""Values of all lanes of a wave, and the places that AMD's pseudo-code reads and writes.

Integers are computed modulo their width, in 64 bits or, beyond these, as Python's; a float is NumPy's.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

FLOATS = {16: np.float16, 32: np.float32, 64: np.float64}
_SIGNED = {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}
_MASKS = [np.uint64((1 << width) - 1) for width in range(65)]


class Bits:
    """A value of all lanes.

    Args:
        data: An array with an element for each lane.
        kind: "u", "i", "f", or "bf" for bfloat16, whose data are float32.
        width: In bits.
    """

    def __init__(self, data: Any, kind: str, width: int) -> None:
        self.data, self.kind, self.width = data, kind, width

    @staticmethod
    def of(data: Any, kind: str, width: int) -> "Bits":
        """An integer, taken modulo its width."""
        if width > 64:
            return Bits(np.asarray(data, object) & ((1 << width) - 1), "u", width)
        raw = np.asarray(data)
        raw = (raw % (1 << 64) if raw.dtype == object else raw).astype(np.uint64, copy=False)
        if kind == "i" and width in _SIGNED:
            return Bits(raw.astype(_SIGNED[width]).astype(np.int64), kind, width)
        raw = raw & _MASKS[width] if width < 64 else raw
        if kind == "i":
            shift = np.uint64(64 - width)
            return Bits((raw << shift).view(np.int64) >> shift.astype(np.int64), kind, width)
        return Bits(raw, kind, width)

    def raw(self) -> Any:
        """Its bits, as unsigned integers."""
        if self.kind == "f":
            return self.data.view({16: np.uint16, 32: np.uint32, 64: np.uint64}[self.width]).astype(np.uint64)
        if self.kind == "bf":
            word = self.data.view(np.uint32).astype(np.uint64)
            return word >> np.uint64(16)
        return self.data if self.kind == "u" else self.data.astype(np.uint64) & _MASKS[self.width]

    def as_type(self, kind: str, width: int) -> "Bits":
        """The bits read as another type."""
        raw = self.raw()
        if kind in ("f", "bf"):
            unsigned = raw.astype(np.uint64)
            if kind == "bf":
                return Bits((unsigned << np.uint64(16)).astype(np.uint32).view(np.float32), kind, 16)
            return Bits(unsigned.astype(f"u{width // 8}").view(FLOATS[width]), kind, width)
        return Bits.of(raw, kind, width)

    def cast(self, kind: str, width: int) -> "Bits":
        """The number converted to another type."""
        if kind == "f":
            with np.errstate(over="ignore", invalid="ignore"):
                return Bits(np.asarray(self.data).astype(FLOATS[width]), kind, width)
        if self.kind == "f":
            return Bits.of(np.trunc(self.data).astype(np.int64), kind, width)
        return Bits.of(self.data, kind, width)


class Words:
    """What an instruction reads or writes: words of 32 bits for each lane.

    Args:
        words: Their values, an array of words by lanes.
        negated: Bits that say of which halves, or of the whole, the sign is changed where it is read as a float.
        magnitude: Whether the sign is dropped then.

    Attributes:
        written: Which bits of which words were assigned in which lanes.
    """

    def __init__(self, words: Any, negated: int = 0, magnitude: bool = False) -> None:
        self.words = np.array(words, np.uint32)
        self.written = np.zeros(self.words.shape, np.uint32)
        self._negated, self._magnitude = negated, magnitude

    def get(self, low: int, width: int, kind: str) -> Bits:
        """Bits from `low` on, as a type."""
        if width == 32 and low % 32 == 0 and low < 32 * len(self.words):
            word = self.words[low // 32]
            if kind == "f" and not self._negated and not self._magnitude:
                return Bits(word.view(np.float32).copy(), kind, width)
            if kind in ("u", "i"):
                return Bits(word.astype(np.uint64) if kind == "u" else word.view(np.int32).astype(np.int64), kind, width)
        count = -(-(low % 32 + width) // 32)
        raw: Any = np.zeros(self.words.shape[1], object if width > 64 else np.uint64)
        for n in range(count):
            number = low // 32 + n
            word = self.words[number] if number < len(self.words) else np.zeros_like(self.words[0])
            wide = word.astype(object) if width > 64 else word.astype(np.uint64)
            raw = raw | (wide << 32 * n if width > 64 else wide << np.uint64(32 * n))
        raw = raw >> low % 32 if width > 64 else raw >> np.uint64(low % 32)
        value = Bits.of(raw, "u", width)
        if kind not in ("f", "bf"):
            return value.as_type(kind, width)
        if self._magnitude:
            value = Bits.of(value.data & np.uint64((1 << width - 1) - 1), "u", width)
        if self._negated >> (low != 0) & 1:
            value = Bits.of(value.data ^ np.uint64(1 << width - 1), "u", width)
        return value.as_type(kind, width)

    def set(self, low: int, width: int, value: Any, mask: Any) -> None:
        """Assigns bits where the mask says so; `value` holds them as integers."""
        if width == 32 and low % 32 == 0:
            np.copyto(self.words[low // 32], np.asarray(value).astype(np.uint64).astype(np.uint32), where=mask)
            self.written[low // 32, mask] = 0xFFFFFFFF
            return
        if width <= 32 and low % 32 + width <= 32:
            field = np.uint32((1 << width) - 1 << low % 32)
            part = np.asarray(value).astype(np.uint64).astype(np.uint32) << np.uint32(low % 32)
            number = low // 32
            self.words[number] = np.where(mask, self.words[number] & ~field | part & field, self.words[number])
            self.written[number] |= np.where(mask, field, np.uint32(0))
            return
        for number in range(low // 32, min(len(self.words), -(-(low + width) // 32))):
            first, last = max(low, 32 * number), min(low + width, 32 * number + 32)
            part = (np.asarray(value, object) >> first - low & (1 << last - first) - 1) << first - 32 * number
            field = np.uint32((1 << last - first) - 1 << first - 32 * number)
            new = self.words[number] & ~field | part.astype(np.uint64).astype(np.uint32)
            self.words[number] = np.where(mask, new, self.words[number])
            self.written[number] |= np.where(mask, field, np.uint32(0))


class LaneMask:
    """A bit for each lane: what comparisons and carries write.

    Args:
        value: The bits.
        lanes: How many.

    Attributes:
        written: What was assigned, for each lane, or None.
    """

    def __init__(self, value: int, lanes: int) -> None:
        self.value, self.lanes = value, lanes
        self.written: Any = None

    def bits(self) -> Any:
        """Of each lane."""
        return np.array([self.value >> lane & 1 for lane in range(self.lanes)], np.uint64)

    def set(self, value: Bits, mask: Any) -> None:
        """Assigns the bits of lanes."""
        before = np.zeros(self.lanes, np.uint64) if self.written is None else self.written
        self.written = np.where(mask, value.raw() & np.uint64(1), before)


class Memory:
    """What a text calls MEM.

    Args:
        load: Gives the bytes at an address of each lane where a mask says so, as an array of bytes by lanes.
        store: Writes them.
    """

    def __init__(self, load: Callable[[Any, int, Any], Any], store: Callable[[Any, Any, Any], None]) -> None:
        self.load, self.store = load, store


@cache
def constant(value: float, kind: str, width: int, lanes: int) -> Bits:
    """A number without a sign in all lanes."""
    if kind == "f":
        return Bits(np.full(lanes, value, FLOATS[width]), kind, width)
    return Bits.of(np.full(lanes, int(value) % (1 << 64), np.uint64), kind, width)
