"""Evaluates AMD's pseudo-code for all lanes of a wave at once.

Takes the tree of `amd_pseudocode` and the operands by name; gives what it assigns to them. A condition of lanes is a
mask of what the statements below it change. What AMD writes as the name of a kind of value, such as DENORM, is a
question about it.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
from amd_functions import ARITHMETIC, COMPARE, FUNCTIONS, chosen, common, shifted, to_bfloat16
from amd_pseudocode import Node, parse
from amd_values import FLOATS, Bits, LaneMask, Words, constant

_ADDRESSES = ("CalcDsAddr", "CalcGlobalAddr", "CalcScalarGlobalAddr", "CalcBufferAddr")


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
                        taken = left & holds
                        if np.count_nonzero(taken):
                            self.statements(then, taken)
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
                    self._returned[-1] = found if before is None else chosen(mask, found, before)
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
                self.names[name][number] = value if before is None else chosen(mask, value, before)
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
            value = to_bfloat16(value) if kind == "bf" else value if value.kind == "f" else value.as_type("f", width)
            value = value if kind == "bf" else value.cast("f", width)
        if isinstance(place, Words):
            place.set(low, width or 32 * len(place.words), value.raw(), mask)
        elif width == 0:
            self.names[name] = value if place is None else chosen(mask, value, place)
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
        return constant(value, kind, width, self._lanes)

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
                return chosen(self._truth(self._value(condition)), self._value(a), self._value(b))
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
            found = chosen(place == number, value, found)
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
            tiny = np.finfo(FLOATS[value.width]).tiny
            return Bits.of((value.data != 0) & (np.abs(value.data) < tiny), "u", 1)
        a, b = self._value(left), self._value(right)
        if sign in COMPARE:
            return Bits.of(COMPARE[sign](*common(a, b)), "u", 1)
        if sign in ("&&", "||"):
            x, y = self._truth(a), self._truth(b)
            return Bits.of(x & y if sign == "&&" else x | y, "u", 1)
        if sign in ("<<", ">>"):
            return shifted(sign, a, b)
        if sign == "**":
            assert (a.data == 2).all()
            return Bits(np.ldexp(1.0, b.data.astype(np.int64)).astype(a.data.dtype), "f", a.width)
        if a.kind in ("f", "bf") or b.kind in ("f", "bf"):
            x, y = (v.data.astype(np.float64) if v.kind in "ui" else v.data for v in (a, b))
            result = ARITHMETIC[sign](x, y)
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
        return Bits.of(ARITHMETIC[sign](x, y), kind, width)

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
        if name in FUNCTIONS:
            return FUNCTIONS[name](*arguments)
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
def _type(kind: str) -> tuple[str, int]:
    if kind in ("fp8", "bf8"):  # which functions convert
        return "u", 8
    letter = kind.rstrip("0123456789")
    if not letter or letter == kind:
        raise NotImplementedError(f".{kind}")
    return {"b": "u"}.get(letter, letter), int(kind[len(letter) :])
