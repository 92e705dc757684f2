"""Accesses of a wave to memory; see `amd_execution`."""

import re
from functools import cache
from typing import Any

import numpy as np
from amd_lanes import exchanged
from amd_meaning import evaluate
from amd_registers import APERTURE, M32, M64, Registers
from amd_values import Bits, Memory, Words


class Accesses(Registers):
    """A wave that executes instructions of memory."""

    def _access(self, form: str, name: str, inst: Any) -> None:
        active = self._active()
        if name.startswith(("DS_SWIZZLE", "DS_BPERMUTE", "DS_PERMUTE", "DS_READ_B64_TR")):
            self._exchange(name, inst, active)
            return
        names: dict[str, Any] = {}
        moved, bits, base = 0, M64, 0  # what is added to an address, what it has, and where its memory begins
        if form == "DS":
            address = self._v[inst.addr.offset - 256].astype(np.uint64)
            offset = inst.offset1 << 8 | inst.offset0
            names["OFFSET"] = Bits.of(np.full(self._lanes, offset), "u", 32)
            names["OFFSET0"], names["OFFSET1"] = (Bits.of(np.full(self._lanes, n), "u", 32)
                                                  for n in (inst.offset0, inst.offset1))  # fmt: skip
            # texts either add the offset, or mean an address that has it; an address of LDS has 32 bits
            moved, bits, base = 0 if "+ OFFSET" in self._texts[name] else offset, M32, APERTURE
        elif form in ("MUBUF", "VBUFFER"):
            address, inside = self._buffer_address(inst)
            if form == "MUBUF" and getattr(inst, "lds", 0):
                self._direct(name, inst, address, active, inside)
                return
            if not inside[active].all():  # loads give zeros beyond the resource
                assert name.startswith("BUFFER_LOAD")
                first = inst.vdata.offset - 256 + (256 if getattr(inst, "acc", 0) else 0)
                for n in range(max(1, inst.op_bits["vdata"] // 32)):
                    self._v[first + n] = np.where(active & ~inside, 0, self._v[first + n])
                active = active & inside
        else:
            address = self._flat_address(form, inst)
        if "_LDS_" in name:
            self._direct(name, inst, address, active, active)
            return
        names["ADDR"] = Words(np.stack([address & np.uint64(M32), address >> np.uint64(32)]))

        def at(place: Any) -> Any:
            return np.uint64(base) + (place + np.uint64(moved) & np.uint64(bits))

        def load(place: Any, size: int, _: Any) -> Any:
            return self._memory.load(at(place), size, mask)

        def store(place: Any, data: Any, where: Any) -> None:
            self._memory.store(at(place), data, where)

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
        return whole + np.uint64(offset & M64)

    def _buffer_address(self, inst: Any) -> tuple[Any, Any]:
        """By a resource without formats, offsets of lanes, and one of all lanes; and which are within its bounds."""
        assert inst.offen and not inst.idxen, "a buffer load without offsets of lanes"
        first = inst.rsrc if hasattr(type(inst), "rsrc") else inst.srsrc.offset
        low, high, size, kind = self._s[first : first + 4]
        assert (high >> 16, kind) == (0, 0x20000 if self._family == "cdna" else 0x31004000)
        moved = self._scalar_words(inst.soffset.offset, 32, inst)[0]
        constant = inst.ioffset if hasattr(type(inst), "ioffset") else inst.offset
        lanes = self._v[inst.vaddr.offset - 256].astype(np.uint64)
        end = lanes + np.uint64(moved + constant + max(1, inst.op_bits["vdata"] // 8))
        return lanes + np.uint64((low | high << 32) + moved + constant), end <= size

    def _direct(self, name: str, inst: Any, address: Any, active: Any, inside: Any) -> None:
        """A load to LDS, which the lanes fill one after another from M0 and the instruction's offset on.

        Lanes beyond the bounds of a resource write zeros.
        """
        size = {"DWORDX4": 16, "DWORDX3": 12}.get(name.rpartition("_")[2], 4)
        data = np.where(active & inside, self._memory.load(address, size, active & inside), 0)
        offset = inst.offset if "_LDS_" not in name else inst.offset - (inst.offset >> 12 << 13)
        first = APERTURE + self._s[self._m0] + offset
        place = np.uint64(first) + np.uint64(size) * np.arange(self._lanes, dtype=np.uint64)
        self._memory.store(place, data, active)

    def _exchange(self, name: str, inst: Any, active: Any) -> None:
        offset = inst.offset1 << 8 | inst.offset0
        address = self._v[inst.addr.offset - 256]
        if "_TR_" in name:
            place = np.uint64(APERTURE + offset) + address.astype(np.uint64)
            data = self._memory.load(place, 8, active).T.copy().view(np.uint16)
            result = exchanged(name, offset, address, data)
        else:
            source = inst.addr if "SWIZZLE" in name else inst.data0
            result = exchanged(name, offset, address, np.where(active, self._v[source.offset - 256], 0))[None]
        first = inst.vdst.offset - 256 + (256 if getattr(inst, "acc", 0) else 0)
        for n, word in enumerate(result):
            self._v[first + n] = np.where(active, word, self._v[first + n])


@cache
def _assigned_words(text: str, name: str) -> int:
    """How many words of an operand a text assigns, at least one."""
    bits = [int(high or -1) + 1 or int(width) for high, width in re.findall(rf"{name}(?:\[(\d+) :|\.[a-z]+(\d+))", text)]
    return max(1, -(-max(bits, default=32) // 32))
