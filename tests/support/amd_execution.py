"""Executes the machine code of AMD's GPUs: what compilers left of a kernel computes, by AMD's own definitions.

Instructions are decoded by tinygrad's tables, and each does what the pseudo-code of AMD's manual says (`amd_meaning`).
Ours are: registers, memory and control flow; the few instructions whose definition is in words, which exchange lanes
(`amd_lanes`); the layouts of matrix instructions (`amd_matrices`), by AMD's published calculator. Memory is accessed at
once and in order, and the waves of a work-group run one after the other between barriers: wrong addresses and values are
found, missing waits are not; those are what `amd_waves` follows. A fused multiplication and addition of float32 is
rounded from float64.
"""

import ctypes
import importlib
import re
from collections.abc import Sequence
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
from amd_lanes import exchanged, permuted_rows
from amd_machine_code import KernelCode, family, image, kernel_code
from amd_matrices import multiplied
from amd_meaning import Bits, LaneMask, Memory, Words, evaluate

from tilelang.targets.amd.runtime.device_code import HipCode

_M32, _M64 = (1 << 32) - 1, (1 << 64) - 1
_VCC, _EXEC, _SHARED_BASE, _SCC, _LITERAL = 106, 126, 235, 253, 255
_CODE, _KERNARG, _APERTURE = 1 << 40, 2 << 40, 1 << 44  # where they begin among all addresses
_FIRST_ARRAY = 3
_STEPS = 20_000
_FLOATS = {240: 0.5, 241: -0.5, 242: 1.0, 243: -1.0, 244: 2.0, 245: -2.0, 246: 4.0, 247: -4.0, 248: 0.15915494309189535}
_OPSEL_BYTES = (0, 2, 1, 3)  # the bit of a half comes first
# what waves that run one after another, and access memory at once, need not do
_IN_TURN = ("S_WAIT", "S_NOP", "S_CLAUSE", "S_DELAY_ALU", "S_SENDMSG", "S_SLEEP", "S_SETPRIO", "S_ICACHE", "S_SET_GPR",
            "S_INST_PREFETCH", "S_SET_INST", "S_CODE_END", "S_GL1_INV", "S_DCACHE", "BUFFER_WBL2", "BUFFER_INV",
            "BUFFER_GL", "GLOBAL_INV", "GLOBAL_WB", "S_BARRIER_SIGNAL", "S_TTRACE")  # fmt: skip


def execute(code: HipCode, arrays: Sequence[Any]) -> None:
    """Runs all launches of a compiled program on arrays, in place.

    Args:
        code: Of a program whose parameters are tensors of constant shapes.
        arrays: The arguments.
    """
    views = [_memory_of(np.asarray(array)) for array in arrays]
    # atomic operations on halves access whole words, which allocations of drivers have
    bytes_of = [np.concatenate([view, np.zeros(-len(view) % 4, np.uint8)]) for view in views]
    workspaces = [np.zeros(int(size), np.uint8) for size in code.source.workspaces]
    failed = np.zeros(4, np.uint8)
    spaces = [*bytes_of, *workspaces, failed]
    first = {"tensor": 0, "workspace": len(bytes_of), "failure": len(spaces) - 1}
    for launch in code.source.launches:
        memory = _Addresses(code, spaces)
        kernel = kernel_code(code.binary, launch.name, code.arch)
        numbers = [first[argument.kind] + argument.index for argument in launch.arguments]
        kernarg = b"".join((number + _FIRST_ARRAY << 40).to_bytes(8, "little") for number in numbers)
        memory.spaces[_KERNARG >> 40] = np.frombuffer(kernarg, np.uint8)
        grid = [int(extent) for extent in (*launch.grid, "1", "1", "1")[:3]]
        size = code.resources[launch.name].shared_bytes
        for group in np.ndindex(*reversed(grid)):
            _Group(kernel, memory, code.arch, launch.threads[0], size, tuple(reversed(group))).run()
    for view, made in zip(views, bytes_of, strict=True):
        view[:] = made[: len(view)]
    assert not failed.any(), "an assertion of the program fails"


