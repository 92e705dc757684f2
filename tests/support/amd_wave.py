"""A wave: control flow, scalar instructions, and which class executes the others; see `amd_execution`."""

from typing import Any

import numpy as np
from amd_accesses import Accesses
from amd_meaning import evaluate
from amd_registers import CODE, EXEC, VCC, halves, one
from amd_values import Memory, Words
from amd_vectors import Vectors

_STEPS = 20_000
# what waves that run one after another, and access memory at once, need not do
_IN_TURN = ("S_WAIT", "S_NOP", "S_CLAUSE", "S_DELAY_ALU", "S_SENDMSG", "S_SLEEP", "S_SETPRIO", "S_ICACHE", "S_SET_GPR",
            "S_INST_PREFETCH", "S_SET_INST", "S_CODE_END", "S_GL1_INV", "S_DCACHE", "BUFFER_WBL2", "BUFFER_INV",
            "BUFFER_GL", "GLOBAL_INV", "GLOBAL_WB", "S_BARRIER_SIGNAL", "S_TTRACE")  # fmt: skip


class Wave(Accesses, Vectors):
    """One wave; see `amd_execution`."""

    def run(self) -> None:
        """Runs up to the next barrier, or the end."""
        for _ in range(_STEPS):
            inst = self._kernel.instructions[self._place]
            self._place += inst.size()
            if type(inst).__name__.startswith("VOPD"):
                self._double(inst)
                continue
            name = inst.op.name
            if name == "S_ENDPGM":
                self.ended = True
                return
            if name in ("S_BARRIER", "S_BARRIER_WAIT"):
                return
            try:
                self._step(type(getattr(inst, "inst", inst)).__name__, name, inst)
            except (NotImplementedError, SyntaxError, AssertionError) as error:
                raise AssertionError(f"at {self._place - inst.size():#x}, {name}: {error}") from error
        raise AssertionError("the kernel does not end")

    def _step(self, form: str, name: str, inst: Any) -> None:
        if name.startswith(_IN_TURN):
            return
        if form == "SOPP":
            self._branch(name, inst.simm16)
        elif form.startswith("SOP"):
            self._scalar(form, name, inst)
        elif form == "SMEM":
            self._scalar_load(name, inst)
        elif form in ("DS", "GLOBAL", "VGLOBAL", "FLAT", "VFLAT", "MUBUF", "VBUFFER"):
            self._access(form, name, inst)
        elif "WMMA" in name or "MFMA" in name:
            self._matrix(name, inst)
        elif form.startswith("VOP3P"):
            self._packed(name, inst)
        else:
            self._vector(form, name, inst)

    def _branch(self, name: str, number: int) -> None:
        jump = {"S_BRANCH": True, "S_CBRANCH_SCC0": not self._scc, "S_CBRANCH_SCC1": bool(self._scc)}.get(name)
        if jump is None:
            zero = self._mask_of(VCC if "VCC" in name else EXEC) == 0
            assert name.startswith(("S_CBRANCH_VCC", "S_CBRANCH_EXEC"))
            jump = zero != name.endswith("NZ")
        if jump:
            self._place += 4 * (number - (number >> 15 << 16))

    def _scalar(self, form: str, name: str, inst: Any) -> None:
        bits = inst.op_bits
        names: dict[str, Any] = {"SCC": one(self._scc), "EXEC": one(*self._s[EXEC : EXEC + 2]),
                                 "VCC": one(*self._s[VCC : VCC + 2]), "M0": one(self._s[self._m0])}  # fmt: skip
        names["PC"] = one(*halves(CODE + self._kernel.address + self._place - 4))
        for key, operand in (("ssrc0", "S0"), ("ssrc1", "S1")):
            if hasattr(type(inst), key):
                names[operand] = one(*self._scalar_words(getattr(inst, key).offset, bits.get(key, 32), inst))
        width = bits.get("sdst", 32)
        has_result = hasattr(type(inst), "sdst")
        if has_result:
            names["D0"] = one(*self._s[inst.sdst.offset : inst.sdst.offset + max(1, width // 32)])
        if form.startswith("SOPK"):  # whose number the manual of CDNA calls the second operand of comparisons
            names["SIMM16"] = names["S1"] = one(inst.simm16)
            names["S0"] = names["D0"] if "CMPK" in name else names["SIMM16"]
        found = evaluate(self._texts[name], names, np.ones(1, bool))
        if has_result and found["D0"].written.any():
            for n, word in enumerate(found["D0"].words[:, 0]):
                self._s[inst.sdst.offset + n] = int(word)
        if found["EXEC"].written.any():
            self._s[EXEC : EXEC + 2] = [int(word) for word in found["EXEC"].words[:, 0]]
        if found["SCC"].written.any():
            self._scc = int(found["SCC"].words[0, 0] & 1)

    def _scalar_load(self, name: str, inst: Any) -> None:
        offset = inst.ioffset if hasattr(type(inst), "ioffset") else inst.offset
        bits = 24 if hasattr(type(inst), "ioffset") else 21
        offset -= offset >> bits - 1 << bits
        if self._family == "cdna":
            assert inst.imm and not inst.soffset_en
        elif inst.soffset.offset != 124:
            offset += self._s[inst.soffset.offset]
        base = self._s[inst.sbase.offset] | self._s[inst.sbase.offset + 1] << 32
        count = inst.op_bits["sdata"] // 32
        names = {"ADDR": one(*halves(base + offset)), "SDATA": Words(np.zeros((count, 1), np.uint32)),
                 "MEM": Memory(self._memory.load, self._memory.store)}  # fmt: skip
        found = evaluate(self._texts[name], names, np.ones(1, bool))
        self._s[inst.sdata.offset : inst.sdata.offset + count] = [int(word) for word in found["SDATA"].words[:, 0]]
