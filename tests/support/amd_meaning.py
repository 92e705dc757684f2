"""Evaluates AMD's pseudo-code for all lanes of a wave at once.

Takes the tree of `amd_pseudocode` and the operands by name; gives what it assigns to them. A condition of lanes is a
mask of what the statements below it change. Integers are computed modulo their width, in 64 bits or, beyond these, as
Python's; a float is NumPy's. What AMD writes as the name of a kind of value, such as DENORM, is a question about it.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np
from amd_pseudocode import Node, parse

_FLOATS = {16: np.float16, 32: np.float32, 64: np.float64}
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
            return Bits(unsigned.astype(f"u{width // 8}").view(_FLOATS[width]), kind, width)
        return Bits.of(raw, kind, width)

    def cast(self, kind: str, width: int) -> "Bits":
        """The number converted to another type."""
        if kind == "f":
            with np.errstate(over="ignore", invalid="ignore"):
                return Bits(np.asarray(self.data).astype(_FLOATS[width]), kind, width)
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


def evaluate(text: str, operands: Mapping[str, Any], mask: Any) -> dict[str, Any]:
    """Runs a text; gives all names with their values.

    Args:
        text: The pseudo-code.
        operands: `Words`, `LaneMask`, `Memory`, or `Bits` by name; under TEXTS the texts of all instructions, under
            FLOAT8 the dtypes of float8.
        mask: The lanes that run.

    Raises:
        SyntaxError: It cannot be read.
        NotImplementedError: It uses what is not known here.
    """
    run = _Run(dict(operands), len(mask))
    with np.errstate(all="ignore"):
        run.statements(parse(text), mask)
    return run.names


class _Run:
    def __init__(self, names: dict[str, Any], lanes: int) -> None:
        self.names, self._lanes = names, lanes
        self._functions: dict[str, tuple[list[str], list[Node]]] = {}
        self._returned: list[Any] = []
        self._broken = np.zeros(lanes, bool)  # lanes that have left the loop

    # -- statements -----------------------------------------------------------------------------------------
    def statements(self, body: list[Node], mask: Any) -> None:
        for node in body:
            mask = mask & ~self._broken
            match node:
                case ("break",):
                    self._broken = self._broken | mask
                case ("set", target, value):
                    self._set(target, self._value(value), mask)
                case ("if", cases, otherwise):
                    left = mask
                    for condition, then in cases:
                        holds = self._truth(self._value(condition))
                        chosen = left & holds
                        if np.count_nonzero(chosen):
                            self.statements(then, chosen)
                        left = left & ~holds
                    if np.count_nonzero(left):
                        self.statements(otherwise, left)
                case ("for", name, first, last, inner):
                    outside = self._broken
                    for number in range(self._one(first), self._one(last) + 1):
                        self.names[name] = self._number(number, "i", 32)
                        self.statements(inner, mask)
                    self._broken = outside
                case ("define", name, parameters, inner):
                    self._functions[name] = (parameters, inner)
                case ("return", value):
                    found = self._value(value)
                    before = self._returned[-1]
                    self._returned[-1] = found if before is None else _chosen(mask, found, before)
                case ("array", name):
                    self.names[name] = {}

    def _set(self, target: Node, value: Bits, mask: Any) -> None:
        match target:
            case ("join", parts):
                low = 0
                for part in reversed(parts):
                    width = int(part[2][1:]) if part[0] == "member" else 32
                    self._set(part, Bits.of(value.raw() >> low, "u", width), mask)
                    low += width
            case ("index", ("member", ("name", name), _), _) if isinstance(self.names.get(name), LaneMask):
                self.names[name].set(value, mask)
            case ("index", ("name", name), at) if isinstance(self.names.get(name), dict):
                number = self._one(at)
                before = self.names[name].get(number)
                self.names[name][number] = value if before is None else _chosen(mask, value, before)
            case ("name", name) if isinstance(self.names.get(name), LaneMask):
                self.names[name].set(value, mask)
            case ("member", ("index", ("name", "MEM"), address), kind):
                width = int(kind[1:])
                raw = value.cast(*_type(kind)).raw() if value.kind != "f" else value.raw()
                shifts = np.uint64(8) * np.arange(width // 8, dtype=np.uint64)[:, None]
                data = (raw.astype(np.uint64) >> shifts).astype(np.uint8)
                self.names["MEM"].store(self._value(address).raw(), data, mask)
            case _:
                self._set_bits(target, value, mask)

    def _set_bits(self, target: Node, value: Bits, mask: Any) -> None:
        name, low, width, kind = self._place(target)
        place = self.names.get(name)
        if kind in ("f", "bf"):
            value = _to_bfloat16(value) if kind == "bf" else value if value.kind == "f" else value.as_type("f", width)
            value = value if kind == "bf" else value.cast("f", width)
        if isinstance(place, Words):
            place.set(low, width or 32 * len(place.words), value.raw(), mask)
        elif width == 0:
            self.names[name] = value if place is None else _chosen(mask, value, place)
        else:
            whole = Words(np.zeros((max(2, -(-(low + width) // 32)), self._lanes), np.uint32))
            if place is not None:
                whole.set(0, place.width, place.raw(), np.ones(self._lanes, bool))
            whole.set(low, width, value.raw(), mask)
            size = max(low + width, 0 if place is None else place.width)
            self.names[name] = whole.get(0, size, "u").as_type(kind if low == 0 and size == width else "u", size)

    def _place(self, target: Node) -> tuple[str, int, int, str]:
        """The name, first bit, width (0 for all) and type of a target."""
        match target:
            case ("name", name):
                return name, 0, 0, "u"
            case ("member", ("name", name), kind):
                letter, width = _type(kind)
                return name, 0, width, letter
            case ("member", inner, kind):
                name, low, width, _ = self._place(inner)
                return name, low, width, _type(kind)[0]
            case ("bits", inner, high, low_node):
                name, *_ = self._place(inner)
                low = self._one(low_node)
                return name, low, self._one(high) - low + 1, "u"
            case ("index", inner, at):
                name, *_ = self._place(inner)
                return name, self._one(at), 1, "u"
        raise NotImplementedError(f"a target: {target}")

    # -- values ---------------------------------------------------------------------------------------------
    def _number(self, value: float, kind: str, width: int) -> Bits:
        return _constant(value, kind, width, self._lanes)

    def _one(self, node: Node) -> int:
        """A value that is the same in all lanes."""
        if node[0] == "number" and node[1] != "f":
            return int(node[3])
        return int(self._value(node).data[0])

    @staticmethod
    def _truth(value: Bits) -> Any:
        return value.data != 0

    def _value(self, node: Node) -> Bits:
        match node:
            case ("number", kind, width, value):
                return self._number(value, kind, width)
            case ("cast", kind, width, of):
                return self._value(of).cast(kind, width)
            case ("select", condition, a, b):
                return _chosen(self._truth(self._value(condition)), self._value(a), self._value(b))
            case ("unary", sign, of):
                return self._unary(sign, of)
            case ("binary", sign, left, right):
                return self._binary(sign, left, right)
            case ("join", parts):
                width, raw = 0, np.zeros(self._lanes, object)
                for value in map(self._value, parts):
                    raw, width = raw << value.width | value.raw().astype(object), width + value.width
                return Bits.of(raw, "u", width)
            case ("call", name, _) if name in _ADDRESSES:  # of operands with many names
                return self.names["ADDR"].get(0, 64, "u")  # type: ignore[no-any-return]
            case ("call", name, arguments):
                return self._call(name, [self._value(argument) for argument in arguments])
        return self._read(node)

    def _unary(self, sign: str, of: Node) -> Bits:
        value = self._value(of)
        if sign == "!":
            return Bits.of(value.data == 0, "u", 1)
        if sign == "+" or sign == "-" and value.kind == "f":
            return value if sign == "+" else Bits(-value.data, "f", value.width)
        return Bits.of(~value.raw() if sign == "~" else np.uint64(0) - value.raw(), value.kind, value.width)

    def _read(self, node: Node) -> Bits:
        match node:
            case ("name", "INF"):
                return self._number(np.inf, "f", 64)
            case ("member", ("name", "INST"), field):  # a field of the instruction
                return self.names["INST"][field]  # type: ignore[no-any-return]
            case ("member", ("name", "WAVE_MODE"), _):  # modes that matter to signaling NaN only
                return self._number(0, "u", 1)
            case ("member", ("name", "INF" | "NAN" as name), kind):
                return self._number(np.inf if name == "INF" else np.nan, *_type(kind))
            case ("name", name) if isinstance(found := self.names.get(name), Bits):
                return found
            case ("name", name) if isinstance(found, Words):
                return found.get(0, 32 * len(found.words), "u")
            case ("name", name) if isinstance(found, LaneMask):
                return self._number(found.value, "u", 64)
            case ("index", ("member", ("name", name), _), _) if isinstance(found := self.names.get(name), LaneMask):
                return Bits.of(found.bits(), "u", 1)  # its index is the lane
            case ("index", ("name", name), at) if isinstance(found := self.names.get(name), dict):
                return self._of_array(found, at)
            case ("member", ("index", ("name", "MEM"), address), kind):
                letter, width = _type(kind)
                data = self.names["MEM"].load(self._value(address).raw(), width // 8, np.ones(self._lanes, bool))
                shifts = np.uint64(8) * np.arange(width // 8, dtype=np.uint64)[:, None]
                return Bits.of(np.bitwise_or.reduce(data.astype(np.uint64) << shifts), "u", width).as_type(letter, width)
            case ("member", ("name", name), kind) if isinstance(found := self.names.get(name), Words):
                letter, width = _type(kind)
                return found.get(0, width, letter)
            case ("member", ("bits", ("name", name), high, low), kind) if isinstance(
                found := self.names.get(name), Words
            ):
                letter, width = _type(kind)
                first = self._one(low)
                if self._one(high) - first + 1 < width:  # a few bits as a wider number
                    return found.get(first, self._one(high) - first + 1, "u").cast(letter, width)
                return found.get(first, width, letter)
            case ("member", inner, kind):
                letter, width = _type(kind)
                value = self._value(inner)
                return value.as_type(letter, width) if value.width >= width else value.cast(letter, width)
            case ("bits", ("member", ("name", name), _), high, low) if (
                isinstance(found := self.names.get(name), Words) and self._one(high) >= self._one(low)
            ):
                return found.get(self._one(low), self._one(high) - self._one(low) + 1, "u")
            case ("bits", inner, high, low):
                return self._field(self._value(inner), self._one(high), self._one(low))
            case ("index", inner, at):
                value, place = self._value(inner), self._value(at).raw().astype(np.uint64)
                return Bits.of(value.raw().astype(np.uint64) >> place & np.uint64(1), "u", 1)
        raise NotImplementedError(f"a value: {node}")

    def _of_array(self, array: Mapping[int, Bits], at: Node) -> Bits:
        place = self._value(at).raw()
        found = next(iter(array.values()))
        for number, value in array.items():
            found = _chosen(place == number, value, found)
        return found

    @staticmethod
    def _field(value: Bits, high: int, low: int) -> Bits:
        raw = value.raw()
        if high >= low:
            return Bits.of(raw >> (low if value.width > 64 else np.uint64(low)), "u", high - low + 1)
        width = low - high + 1  # bits in reverse
        bits = [(raw >> np.uint64(high + n) & np.uint64(1)) << np.uint64(width - 1 - n) for n in range(width)]
        return Bits.of(np.bitwise_or.reduce(bits), "u", width)

    def _binary(self, sign: str, left: Node, right: Node) -> Bits:
        if sign in ("==", "!=") and right[0] == "member" and right[1] == ("name", "DENORM"):
            value = self._value(left)
            tiny = np.finfo(_FLOATS[value.width]).tiny
            return Bits.of((value.data != 0) & (np.abs(value.data) < tiny), "u", 1)
        a, b = self._value(left), self._value(right)
        if sign in _COMPARE:
            return Bits.of(_COMPARE[sign](*_common(a, b)), "u", 1)
        if sign in ("&&", "||"):
            x, y = self._truth(a), self._truth(b)
            return Bits.of(x & y if sign == "&&" else x | y, "u", 1)
        if sign in ("<<", ">>"):
            return _shifted(sign, a, b)
        if sign == "**":
            assert (a.data == 2).all()
            return Bits(np.ldexp(1.0, b.data.astype(np.int64)).astype(a.data.dtype), "f", a.width)
        if a.kind in ("f", "bf") or b.kind in ("f", "bf"):
            x, y = (v.data.astype(np.float64) if v.kind in "ui" else v.data for v in (a, b))
            result = _ARITHMETIC[sign](x, y)
            return Bits(result, "f", result.dtype.itemsize * 8)
        width = max(a.width, b.width)
        kind = "i" if a.kind == b.kind == "i" else "u"
        if width > 64:
            x, y = a.raw().astype(object), b.raw().astype(object)
        elif sign in "/%":
            x, y = a.data, b.data.astype(a.data.dtype)
            return Bits.of(np.where(y != 0, x // np.where(y == 0, 1, y) if sign == "/" else x % np.where(y == 0, 1, y), 0), kind, width)
        else:
            x, y = (np.asarray(v.data).astype(np.int64).view(np.uint64) if v.kind == "i" else v.data for v in (a, b))
        return Bits.of(_ARITHMETIC[sign](x, y), kind, width)

    def _call(self, name: str, arguments: list[Bits]) -> Bits:
        if name in self._functions:
            parameters, body = self._functions[name]
            before = dict(self.names)
            self.names.update(zip(parameters, arguments, strict=True))
            self._returned.append(None)
            self.statements(body, np.ones(self._lanes, bool))
            self.names = before
            return self._returned.pop()  # type: ignore[no-any-return]
        if name in ("fp8_to_f32", "bf8_to_f32"):
            raw = arguments[0].raw().astype(np.uint8)
            return Bits(raw.view(self.names["FLOAT8"][name[:3]]).astype(np.float32), "f", 32)
        if name in _FUNCTIONS:
            return _FUNCTIONS[name](*arguments)
        return self._instruction(name.upper(), arguments)

    def _instruction(self, name: str, arguments: list[Bits]) -> Bits:
        """What another instruction gives, for values of 32 bits."""
        texts = self.names["TEXTS"]
        text = next((texts[full] for full in (name, f"{name}_E32", f"{name}_E64") if full in texts), None)
        if text is None:
            raise NotImplementedError(f"{name}(...)")
        names = {f"S{n}": Words(value.raw()[None]) for n, value in enumerate(arguments)}
        names["D0"] = Words(np.zeros((1, self._lanes)))
        found = evaluate(text, {**names, "TEXTS": texts}, np.ones(self._lanes, bool))
        kind = {"I": "i", "U": "u"}.get(name.rpartition("_")[2][:1], "f")
        return found["D0"].get(0, 32, kind)  # type: ignore[no-any-return]


@cache
def _constant(value: float, kind: str, width: int, lanes: int) -> Bits:
    """A number without a sign in all lanes."""
    if kind == "f":
        return Bits(np.full(lanes, value, _FLOATS[width]), kind, width)
    return Bits.of(np.full(lanes, int(value) % (1 << 64), np.uint64), kind, width)


@cache
def _type(kind: str) -> tuple[str, int]:
    if kind in ("fp8", "bf8"):  # which functions convert
        return "u", 8
    letter = kind.rstrip("0123456789")
    if not letter or letter == kind:
        raise NotImplementedError(f".{kind}")
    return {"b": "u"}.get(letter, letter), int(kind[len(letter) :])


def _common(a: Bits, b: Bits) -> tuple[Any, Any]:
    """Two values as numbers that can be compared."""
    if a.kind == b.kind or a.kind in ("f", "bf") or b.kind in ("f", "bf"):
        return a.data, b.data
    width = max(a.width, b.width)
    return Bits.of(a.data, "u", width).data, Bits.of(b.data, "u", width).data


def _chosen(mask: Any, a: Bits, b: Bits) -> Bits:
    if a.kind == b.kind and a.width == b.width:
        return Bits(np.where(mask, a.data, b.data), a.kind, a.width)
    if "f" in (a.kind, b.kind):
        width = max(v.width for v in (a, b) if v.kind == "f")
        return Bits(np.where(mask, a.cast("f", width).data, b.cast("f", width).data), "f", width)
    width = max(a.width, b.width)
    return Bits.of(np.where(mask, a.cast("u", width).raw(), b.cast("u", width).raw()), "u", width)


def _shifted(sign: str, a: Bits, b: Bits) -> Bits:
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


def _to_bfloat16(value: Bits) -> Bits:
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


_COMPARE: Mapping[str, Callable[[Any, Any], Any]] = {
    "==": np.equal, "!=": np.not_equal, "<": np.less, ">": np.greater, "<=": np.less_equal, ">=": np.greater_equal,
}  # fmt: skip
_ARITHMETIC: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "/": lambda a, b: a / b,
    "%": lambda a, b: a % b, "&": lambda a, b: a & b, "|": lambda a, b: a | b, "^": lambda a, b: a ^ b,
}  # fmt: skip
_ADDRESSES = ("CalcDsAddr", "CalcGlobalAddr", "CalcScalarGlobalAddr", "CalcBufferAddr")
_FUNCTIONS: Mapping[str, Callable[..., Bits]] = {
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
    "f32_to_bf16": _to_bfloat16,
    "i32_to_f32": lambda x: x.cast("f", 32),
    "u32_to_f32": lambda x: x.cast("f", 32),
    "i32_to_f64": lambda x: x.cast("f", 64),
    "u32_to_f64": lambda x: x.cast("f", 64),
    "f32_to_i32": _to_int(32, True),
    "f32_to_u32": _to_int(32, False),
    "f64_to_i32": _to_int(32, True),
    "f64_to_u32": _to_int(32, False),
}