def _memory_of(array: Any) -> Any:
    """The bytes from the first element of an array to its last, gaps included; strides are not negative."""
    steps = sum((extent - 1) * stride for extent, stride in zip(array.shape, array.strides, strict=True))
    size = steps + array.itemsize if array.size else 0
    return np.frombuffer((ctypes.c_uint8 * size).from_address(array.ctypes.data), np.uint8)


class _Addresses:
    """Memory by address: spaces of 2^40 bytes each, of which a part exists."""

    def __init__(self, code: HipCode, arrays: Sequence[Any]) -> None:
        self.spaces: dict[int, Any] = {number + _FIRST_ARRAY: array for number, array in enumerate(arrays)}
        self.spaces[_CODE >> 40] = np.frombuffer(image(code.binary), np.uint8)

    def load(self, address: Any, size: int, mask: Any) -> Any:
        """Bytes by lanes."""
        found = np.zeros((size, len(mask)), np.uint8)
        for number in np.unique(address[mask] >> np.uint64(40)):
            here = mask & (address >> np.uint64(40) == number)
            place = self._places(number, address[here], size)
            found[:, here] = self.spaces[int(number)][place]
        return found

    def store(self, address: Any, data: Any, mask: Any) -> None:
        """Of lanes that store to one place the last one wins."""
        for lane in np.flatnonzero(mask):
            number = int(address[lane]) >> 40
            place = self._places(number, address[lane : lane + 1], len(data))
            self.spaces[number][place[:, 0]] = data[:, lane]

    def _places(self, number: int, address: Any, size: int) -> Any:
        place = (address & np.uint64((1 << 40) - 1)).astype(np.int64)[None] + np.arange(size)[:, None]
        known = int(number) in self.spaces
        assert known and (place < len(self.spaces[int(number)])).all(), f"{int(address[0]):#x} is beyond all arrays"
        return place


