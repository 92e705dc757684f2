"""The instructions of a kernel in a compiled AMD code object, decoded by tinygrad's tables.

Needs the package tinygrad, of which only the decoder is used: tables that it makes of AMD's own machine-readable
manuals, so that what we read here comes from another source than what we print.
"""

import importlib
import struct
from dataclasses import dataclass
from typing import Any

import pytest

decoder: Any = pytest.importorskip("tinygrad.renderer.amd", reason="needs tinygrad, whose tables decode machine code")

_SECTION = struct.Struct("<IIQQQQIIQQ")  # Elf64_Shdr
_SYMBOL = struct.Struct("<IBBHQQ")  # Elf64_Sym
_SYMBOLS = 11  # SHT_DYNSYM
_SEGMENT = struct.Struct("<II6Q")  # Elf64_Phdr
_LOAD = 1  # PT_LOAD
_DPP16 = 250  # as the first operand
_BUFFER_FORMATS = {"rdna3": ("MUBUF", 0b111000), "rdna4": ("VBUFFER", 0b110001)}


@dataclass
class KernelCode:
    """A kernel.

    Attributes:
        instructions: By offset from its first one, in order.
        user_registers: How many scalar registers are filled before it starts; the last of them that hold work-group ids
            come after.
        kernarg_register: The first of the two that hold the address of the arguments.
        group_ids: Which of the work-group's three ids are given, one register each after the user's.
        address: Of the first instruction, in the image of the code object.
    """

    instructions: dict[int, Any]
    user_registers: int
    kernarg_register: int
    group_ids: tuple[bool, bool, bool]
    address: int = 0


def family(arch: str) -> str:
    """What tinygrad calls the instruction set of an architecture."""
    return "cdna" if arch.startswith("gfx9") else "rdna3" if arch.startswith("gfx11") else "rdna4"


def kernel_code(binary: bytes, name: str, arch: str) -> KernelCode:
    """The instructions of a kernel, and what its descriptor says about registers.

    Source: LLVM, "User Guide for AMDGPU Backend", "Kernel Descriptor" and "Initial Kernel Execution State".
    """
    sections = _sections(binary)
    symbols = _symbols(binary, sections)
    start, size = symbols[name]
    code = _bytes_at(binary, sections, start, size)
    descriptor = _bytes_at(binary, sections, symbols[f"{name}.kd"][0], 64)
    (rsrc2,) = struct.unpack_from("<I", descriptor, 52)
    properties, preload = struct.unpack_from("<HH", descriptor, 56)
    assert preload == 0, "arguments in registers are not read here"
    before = 4 * (properties & 1) + 2 * (properties >> 1 & 1) + 2 * (properties >> 2 & 1)
    assert properties >> 3 & 1, "a kernel without arguments"
    return KernelCode(
        _decoded(code, family(arch)),
        rsrc2 >> 1 & 31,
        before,
        (bool(rsrc2 >> 7 & 1), bool(rsrc2 >> 8 & 1), bool(rsrc2 >> 9 & 1)),
        start,
    )


def image(binary: bytes) -> bytes:
    """What a loader makes of a code object: the bytes of all segments, by address."""
    (first,) = struct.unpack_from("<Q", binary, 32)
    size, count = struct.unpack_from("<HH", binary, 54)
    made = bytearray()
    for n in range(count):
        kind, _, offset, address, _, length, in_memory, _ = _SEGMENT.unpack_from(binary, first + n * size)
        if kind == _LOAD:
            made.extend(bytes(max(0, address + in_memory - len(made))))
            made[address : address + length] = binary[offset : offset + length]
    return bytes(made)


def _decoded(code: bytes, instruction_set: str) -> dict[int, Any]:
    found: dict[int, Any] = {}
    place = 0
    while place < len(code):
        found[place] = _instruction(code[place:], instruction_set)
        if type(found[place]).__name__.startswith("VOP3") and _is_permuted(found[place]):
            place_of_control = place + found[place].size()
            found[place] = Permuted(found[place], *struct.unpack_from("<I", code, place_of_control))
        place += found[place].size()
    return found


def _instruction(code: bytes, instruction_set: str) -> Any:
    """The first instruction; the decoder of tinygrad overlooks the format of buffer accesses on RDNA."""
    name, encoding = _BUFFER_FORMATS.get(instruction_set, ("", None))
    if struct.unpack_from("<I", code)[0] >> 26 != encoding:
        return decoder.decode_inst(code, instruction_set)
    return getattr(importlib.import_module(f"tinygrad.runtime.autogen.amd.{instruction_set}.ins"), name).from_bytes(code)


def _is_permuted(inst: Any) -> bool:
    source = getattr(inst, "src0", None)
    return source is not None and source.offset == _DPP16


class Permuted:
    """An instruction of three operands with a word of data-parallel control, which tinygrad's tables lack.

    Args:
        inst: Without that word.
        control: The word.
    """

    def __init__(self, inst: Any, control: int) -> None:
        self.inst = inst
        self.vsrc0 = decoder.dsl.v[control & 0xFF]
        self.dpp, self.bc = control >> 8 & 0x1FF, control >> 19 & 1
        self.row_mask, self.bank_mask = control >> 28, control >> 24 & 15

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inst, name)

    def size(self) -> int:
        """In bytes."""
        return int(self.inst.size()) + 4


def _sections(binary: bytes) -> list[tuple[int, ...]]:
    (first,) = struct.unpack_from("<Q", binary, 40)
    size, count = struct.unpack_from("<HH", binary, 58)
    return [_SECTION.unpack_from(binary, first + n * size) for n in range(count)]


def _symbols(binary: bytes, sections: list[tuple[int, ...]]) -> dict[str, tuple[int, int]]:
    """The address and size of each symbol."""
    found = {}
    for section in sections:
        if section[1] == _SYMBOLS:
            names = sections[section[6]][4]
            for place in range(section[4], section[4] + section[5], _SYMBOL.size):
                name, _, _, _, value, size = _SYMBOL.unpack_from(binary, place)
                found[binary[names + name : binary.index(b"\0", names + name)].decode()] = (value, size)
    return found


def _bytes_at(binary: bytes, sections: list[tuple[int, ...]], address: int, size: int) -> bytes:
    for _, kind, _, start, offset, length, *_ in sections:
        if kind and start <= address < start + length:
            return binary[offset + address - start :][:size]
    raise AssertionError(f"nothing is at {address:#x}")
