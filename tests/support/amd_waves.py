"""Follows the waves of a work-group through the machine code of CDNA: control flow, addresses of LDS, waits, barriers.

Every scalar and every integer from which an address of LDS or a branch is computed has its value; what is loaded from
memory or computed by floating point is unknown, and must decide neither. The rules about LDS are those of
`amd_lds_state`: so each direct load to LDS is known to be waited for before its words are read, on the whole way through
the code that a launch with these arguments takes, for each wave. Waves run one after the other between barriers, which
does not matter to the rules.

Source: AMD Instinct MI300 and CDNA 4 Instruction Set Architecture reference guides: "s_waitcnt" (in-order counters),
"LDS address" of memory instructions with LDS, and the integer instructions.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from amd_integers import KEPT, M32, M64, SCALAR, TERNARY, VECTOR, VECTOR64, WAVE, compare
from amd_lds_state import Access, Lds
from amd_machine_code import KernelCode

_VCC, _M0, _EXEC, _SHARED_BASE = 106, 124, 126, 235
_APERTURE = 1 << 48  # where LDS begins among all addresses: the low word of one is that in LDS
_KERNARG = 0x1000_0000  # where the arguments are
_STEPS = 20_000
UNKNOWN = -1  # of a lane


class NotFollowed(Exception):
    """An address of LDS or a branch that depends on what is not known here."""


def follow(
    code: KernelCode, arguments: bytes, *, threads: int, lds_bytes: int, group: tuple[int, int, int] = (0, 0, 0)
) -> int:
    """Follows a work-group to its end; gives the number of direct loads to LDS.

    Args:
        code: The kernel.
        arguments: The memory of its arguments.
        threads: Of the work-group, along x.
        lds_bytes: That the kernel declares, and what its launch adds.
        group: The ids of the work-group.

    Raises:
        Hazard: An access of LDS that nothing orders.
        NotFollowed: See there.
    """
    lds = Lds(-(-threads // WAVE), lds_bytes)
    waves = [Wave(code, n, lds, arguments, threads, group) for n in range(-(-threads // WAVE))]
    running = waves
    while running:
        for wave in running:
            wave.run()
        running = [wave for wave in running if not wave.ended]
        lds.barrier()
    return sum(wave.direct_loads for wave in waves)


@dataclass
class _Pending:
    """The operations of a counter that a wave has started, oldest first; None for one that does not touch LDS."""

    operations: list[Access | None] = field(default_factory=list)

    def wait(self, left: int, lds: Lds) -> None:
        """The oldest are over, until so many are left."""
        while len(self.operations) > left:
            access = self.operations.pop(0)
            if access is not None:
                lds.finish(access)


class Wave:
    """One wave.

    Args:
        code: The kernel.
        number: Of the wave in its work-group.
        lds: Of the work-group.
        arguments: See `follow`.
        threads: See `follow`.
        group: See `follow`.

    Attributes:
        ended: Whether it has reached its end.
        direct_loads: How many loads to LDS it has started.
    """

    def __init__(
        self, code: KernelCode, number: int, lds: Lds, arguments: bytes, threads: int, group: tuple[int, int, int]
    ) -> None:
        self._code, self._number, self._lds, self._arguments = code.instructions, number, lds, arguments
        self.ended, self.direct_loads, self._place, self._steps = False, 0, 0, 0
        self._s: list[int | None] = [None] * 128
        self._scc: int | None = None
        self._v = np.full((256, WAVE), UNKNOWN, np.int64)
        self._v[0] = number * WAVE + np.arange(WAVE)  # the y and z of a thread, above its x, are zero
        first = code.kernarg_register
        self._s[first], self._s[first + 1] = _KERNARG, 0
        for register, number_ in zip(range(code.user_registers, 128), [g for g, on in zip(group, code.group_ids) if on]):
            self._s[register] = number_
        lanes = min(WAVE, threads - number * WAVE)
        self._set64(_EXEC, (1 << lanes) - 1)
        self._memory, self._local = _Pending(), _Pending()

    def run(self) -> None:
        """Runs up to the next barrier, or the end."""
        while not self.ended:
            self._steps += 1
            assert self._steps < _STEPS, "the kernel does not end"
            inst = self._code[self._place]
            self._place += inst.size()
            name = inst.op.name.removesuffix("_E32").removesuffix("_E64")
            if name == "S_BARRIER":
                return
            self._step(type(inst).__name__, name, inst)

    def _step(self, form: str, name: str, inst: Any) -> None:
        if form == "SOPP":
            self._control(name, inst.simm16)
        elif form.startswith("SOP"):
            self._scalar(form, name, inst)
        elif form == "SMEM":
            self._scalar_load(name, inst)
        elif form == "DS":
            self._ds(name, inst)
        elif form in ("GLOBAL", "FLAT", "SCRATCH", "MUBUF"):
            assert form != "SCRATCH", "memory of a thread: the kernel spills, or indexes an array by a value of run time"
            self._vector_memory(form, name, inst)
        else:
            self._vector(form, name, inst)

    # -- registers ------------------------------------------------------------------------------------------
    def _get(self, register: Any, inst: Any) -> int | None:
        """A scalar operand of 32 bits."""
        number = register.offset
        if number < 128:
            return self._s[number]
        if 128 <= number <= 208:
            return number - 128 if number <= 192 else (192 - number) & M32
        if number == 255:
            return int(inst.literal)
        return self._scc if number == 253 else None

    def _get64(self, register: Any, inst: Any) -> int | None:
        """A scalar operand of 64 bits; inline numbers are extended."""
        number = register.offset
        if number < 128:
            low, high = self._s[number], self._s[number + 1]
            return None if low is None or high is None else high << 32 | low
        if number == _SHARED_BASE:
            return _APERTURE
        value = self._get(register, inst)
        if value is None:
            return None
        return (value | (M64 & ~M32)) if 193 <= number <= 208 else value

    def _set64(self, number: int, value: int | None) -> None:
        self._s[number] = None if value is None else value & M32
        self._s[number + 1] = None if value is None else value >> 32 & M32

    def _mask(self) -> Any:
        """The lanes that run."""
        low, high = self._s[_EXEC], self._s[_EXEC + 1]
        if low is None or high is None:
            raise NotFollowed(f"{self._at()}: the lanes that run are not known")
        return np.array([(high << 32 | low) >> lane & 1 for lane in range(WAVE)], bool)

    def _lanes(self, register: Any, inst: Any) -> Any:
        """A vector operand of 32 bits, per lane."""
        if 256 <= register.offset < 512:
            return self._v[register.offset - 256]
        value = self._get(register, inst)
        return np.full(WAVE, UNKNOWN if value is None else value, np.int64)

    def _set_lanes(self, register: Any, values: Any, count: int = 1) -> None:
        mask = self._mask()
        first = register.offset - 256
        self._v[first : first + count] = np.where(mask, values, self._v[first : first + count])

    def _at(self) -> str:
        """The instruction that is executed, for messages."""
        before = max(place for place in self._code if place < self._place)
        return f"{before:#x} {self._code[before].op.name.lower()}"

    # -- control --------------------------------------------------------------------------------------------
    def _control(self, name: str, number: int) -> None:
        jump = name == "S_BRANCH"
        if name == "S_ENDPGM":
            self._memory.wait(0, self._lds)
            self._local.wait(0, self._lds)
            self.ended = True
        elif name == "S_WAITCNT":
            self._memory.wait(number & 15 | number >> 10 & 48, self._lds)
            self._local.wait(number >> 8 & 15, self._lds)
        elif name.startswith("S_CBRANCH_SCC"):
            jump = self._known(self._scc) == int(name[-1])
        elif name.startswith(("S_CBRANCH_VCC", "S_CBRANCH_EXEC")):
            first = _VCC if "VCC" in name else _EXEC
            low, high = self._known(self._s[first]), self._known(self._s[first + 1])
            jump = (low | high == 0) == (not name.endswith("NZ"))
        if jump:
            self._place += 4 * (number - (number >> 15 << 16))

    def _known(self, value: int | None) -> int:
        if value is None:
            raise NotFollowed(f"{self._at()}: the branch is not known")
        return value

    # -- scalars --------------------------------------------------------------------------------------------
    def _scalar(self, form: str, name: str, inst: Any) -> None:
        wide = name.endswith(("B64", "I64", "U64")) and not name.startswith("S_BCNT")
        read = self._get64 if wide else self._get
        if form.startswith("SOPK"):
            number = inst.simm16 if name.endswith("U32") else inst.simm16 - (inst.simm16 >> 15 << 16)
            operands = [self._s[inst.sdst.offset], number & M32]
            name = name.replace("K_", "_") if name not in ("S_MOVK_I32", "S_CMOVK_I32") else name
        elif form.startswith("SOP1"):
            operands = [read(inst.ssrc0, inst)]
            if name.startswith(("S_BITSET", "S_CMOV")):  # which change a part of what they write, or nothing
                operands.append((self._get64 if wide else self._get)(inst.sdst, inst))
        else:
            operands = [read(inst.ssrc0, inst), (self._get if "LSH" in name or "ASHR" in name or "BFE" in name else read)(inst.ssrc1, inst)]
        if name.endswith("SAVEEXEC_B64"):
            self._save_exec(name, operands[0], inst.sdst.offset)
            return
        if name.startswith(("S_CMP_", "S_BITCMP")):
            self._scc = None if None in operands else int(compare(name, *operands))
            return
        result, scc = self._scalar_result(name, operands)
        if "sdst" in dir(inst):
            if wide:
                self._set64(inst.sdst.offset, result)
            else:
                self._s[inst.sdst.offset] = result if result is None else result & M32
        if scc is not KEPT:
            self._scc = scc

    def _scalar_result(self, name: str, operands: list[int | None]) -> tuple[int | None, Any]:
        """The result of an instruction, and the condition code."""
        if name.startswith("S_CSELECT"):
            return (None if self._scc is None else operands[0] if self._scc else operands[1]), KEPT
        if name.startswith("S_CMOV"):
            return (None if self._scc is None else operands[0] if self._scc else operands[1]), KEPT
        if name in ("S_ADDC_U32", "S_SUBB_U32"):
            operands = [*operands, self._scc]
        if name == "S_MOVK_I32":
            return operands[1], KEPT
        function = SCALAR.get(name)
        if function is None or None in operands:
            keeps = name.startswith(("S_BITSET", "S_MOV_", "S_MUL_", "S_SEXT", "S_BFM", "S_FF1", "S_BREV", "S_PACK"))
            return None, KEPT if keeps else None
        return function(*operands)

    def _save_exec(self, name: str, value: int | None, destination: int) -> None:
        low, high = self._s[_EXEC], self._s[_EXEC + 1]
        before = None if low is None or high is None else high << 32 | low
        self._set64(destination, before)
        operation = {"AND": lambda a, b: a & b, "OR": lambda a, b: a | b, "XOR": lambda a, b: a ^ b,
                     "ANDN2": lambda a, b: a & ~b, "ANDN1": lambda a, b: ~a & b}[name.split("_")[1]]  # fmt: skip
        after = None if before is None or value is None else operation(value, before) & M64
        self._set64(_EXEC, after)
        self._scc = None if after is None else int(after != 0)

    def _scalar_load(self, name: str, inst: Any) -> None:
        if not name.startswith("S_LOAD"):
            return
        count = int(name.rpartition("X")[2]) if "DWORDX" in name else 1
        base = self._get64(inst.sbase, inst)
        offset = inst.offset - (inst.offset >> 20 << 21) if inst.imm else 0
        place = None if base is None or inst.soffset_en else base + offset - _KERNARG
        for n in range(count):
            inside = place is not None and 0 <= place + 4 * n <= len(self._arguments) - 4
            word = self._arguments[place + 4 * n : place + 4 * n + 4] if inside and place is not None else b""
            self._s[inst.sdata.offset + n] = int.from_bytes(word, "little") if inside else None
        self._local.operations.append(None)

    # -- memory ---------------------------------------------------------------------------------------------
    def _start(self, kind: str, words: Any, pending: _Pending) -> None:
        access = Access(self._number, np.unique(words), kind, self._at())
        self._lds.start(access)
        pending.operations.append(access)

    def _vector_memory(self, form: str, name: str, inst: Any) -> None:
        to_lds = "_LDS_" in name or (form == "MUBUF" and inst.lds)
        if name.startswith(("BUFFER_WBL2", "BUFFER_INV")):
            return
        if to_lds:
            # the destination is M0, the instruction's offset, and the lane's place; never less than a word a lane
            size = {"DWORDX4": 16, "DWORDX3": 12}.get(name.rpartition("_")[2], 4)
            base = self._s[_M0]
            if base is None:
                raise NotFollowed(f"{self._at()}: M0 is not known")
            offset = inst.offset - (inst.offset >> 12 << 13) if form != "MUBUF" else inst.offset
            first = (base + offset + size * np.flatnonzero(self._mask())) // 4
            self._start("direct load", (first[:, None] + np.arange(size // 4)).ravel(), self._memory)
            self.direct_loads += 1
            return
        self._memory.operations.append(None)
        if "LOAD" in name or "sc0" in dir(inst) and inst.sc0 and "ATOMIC" in name:
            target = inst.vdata if form == "MUBUF" else inst.vdst
            if not inst.acc:
                self._set_lanes(target, UNKNOWN, max(1, target.sz))

    def _ds(self, name: str, inst: Any) -> None:
        if name.startswith(("DS_SWIZZLE", "DS_PERMUTE", "DS_BPERMUTE", "DS_NOP")):  # which touch no memory
            self._local.operations.append(None)
            self._set_lanes(inst.vdst, UNKNOWN)
            return
        mask = self._mask()
        address = self._v[inst.addr.offset - 256]
        if (address[mask] == UNKNOWN).any():
            raise NotFollowed(f"{self._at()}: the address is not known")
        reads, writes = "READ" in name or "RTN" in name, "READ" not in name
        access = name.partition("_TR_")[0]  # what follows says which elements lanes exchange then
        bits = next(int(part) for part in reversed(_numbers(access)) if int(part) in (8, 16, 32, 64, 96, 128))
        if "2" in name.split("_")[1].replace("ST64", ""):  # two places, in units of the width
            unit = bits // 8 * (64 if "ST64" in name else 1)
            offsets = [inst.offset0 * unit, inst.offset1 * unit]
        else:
            offsets = [inst.offset1 << 8 | inst.offset0]
        starts = np.concatenate([address[mask] + offset & M32 for offset in offsets])
        words = np.concatenate([(starts + 4 * n) // 4 for n in range(max(1, bits // 32))])
        if writes:
            self._start("write", words, self._local)
        if reads:
            if not writes:
                self._start("read", words, self._local)
            if not inst.acc:
                self._set_lanes(inst.vdst, UNKNOWN, max(1, inst.vdst.sz))

    # -- vectors --------------------------------------------------------------------------------------------
    def _vector(self, form: str, name: str, inst: Any) -> None:
        if form.startswith("VOP3P") or form.endswith("DPP16"):
            self._forget(inst)
        elif name.startswith("V_CMP"):
            self._vector_compare(form, name, inst)
        elif name.startswith(("V_READFIRSTLANE", "V_READLANE")):
            lane = self._get(inst.src1, inst) if "READLANE" in name else int(np.argmax(self._mask()))
            value = UNKNOWN if lane is None else int(self._lanes(inst.src0, inst)[lane & 63])
            self._s[inst.vdst.offset % 256] = None if value == UNKNOWN else value
        elif name in VECTOR64:
            self._vector64(name, inst)
        else:
            self._vector_result(form, name, inst)

    def _vector64(self, name: str, inst: Any) -> None:
        """Instructions on 64 bits, by which generic addresses of LDS are computed, too."""
        function, wide = VECTOR64[name]
        values, unknown = [], np.zeros(WAVE, bool)
        for key, is_wide in zip(("src0", "src1", "src2"), wide, strict=False):
            register = getattr(inst, key)
            if not is_wide:
                low = self._lanes(register, inst)
                high = np.zeros(WAVE, np.int64)
            elif register.offset >= 256:
                low, high = self._v[register.offset - 256 : register.offset - 254]
            else:
                whole = self._get64(register, inst)
                low = np.full(WAVE, UNKNOWN if whole is None else whole & M32, np.int64)
                high = np.full(WAVE, UNKNOWN if whole is None else whole >> 32, np.int64)
            unknown |= (low == UNKNOWN) | (high == UNKNOWN)
            values.append((high.astype(np.uint64) << np.uint64(32)) + low.astype(np.uint64) % np.uint64(1 << 32))
        result = function(*values)
        halves = [(result >> np.uint64(shift) & np.uint64(M32)).astype(np.int64) for shift in (0, 32)]
        self._set_lanes(inst.vdst, np.where(unknown, UNKNOWN, np.stack(halves)), 2)
        if "sdst" in dir(inst):
            self._set64(inst.sdst.offset, None)

    def _vector_result(self, form: str, name: str, inst: Any) -> None:
        function = VECTOR.get(name)
        operands = self._operands(form, name, inst)
        if function is None or "modifiers" in operands or form == "VOP3SD" and "_CO_" in name and "MAD" not in name:
            self._forget(inst)
            return
        values = [operands[key] for key in ("src0", "src1", "src2") if key in operands]
        if name == "V_BITOP3_B32":  # the table of truth is where other instructions have modifiers
            values = [*values, np.full(WAVE, inst.omod << 6 | inst.abs << 3 | inst.neg)]
        if name == "V_CNDMASK_B32":
            values = [*values[:2], self._condition(inst, form)]
        unknown = np.zeros(WAVE, bool)
        for value in values:
            unknown |= value == UNKNOWN
        result = np.where(unknown, UNKNOWN, function(*values) & M32)
        if name.startswith("V_CNDMASK"):
            condition = values[2]
            chosen = np.where(condition == 1, values[1], values[0])
            result = np.where(condition == UNKNOWN, UNKNOWN, chosen)
        self._set_lanes(inst.vdst, result)
        if form.startswith("VOP2") and "_CO_" in name:
            self._set64(_VCC, None)

    def _operands(self, form: str, name: str, inst: Any) -> dict[str, Any]:
        found: dict[str, Any] = {}
        sdwa = "SDWA" in form
        for key, names in (("src0", ("vsrc0", "src0") if sdwa else ("src0",)), ("src1", ("vsrc1", "src1")), ("src2", ("src2",))):
            register = next((getattr(inst, one) for one in names if one in dir(inst)), None)
            if register is None or key == "src1" and form.startswith("VOP1") or key == "src2" and not _takes_three(name):
                continue
            if key == "src1" and name in ("V_NOT_B32", "V_MOV_B32", "V_BFREV_B32"):
                continue
            number = register.offset + (256 if sdwa and key == "src0" and register.offset < 256 else 0)
            value = self._v[number - 256] if number >= 256 else self._lanes(register, inst)
            if sdwa:
                value = np.where(value == UNKNOWN, UNKNOWN, _selected(value, getattr(inst, f"{key}_sel")))
            found[key] = value
        if sdwa and inst.dst_sel != 6:
            found["modifiers"] = True
        return found

    def _condition(self, inst: Any, form: str) -> Any:
        number = inst.src2.offset if form.startswith("VOP3") else _VCC
        low, high = self._s[number], self._s[number + 1]
        if low is None or high is None:
            return np.full(WAVE, UNKNOWN, np.int64)
        return np.array([(high << 32 | low) >> lane & 1 for lane in range(WAVE)], np.int64)

    def _vector_compare(self, form: str, name: str, inst: Any) -> None:
        number = inst.vdst.offset % 256 if form.startswith("VOP3") else inst.sdst.offset if "SDWA" in form else _VCC
        operands = self._operands(form, name, inst)
        result: int | None = None
        mask = self._mask()
        if name.endswith(("_U32", "_I32")) and "modifiers" not in operands:
            a, b = operands["src0"], operands["src1"]
            if not ((a == UNKNOWN) | (b == UNKNOWN))[mask].any():
                pairs = zip(a.tolist(), b.tolist(), strict=True)
                told = [on and compare(name.replace("V_CMPX", "S_CMP").replace("V_CMP", "S_CMP"), x, y)
                        for on, (x, y) in zip(mask.tolist(), pairs, strict=True)]  # fmt: skip
                result = sum(1 << lane for lane, yes in enumerate(told) if yes)
        self._set64(number, result)
        if name.startswith("V_CMPX"):
            self._set64(_EXEC, result)

    def _forget(self, inst: Any) -> None:
        """What an instruction writes is not known here."""
        if "vdst" in dir(inst) and not ("acc_cd" in dir(inst) and inst.acc_cd):
            self._set_lanes(inst.vdst, UNKNOWN, max(1, inst.vdst.sz))
        if "sdst" in dir(inst):
            self._set64(inst.sdst.offset, None)
        if type(inst).__name__.startswith("VOP2") and "_CO_" in inst.op.name:
            self._set64(_VCC, None)


def _numbers(name: str) -> list[str]:
    """The numbers in the name of an instruction."""
    digits = "".join(c if c.isdigit() else " " for c in name)
    return digits.split()


def _takes_three(name: str) -> bool:
    return name in TERNARY or name.startswith("V_CNDMASK")


def _selected(value: Any, select: int) -> Any:
    """The part of a value that the selector of a sub-dword operand takes: bytes 0-3, words 0-1, all."""
    return value >> 8 * select & 0xFF if select < 4 else value >> 16 * (select - 4) & 0xFFFF if select < 6 else value