class _Group:
    """A work-group."""

    def __init__(
        self, kernel: KernelCode, memory: _Addresses, arch: str, threads: int, lds: int, group: tuple[int, ...]
    ) -> None:
        lanes = 64 if family(arch) == "cdna" else 32
        memory.spaces[_APERTURE >> 40] = np.zeros(lds, np.uint8)
        self._waves = [_Wave(kernel, memory, arch, n, min(lanes, threads - n * lanes), group, lanes)
                       for n in range(-(-threads // lanes))]  # fmt: skip

    def run(self) -> None:
        running = self._waves
        while running:
            for wave in running:
                wave.run()
            running = [wave for wave in running if not wave.ended]


class _Wave:
    """One wave; see the module."""

    def __init__(
        self, kernel: KernelCode, memory: _Addresses, arch: str, number: int, threads: int, group: tuple[int, ...],
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
        self._s[kernel.kernarg_register : kernel.kernarg_register + 2] = [_KERNARG & _M32, _KERNARG >> 32]
        ids = [one for one, given in zip(group, kernel.group_ids, strict=True) if given]
        if self._family == "rdna4":
            self._s[108 + 9], self._s[108 + 7] = group[0], group[1] | group[2] << 16
        else:
            self._s[kernel.user_registers : kernel.user_registers + len(ids)] = ids
        self._set_mask(_EXEC, (1 << threads) - 1)

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

    # -- registers ------------------------------------------------------------------------------------------
    def _mask_of(self, number: int) -> int:
        """The bits of all lanes."""
        return self._s[number] | (self._s[number + 1] << 32 if self._lanes == 64 else 0)

    def _set_mask(self, number: int, value: int) -> None:
        self._s[number] = value & _M32
        if self._lanes == 64:
            self._s[number + 1] = value >> 32 & _M32

    def _active(self) -> Any:
        return LaneMask(self._mask_of(_EXEC), self._lanes).bits() != 0

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
            value = _APERTURE if number == _SHARED_BASE else self._scc
        else:
            raise NotImplementedError(f"operand {number}")
        return [value >> 32 * n & _M32 for n in range(count)]

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

    # -- control and scalars --------------------------------------------------------------------------------
    def _branch(self, name: str, number: int) -> None:
        jump = {"S_BRANCH": True, "S_CBRANCH_SCC0": not self._scc, "S_CBRANCH_SCC1": bool(self._scc)}.get(name)
        if jump is None:
            zero = self._mask_of(_VCC if "VCC" in name else _EXEC) == 0
            assert name.startswith(("S_CBRANCH_VCC", "S_CBRANCH_EXEC"))
            jump = zero != name.endswith("NZ")
        if jump:
            self._place += 4 * (number - (number >> 15 << 16))

    def _scalar(self, form: str, name: str, inst: Any) -> None:
        bits = inst.op_bits
        names: dict[str, Any] = {"SCC": _one(self._scc), "EXEC": _one(*self._s[_EXEC : _EXEC + 2]),
                                 "VCC": _one(*self._s[_VCC : _VCC + 2]), "M0": _one(self._s[self._m0])}  # fmt: skip
        names["PC"] = _one(*_halves(_CODE + self._kernel.address + self._place - 4))
        for key, operand in (("ssrc0", "S0"), ("ssrc1", "S1")):
            if hasattr(type(inst), key):
                names[operand] = _one(*self._scalar_words(getattr(inst, key).offset, bits.get(key, 32), inst))
        width = bits.get("sdst", 32)
        has_result = hasattr(type(inst), "sdst")
        if has_result:
            names["D0"] = _one(*self._s[inst.sdst.offset : inst.sdst.offset + max(1, width // 32)])
        if form.startswith("SOPK"):  # whose number the manual of CDNA calls the second operand of comparisons
            names["SIMM16"] = names["S1"] = _one(inst.simm16)
            names["S0"] = names["D0"] if "CMPK" in name else names["SIMM16"]
        found = evaluate(self._texts[name], names, np.ones(1, bool))
        if has_result and found["D0"].written.any():
            for n, word in enumerate(found["D0"].words[:, 0]):
                self._s[inst.sdst.offset + n] = int(word)
        if found["EXEC"].written.any():
            self._s[_EXEC : _EXEC + 2] = [int(word) for word in found["EXEC"].words[:, 0]]
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
        names = {"ADDR": _one(*_halves(base + offset)), "SDATA": Words(np.zeros((count, 1), np.uint32)),
                 "MEM": Memory(self._memory.load, self._memory.store)}  # fmt: skip
        found = evaluate(self._texts[name], names, np.ones(1, bool))
        self._s[inst.sdata.offset : inst.sdata.offset + count] = [int(word) for word in found["SDATA"].words[:, 0]]

    # -- memory ---------------------------------------------------------------------------------------------
    def _access(self, form: str, name: str, inst: Any) -> None:
        active = self._active()
        if name.startswith(("DS_SWIZZLE", "DS_BPERMUTE", "DS_PERMUTE", "DS_READ_B64_TR")):
            self._exchange(name, inst, active)
            return
        names: dict[str, Any] = {}
        if form == "DS":
            address = self._v[inst.addr.offset - 256].astype(np.uint64)
            offset = inst.offset1 << 8 | inst.offset0
            names["OFFSET"] = Bits.of(np.full(self._lanes, offset), "u", 32)
            names["OFFSET0"], names["OFFSET1"] = (Bits.of(np.full(self._lanes, n), "u", 32)
                                                  for n in (inst.offset0, inst.offset1))  # fmt: skip
            # texts either add the offset, or mean an address that has it
            at = np.uint64(_APERTURE + (0 if "+ OFFSET" in self._texts[name] else offset))
        elif form in ("MUBUF", "VBUFFER"):
            address, at = self._buffer_address(inst), np.uint64(0)
        else:
            address, at = self._flat_address(form, inst), np.uint64(0)
        if "_LDS_" in name:
            self._direct(name, inst, address, active)
            return
        names["ADDR"] = Words(np.stack([address & np.uint64(_M32), address >> np.uint64(32)]))

        def load(place: Any, size: int, _: Any) -> Any:
            return self._memory.load(place + at, size, mask)

        def store(place: Any, data: Any, where: Any) -> None:
            self._memory.store(place + at, data, where)

        accumulators = 256 if getattr(inst, "acc", 0) else 0
        target = self._target(name, inst, accumulators)
        loaded = "VDATA" if "_LOAD_" in name and form != "DS" else "RETURN_DATA"
        lanes = [active]
        if "ATOMIC" in name or re.match("DS_(?!READ|WRITE|LOAD|STORE)", name):  # one lane after another
            lanes = [active & (np.arange(self._lanes) == lane) for lane in np.flatnonzero(active)]
        for mask in lanes:
            run = dict(names, MEM=Memory(load, store), **self._data(inst, accumulators))
            if target is not None:
                run[loaded] = Words(self._v[target : target + _assigned_words(self._texts[name], loaded)])
            found = evaluate(self._texts[name], run, mask)
            if target is not None:
                self._write(target, found[loaded], mask)

    def _target(self, name: str, inst: Any, accumulators: int) -> int | None:
        """The first register that is loaded; None where nothing is returned."""
        returns = getattr(inst, "sc0", 0) or getattr(inst, "glc", 0) or getattr(inst, "th", 0) & 1
        if "ATOMIC" in name and not returns:
            return None
        key = "vdata" if name.startswith("BUFFER_LOAD") else "vdst"
        return getattr(inst, key).offset - 256 + accumulators if key in inst.op_bits else None

    def _data(self, inst: Any, accumulators: int) -> dict[str, Any]:
        """What is stored."""
        found = {}
        for key, name in (("data0", "DATA"), ("data1", "DATA2"), ("data", "VDATA"), ("vsrc", "VDATA")):
            if key in inst.op_bits:
                first = getattr(inst, key).offset - 256 + accumulators
                found[name] = Words(self._v[first : first + max(1, inst.op_bits[key] // 32)])
                if name == "VDATA":
                    found["DATA"] = found[name]
        return found

    def _flat_address(self, form: str, inst: Any) -> Any:
        vector = (inst.vaddr if hasattr(type(inst), "vaddr") else inst.addr).offset - 256
        low = self._v[vector].astype(np.uint64)
        scalar = inst.saddr.offset
        offset, bits = (inst.ioffset, 24) if hasattr(type(inst), "ioffset") else (inst.offset, 13)
        offset -= offset >> bits - 1 << bits
        if "GLOBAL" in form and scalar not in (124, 125, 127):
            base = self._s[scalar] | self._s[scalar + 1] << 32
            return low + np.uint64(base + offset)
        whole = low | self._v[vector + 1].astype(np.uint64) << np.uint64(32)
        return whole + np.uint64(offset & _M64)

    def _buffer_address(self, inst: Any) -> Any:
        """By a resource without bounds and formats, offsets of lanes, and one of all lanes."""
        assert inst.offen and not inst.idxen, "a buffer load without offsets of lanes"
        first = inst.rsrc if hasattr(type(inst), "rsrc") else inst.srsrc.offset
        low, high, size, kind = self._s[first : first + 4]
        assert (high >> 16, size, kind) == (0, _M32, 0x20000 if self._family == "cdna" else 0x31004000)
        moved = self._scalar_words(inst.soffset.offset, 32, inst)[0]
        constant = inst.ioffset if hasattr(type(inst), "ioffset") else inst.offset
        lanes = self._v[inst.vaddr.offset - 256].astype(np.uint64)
        return lanes + np.uint64((low | high << 32) + moved + constant)

    def _direct(self, name: str, inst: Any, address: Any, active: Any) -> None:
        """A load to LDS, which the lanes fill one after another from M0 on."""
        size = {"DWORDX4": 16, "DWORDX3": 12}.get(name.rpartition("_")[2], 4)
        data = self._memory.load(address, size, active)
        first = _APERTURE + self._s[self._m0]
        place = np.uint64(first) + np.uint64(size) * np.arange(self._lanes, dtype=np.uint64)
        self._memory.store(place, data, active)

    def _exchange(self, name: str, inst: Any, active: Any) -> None:
        offset = inst.offset1 << 8 | inst.offset0
        address = self._v[inst.addr.offset - 256]
        if "_TR_" in name:
            place = np.uint64(_APERTURE + offset) + address.astype(np.uint64)
            data = self._memory.load(place, 8, active).T.copy().view(np.uint16)
            result = exchanged(name, offset, address, data)
        else:
            source = inst.addr if "SWIZZLE" in name else inst.data0
            result = exchanged(name, offset, address, np.where(active, self._v[source.offset - 256], 0))[None]
        first = inst.vdst.offset - 256 + (256 if getattr(inst, "acc", 0) else 0)
        for n, word in enumerate(result):
            self._v[first + n] = np.where(active, word, self._v[first + n])

    # -- vectors --------------------------------------------------------------------------------------------
    def _write(self, first: int, value: Words, mask: Any) -> None:
        for n, word in enumerate(value.words):
            self._v[first + n] = np.where(mask, word, self._v[first + n])

    def _context(self, inst: Any) -> dict[str, Any]:
        names: dict[str, Any] = {"laneId": Bits.of(np.arange(self._lanes), "u", 32), "TEXTS": self._texts}
        names["FLOAT8"] = self._float8
        names["ROUND_MODE"] = names["ROUND_NEAREST_EVEN"] = Bits.of(np.zeros(self._lanes), "u", 32)
        names["VCC"], names["EXEC"] = (LaneMask(self._mask_of(number), self._lanes) for number in (_VCC, _EXEC))
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
            number = inst.sdst.offset if form.startswith("VOP3SD") else _VCC
            if number != 249 - self._m0:
                self._set_mask(number, _packed_bits(carry & active))

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
        for key, number in (("EXEC", _EXEC), ("D0", -1)):
            if found[key].written is None:
                continue
            if number < 0:
                number = inst.vdst.offset if "VOP3" in form else inst.sdst.offset if "SDST" in form and inst.sd else _VCC
            self._set_mask(number, _packed_bits(found[key].written & active))

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


@cache
def _texts(which: str) -> dict[str, str]:
    """The pseudo-code of all instructions of a family, by name."""
    found = importlib.import_module(f"tinygrad.runtime.autogen.amd.{which}.str_pcode").PCODE
    texts = {op.name: text for op, text in found.items()}
    for name in list(texts):  # the long form of an instruction means what the short one does
        texts.setdefault(f"{name.removesuffix('_E32')}_E64", texts[name])
    return texts


@cache
def _assigned_words(text: str, name: str) -> int:
    """How many words of an operand a text assigns, at least one."""
    bits = [int(high or -1) + 1 or int(width) for high, width in re.findall(rf"{name}(?:\[(\d+) :|\.[a-z]+(\d+))", text)]
    return max(1, -(-max(bits, default=32) // 32))


def _one(*words: int) -> Words:
    """A scalar, as words of one lane."""
    return Words(np.array(words, np.uint32)[:, None])


def _halves(value: int) -> tuple[int, int]:
    return value & _M32, value >> 32 & _M32


def _packed_bits(bits: Any) -> int:
    return sum(int(bit) << lane for lane, bit in enumerate(bits))


def _modify(name: str, result: Words, inst: Any, names: dict[str, Any]) -> None:
    """Multiplies by a power of two and bounds a float, or bounds an integer, as output modifiers say."""
    bits = inst.op_bits.get("vdst", 32)
    whole = re.match(r"V_(ADD|SUB|SUBREV)_(NC_)?U32", name)
    if whole is not None:
        a, b = (names[operand].words[0].astype(np.int64) for operand in ("S0", "S1"))
        result.words[0] = np.clip({"ADD": a + b, "SUB": a - b, "SUBREV": b - a}[whole[1]], 0, _M32).astype(np.uint32)
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
