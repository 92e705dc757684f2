"""Vector and matrix instructions of a wave; see `amd_execution`."""

import re
from typing import Any

import numpy as np
from amd_lanes import permuted_rows
from amd_matrices import multiplied
from amd_meaning import evaluate
from amd_registers import EXEC, M32, VCC, Registers, packed_bits
from amd_values import Bits, LaneMask, Words

_OPSEL_BYTES = (0, 2, 1, 3)  # the bit of a half comes first


class Vectors(Registers):
    """A wave that executes vector and matrix instructions."""

    def _context(self, inst: Any) -> dict[str, Any]:
        names: dict[str, Any] = {"laneId": Bits.of(np.arange(self._lanes), "u", 32), "TEXTS": self._texts}
        names["FLOAT8"] = self._float8
        names["ROUND_MODE"] = names["ROUND_NEAREST_EVEN"] = Bits.of(np.zeros(self._lanes), "u", 32)
        names["VCC"], names["EXEC"] = (LaneMask(self._mask_of(number), self._lanes) for number in (VCC, EXEC))
        if hasattr(inst, "literal"):
            names["SIMM32"] = Words(np.full((1, self._lanes), inst.literal, np.uint32))
        return names

    def _vector(self, form: str, name: str, inst: Any) -> None:
        if name.startswith(("V_READFIRSTLANE", "V_READLANE")):
            active = self._active()
            lane = int(np.argmax(active)) if "FIRST" in name else self._scalar_words(inst.src1.offset, 32, inst)[0]
            self._s[inst.vdst.offset % 256] = int(self._words(inst, "src0").words[0, lane % self._lanes])
            return
        active = self._active()
        if name.startswith("V_PERMLANEX16"):
            low, high = (int(self._scalar_words(getattr(inst, key).offset, 32, inst)[0]) for key in ("src1", "src2"))
            lane = np.arange(self._lanes)
            chosen = np.array([(high << 32 | low) >> 4 * n & 15 for n in range(16)])[lane % 16]
            found = self._words(inst, "src0").words[0][(lane // 16 ^ 1) * 16 + chosen]
            self._write(inst.vdst.offset - 256, Words(found[None]), active)
            return
        names = {**self._context(inst), **self._operands(form, inst, active)}
        if "CNDMASK" in name and form.startswith("VOP3") or "_CO_CI_" in name and form.startswith("VOP3SD"):
            names["VCC"] = LaneMask(self._mask_of(inst.src2.offset), self._lanes)
        if name.startswith(("V_ADDC_CO", "V_SUBB_CO", "V_SUBBREV_CO")) and form.startswith("VOP3"):
            names["VCC"] = LaneMask(self._mask_of(inst.src2.offset), self._lanes)
        if name.startswith("V_CMP"):
            self._compare(form, name, inst, names, active)
            return
        bits = inst.op_bits.get("vdst", 32)
        first = inst.vdst.offset - 256
        half = 0
        if bits == 16 and self._family != "cdna":
            if form.startswith("VOP3"):
                half = inst.opsel >> 3 & 1
            else:
                first, half = first & 127, first >> 7
        before = self._v[first : first + max(1, bits // 32)]
        names["D0"] = Words(before >> np.uint32(16) if half else before)
        names["D"] = names["D0"]  # as some texts of CDNA 4 call it
        names["D1"] = Words(np.zeros((1, self._lanes), np.uint32))
        if "SDWA_SRC0_SEL" in self._texts[name]:  # a byte by number, of which the operand is not yet taken
            byte = inst.src0_sel if "SDWA" in form else _OPSEL_BYTES[inst.opsel & 3] if form == "VOP3" else 0
            chosen = {"SDWA_SRC0_SEL": byte, **{f"BYTE{n}": n for n in range(4)}}
            names.update({key: Bits.of(np.full(self._lanes, n), "u", 3) for key, n in chosen.items()})
            names["S0"] = self._words(inst, "vsrc0" if "SDWA" in form else "src0")
        if "BITOP3" in name:  # whose table of truth is where other instructions have modifiers
            names["INST"] = {field.upper(): Bits.of(np.full(self._lanes, getattr(inst, field)), "u", 3)
                             for field in ("omod", "abs", "neg")}  # fmt: skip
        if "DIV_SCALE" in name:  # what the manual leaves out: elsewhere the operand as it is
            names["D0"].words[:] = names["S0"].words
        found = evaluate(self._texts[name], names, active & self._kept)
        result = found["D0"]
        if "INST" not in names and (getattr(inst, "clmp", 0) or getattr(inst, "omod", 0)):
            _modify(name, result, inst, names)
        if form.endswith("SDWA") and inst.dst_sel < 6:
            _place_part(result, before, inst)
        elif bits == 16:
            _place_half(result, before, half, self._family == "cdna")
        self._write(first, result, active & self._kept)
        carry = found["VCC"].written
        if carry is not None:
            number = inst.sdst.offset if form.startswith("VOP3SD") else VCC
            if number != 249 - self._m0:
                self._set_mask(number, packed_bits(carry & active))

    def _operands(self, form: str, inst: Any, active: Any) -> dict[str, Any]:
        names: dict[str, Any] = {}
        self._kept = np.ones(self._lanes, bool)
        permuted = form.endswith("DPP16") or hasattr(inst, "inst")
        extended = permuted or "SDWA" in form
        for number in range(3):
            key = next((key for key in (f"vsrc{number}" if extended or number else "", f"src{number}")
                        if key and hasattr(inst, key)), "")  # fmt: skip
            if not key or f"src{number}" not in inst.op_bits and f"vsrc{number}" not in inst.op_bits:
                continue
            negated = getattr(inst, "neg", 0) >> number & 1 or getattr(inst, f"src{number}_neg", 0)
            magnitude = bool(getattr(inst, "abs", 0) >> number & 1 or getattr(inst, f"src{number}_abs", 0))
            half = inst.opsel >> number & 1 if form.startswith("VOP3") and hasattr(inst, "opsel") else 0
            words = self._words(inst, key, 3 * negated, magnitude, half)
            if permuted and number == 0:
                moved, valid = permuted_rows(words.words[0], inst.dpp, active, self._lanes)
                rows = np.arange(self._lanes)
                self._kept = (inst.row_mask >> rows // 16 & 1 != 0) & (inst.bank_mask >> rows // 4 % 4 & 1 != 0)
                if not inst.bc:
                    self._kept &= valid
                words = Words(moved[None], 3 * negated, magnitude)
            if "SDWA" in form and number < 2:
                words = Words(_selected(words.words, inst, number), 3 * negated, magnitude)
            names[f"S{number}"] = words
        return names

    def _compare(self, form: str, name: str, inst: Any, names: dict[str, Any], active: Any) -> None:
        names["D0"] = LaneMask(0, self._lanes)
        found = evaluate(self._texts[name], names, active)
        for key, number in (("EXEC", EXEC), ("D0", -1)):
            if found[key].written is None:
                continue
            if number < 0:
                number = inst.vdst.offset if "VOP3" in form else inst.sdst.offset if "SDST" in form and inst.sd else VCC
            self._set_mask(number, packed_bits(found[key].written & active))

    def _double(self, inst: Any) -> None:
        """Two instructions of RDNA, which read before either writes."""
        active = self._active()
        results = []
        for part in "xy":
            name = getattr(inst, f"op{part}").name.replace("V_DUAL_", "V_")
            text = self._texts.get(f"{name}_E32") or self._texts[name]
            names = self._context(inst)
            names["S0"] = Words(self._word(getattr(inst, f"src{part}0").offset, inst)[None])
            names["S1"] = Words(self._word(getattr(inst, f"vsrc{part}1").offset, inst)[None])
            first = getattr(inst, f"vdst{part}").offset - 256
            names["D0"] = Words(self._v[first : first + 1])
            results.append((first, evaluate(text, names, active)["D0"]))
        for first, result in results:
            self._write(first, result, active)

    def _word(self, number: int, inst: Any) -> Any:
        if number >= 256:
            return self._v[number - 256]
        return np.full(self._lanes, self._scalar_words(number, 32, inst)[0], np.uint32)

    def _packed(self, name: str, inst: Any) -> None:
        """Instructions on pairs."""
        active = self._active()
        names = self._context(inst)
        mixed = "_MIX" in name
        opsel_hi = inst.opsel_hi | inst.opsel_hi2 << 2
        sources = {}
        if name.startswith("V_ACCVGPR"):
            source, target = (256, 0) if "READ" in name else (0, 256)
            number = inst.src0.offset
            word = self._v[number - 256 + source] if number >= 256 else self._word(number, inst)
            first = inst.vdst.offset - 256 + target
            self._v[first] = np.where(active, word, self._v[first])
            return
        for number in range(3):
            key = f"src{number}"
            if key not in inst.op_bits:
                continue
            signs = (inst.neg >> number & 1) | (inst.neg_hi >> number & 1) << 1
            register = getattr(inst, key).offset
            words = self._words(inst, key).words
            if inst.op_bits[key] == 64 and 128 <= register < 256:  # a constant of one float32
                words = np.stack([self._word(register, inst), np.zeros(self._lanes, np.uint32)])
            if mixed:
                sources[number] = Words(words, 3 * (signs & 1), bool(signs >> 1)).get(0, 32, "u")
                continue
            if "OPSEL" in self._texts[name]:  # which selects the parts itself
                names[f"S{number}"] = Words(words, signs)
                continue
            low, high = inst.opsel >> number & 1, opsel_hi >> number & 1
            if inst.op_bits[key] == 64:
                words = np.stack([words[low], words[high]])
            else:
                half = [words[0] >> np.uint32(16 * which) & np.uint32(0xFFFF) for which in (low, high)]
                words = (half[0] | half[1] << np.uint32(16))[None]
            names[f"S{number}"] = Words(words, signs)
        names["S"] = sources
        names["OPSEL"], names["OPSEL_HI"] = (Bits.of(np.full(self._lanes, n), "u", 3) for n in (inst.opsel, opsel_hi))
        first = inst.vdst.offset - 256
        names["D0"] = Words(self._v[first : first + max(1, inst.op_bits.get("vdst", 32) // 32)])
        self._write(first, evaluate(self._texts[name], names, active)["D0"], active)

    def _matrix(self, name: str, inst: Any) -> None:
        parts = []
        for number, key in enumerate(("src0", "src1", "src2")):
            count = max(1, inst.op_bits[key] // 32)
            first = getattr(inst, key).offset
            if hasattr(type(inst), "acc_cd") and first >= 256:
                first += 256 * (inst.acc_cd if number == 2 else inst.acc >> number & 1)
            if first >= 256:
                parts.append(self._v[first - 256 : first - 256 + count])
            else:
                word = self._scalar_words(first, 32, inst)[0]
                parts.append(np.full((count, self._lanes), word, np.uint32))
        result = multiplied(name, self._float8, *parts)
        first = inst.vdst.offset - 256 + (256 if getattr(inst, "acc_cd", 0) else 0)
        self._v[first : first + len(result)] = result


def _modify(name: str, result: Words, inst: Any, names: dict[str, Any]) -> None:
    """Multiplies by a power of two and bounds a float, or bounds an integer, as output modifiers say."""
    bits = inst.op_bits.get("vdst", 32)
    whole = re.match(r"V_(ADD|SUB|SUBREV)_(NC_)?U32", name)
    if whole is not None:
        a, b = (names[operand].words[0].astype(np.int64) for operand in ("S0", "S1"))
        result.words[0] = np.clip({"ADD": a + b, "SUB": a - b, "SUBREV": b - a}[whole[1]], 0, M32).astype(np.uint32)
        return
    if not re.search(r"_F(16|32|64)(_E64)?$", name):
        raise NotImplementedError("bounds of an integer")
    value = result.get(0, bits, "f").data * {0: 1.0, 1: 2.0, 2: 4.0, 3: 0.5}[getattr(inst, "omod", 0)]
    if getattr(inst, "clmp", 0):
        value = np.clip(value, 0.0, 1.0)
    made = Bits(value.astype({16: np.float16, 32: np.float32, 64: np.float64}[bits]), "f", bits)
    result.set(0, bits, made.raw(), np.ones(len(value), bool))


def _place_half(result: Words, before: Any, half: int, zeroes: bool) -> None:
    """Puts a result of 16 bits where its register has it; CDNA zeroes the other half."""
    word = result.words[0] & np.uint32(0xFFFF)
    kept = np.uint32(0) if zeroes else before[0] & np.uint32(0xFFFF if half else 0xFFFF0000)
    result.words[0] = kept | word << np.uint32(16 * half)


def _place_part(result: Words, before: Any, inst: Any) -> None:
    """Puts the low bits of a result into the byte or half that an instruction of CDNA says."""
    width = 8 if inst.dst_sel < 4 else 16
    low = 8 * inst.dst_sel if inst.dst_sel < 4 else 16 * (inst.dst_sel - 4)
    part = (result.words[0] & np.uint32((1 << width) - 1)) << np.uint32(low)
    if inst.dst_unused == 1:
        raise NotImplementedError("sign extension of a part")
    kept = before[0] & ~np.uint32((1 << width) - 1 << low) if inst.dst_unused == 2 else np.uint32(0)
    result.words[0] = part | kept


def _selected(words: Any, inst: Any, number: int) -> Any:
    """The byte or half of a word that an instruction of CDNA takes."""
    select = getattr(inst, f"src{number}_sel")
    if select >= 6:
        return words
    width = 8 if select < 4 else 16
    field = words >> np.uint32(8 * select if select < 4 else 16 * (select - 4)) & np.uint32((1 << width) - 1)
    if getattr(inst, f"src{number}_sext"):
        field = (field.astype(np.int64) - (field >> np.uint32(width - 1)).astype(np.int64) * (1 << width)).astype(np.uint32)
    return field
