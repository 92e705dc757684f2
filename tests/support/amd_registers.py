"""The registers of a wave that executes machine code, and the operands of instructions; see `amd_execution`."""

import importlib
from functools import cache
from typing import Any, Protocol

import ml_dtypes
import numpy as np
from amd_machine_code import KernelCode, family
from amd_values import LaneMask, Words

M32, M64 = (1 << 32) - 1, (1 << 64) - 1
VCC, EXEC, _SHARED_BASE, _SCC, _LITERAL = 106, 126, 235, 253, 255
CODE, KERNARG, APERTURE = 1 << 40, 2 << 40, 1 << 44  # where they begin among all addresses
_FLOATS = {240: 0.5, 241: -0.5, 242: 1.0, 243: -1.0, 244: 2.0, 245: -2.0, 246: 4.0, 247: -4.0, 248: 0.15915494309189535}


class AddressSpace(Protocol):
    """Memory by address."""

    def load(self, address: Any, size: int, mask: Any) -> Any:
        """Bytes by lanes."""

    def store(self, address: Any, data: Any, mask: Any) -> None:
        """Stores bytes by lanes."""


class Registers:
    """The state of a wave.

    Args:
        kernel: Its instructions.
        memory: What it accesses.
        arch: Such as "gfx942".
        number: Of the wave in its work-group.
        threads: Lanes that are active at first.
        group: The ids of the work-group.
        lanes: All lanes.
    """

    def __init__(
        self, kernel: KernelCode, memory: AddressSpace, arch: str, number: int, threads: int, group: tuple[int, ...],
        lanes: int,
    ) -> None:  # fmt: skip
        self._kernel, self._memory, self._family, self._lanes = kernel, memory, family(arch), lanes
        self._texts = _texts(self._family)
        fnuz = "fnuz" if arch == "gfx942" else ""
        self._float8 = {"fp8": getattr(ml_dtypes, f"float8_e4m3{fnuz or 'fn'}"), "bf8": getattr(ml_dtypes, f"float8_e5m2{fnuz}")}
        self._m0 = 124 if self._family == "cdna" else 125
        self.ended, self._place, self._scc = False, 0, 0
        self._s = [0] * 128
        self._v = np.zeros((512, lanes), np.uint32)  # the upper half are accumulators of CDNA
        self._v[0] = number * lanes + np.arange(lanes)
        self._s[kernel.kernarg_register : kernel.kernarg_register + 2] = [KERNARG & M32, KERNARG >> 32]
        ids = [one for one, given in zip(group, kernel.group_ids, strict=True) if given]
        if self._family == "rdna4":
            self._s[108 + 9], self._s[108 + 7] = group[0], group[1] | group[2] << 16
        else:
            self._s[kernel.user_registers : kernel.user_registers + len(ids)] = ids
        self._set_mask(EXEC, (1 << threads) - 1)

    def _mask_of(self, number: int) -> int:
        """The bits of all lanes."""
        return self._s[number] | (self._s[number + 1] << 32 if self._lanes == 64 else 0)

    def _set_mask(self, number: int, value: int) -> None:
        self._s[number] = value & M32
        if self._lanes == 64:
            self._s[number + 1] = value >> 32 & M32

    def _active(self) -> Any:
        return LaneMask(self._mask_of(EXEC), self._lanes).bits() != 0

    def _scalar_words(self, number: int, bits: int, inst: Any, kind: str = "") -> list[int]:
        """A scalar operand: words of 32 bits, least significant first."""
        count = max(1, bits // 32)
        if number < 128:
            return [0] * count if number == 249 - self._m0 else self._s[number : number + count]
        if 128 <= number <= 208:
            value = number - 128 if number <= 192 else 192 - number
        elif number in _FLOATS:
            floating = {16: np.float16, 64: np.float64}.get(bits, np.float32)
            value = int(np.array(_FLOATS[number], floating).view(f"u{np.dtype(floating).itemsize}"))
        elif number == _LITERAL:
            value = int(inst.literal) << 32 if kind == "F64" else int(inst.literal)
            value -= (value >> 31 << 32) if kind == "I64" else 0
        elif number in (_SHARED_BASE, _SCC):
            value = APERTURE if number == _SHARED_BASE else self._scc
        else:
            raise NotImplementedError(f"operand {number}")
        return [value >> 32 * n & M32 for n in range(count)]

    def _words(self, inst: Any, key: str, negated: int = 0, magnitude: bool = False, half: int = 0) -> Words:
        """A vector operand."""
        register = getattr(inst, key)
        field = key if key in inst.op_bits else {"vsrc1": "src1", "vsrc0": "src0"}.get(key, key)
        bits = inst.op_bits.get(field, inst.op_bits.get(key, 32))
        number = register.offset
        if number < 256:
            operand = inst.operands.get(field) or inst.operands.get(key)
            kind = operand[0].name.rpartition("_")[2] if operand else ""
            words = self._scalar_words(number, bits, inst, kind)
            return Words(np.repeat(np.array(words, np.uint32)[:, None], self._lanes, 1), negated, magnitude)
        number -= 256
        short = type(inst).__name__.partition("_")[0] in ("VOP1", "VOP2", "VOPC")
        if bits == 16 and self._family != "cdna" and short:  # the upper half of a register has the number plus 128
            number, half = number & 127, number >> 7
        words = self._v[number : number + max(1, bits // 32)]
        return Words(words >> np.uint32(16) if half else words, negated, magnitude)

    def _write(self, first: int, value: Words, mask: Any) -> None:
        for n, word in enumerate(value.words):
            self._v[first + n] = np.where(mask, word, self._v[first + n])


@cache
def _texts(which: str) -> dict[str, str]:
    """The pseudo-code of all instructions of a family, by name."""
    found = importlib.import_module(f"tinygrad.runtime.autogen.amd.{which}.str_pcode").PCODE
    texts = {op.name: text for op, text in found.items()}
    for name in list(texts):  # the long form of an instruction means what the short one does
        texts.setdefault(f"{name.removesuffix('_E32')}_E64", texts[name])
    return texts


def one(*words: int) -> Words:
    """A scalar, as words of one lane."""
    return Words(np.array(words, np.uint32)[:, None])


def halves(value: int) -> tuple[int, int]:
    return value & M32, value >> 32 & M32


def packed_bits(bits: Any) -> int:
    return sum(int(bit) << lane for lane, bit in enumerate(bits))
