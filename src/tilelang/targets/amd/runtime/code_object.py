"""Reads the metadata of AMD code objects: registers, spills and shared memory of kernels.

Takes the bytes of an ELF file, gives `CodeObject`. Invariant: only the note with the metadata is read; a file that is
no code object is a `ToolchainError`.

Source: LLVM, "User Guide for AMDGPU Backend", "Note Records" and "Code Object V5 Metadata"; the MessagePack format
specification.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from tilelang.errors import ToolchainError
from tilelang.records import record

_MACHINE = 224  # EM_AMDGPU
_NOTES = 4  # PT_NOTE
_OWNER, _METADATA = b"AMDGPU\0", 32  # NT_AMDGPU_METADATA
_HEADER = struct.Struct("<4sBBBB8xHHIQQQIHHH")  # Elf64_Ehdr up to e_phnum
_SEGMENT = struct.Struct("<II6Q")  # Elf64_Phdr
_NOTE = struct.Struct("<III")  # Elf64_Nhdr


@record
class KernelMetadata:
    """One kernel of a code object.

    Attributes:
        name: The kernel's.
        vector_registers: VGPRs of a lane; with the `accumulators` where both share a register file.
        accumulators: AGPRs of a lane.
        scalar_registers: Of a wave.
        spilled_registers: Vector registers that are spilled, to memory or to AGPRs.
        shared_bytes: Static LDS; a launch may add dynamic LDS.
        private_bytes: Scratch memory of a lane: spilled registers, and arrays with dynamic indices.
        wave_size: Lanes of a wave.
        max_threads: The work-group size that the code was compiled for.
        argument_bytes: All arguments together.
        has_dynamic_stack: Whether `private_bytes` is only a part of the memory of a lane.
    """

    name: str
    vector_registers: int
    accumulators: int
    scalar_registers: int
    spilled_registers: int
    shared_bytes: int
    private_bytes: int
    wave_size: int
    max_threads: int
    argument_bytes: int
    has_dynamic_stack: bool


@record
class CodeObject:
    """A code object.

    Attributes:
        target: What it was compiled for, as "amdgcn-amd-amdhsa--gfx942".
        kernels: By name.
    """

    target: str
    kernels: dict[str, KernelMetadata]


def read_code_object(data: bytes) -> CodeObject:
    """The metadata of a code object.

    Raises:
        ToolchainError: The bytes are no code object, or have no metadata.
    """
    try:
        metadata = _MessagePackReader(_metadata_note(data)).value()
        kernels = [_kernel(entry) for entry in metadata["amdhsa.kernels"]]
        return CodeObject(metadata.get("amdhsa.target", ""), {kernel.name: kernel for kernel in kernels})
    except (struct.error, IndexError, KeyError, TypeError, ValueError) as error:
        what = f"{type(error).__name__}: {error}"
        raise ToolchainError(f"what the compiler gave is no code object for AMD GPUs: {what}") from None


def _kernel(entry: dict[str, Any]) -> KernelMetadata:
    return KernelMetadata(
        name=entry[".name"],
        vector_registers=entry[".vgpr_count"],
        accumulators=entry.get(".agpr_count", 0),
        scalar_registers=entry[".sgpr_count"],
        spilled_registers=entry.get(".vgpr_spill_count", 0),
        shared_bytes=entry[".group_segment_fixed_size"],
        private_bytes=entry[".private_segment_fixed_size"],
        wave_size=entry[".wavefront_size"],
        max_threads=entry[".max_flat_workgroup_size"],
        argument_bytes=entry[".kernarg_segment_size"],
        has_dynamic_stack=entry.get(".uses_dynamic_stack", False),
    )


# -- ELF -----------------------------------------------------------------------------------------------------
def _metadata_note(data: bytes) -> bytes:
    """The text of the note that holds the metadata."""
    magic, width, order, _, _, _, machine, _, _, segments, _, _, _, size, count = _HEADER.unpack_from(data)
    if (magic, width, order, machine) != (b"\x7fELF", 2, 1, _MACHINE):
        raise ValueError("not an ELF file of 64 bits for AMD GPUs")
    for index in range(count):
        kind, _, offset, _, _, length, *_ = _SEGMENT.unpack_from(data, segments + index * size)
        if kind == _NOTES:
            for owner, number, text in _notes(data[offset : offset + length]):
                if (owner, number) == (_OWNER, _METADATA):
                    return text
    raise ValueError("no metadata")


def _notes(data: bytes) -> Iterator[tuple[bytes, int, bytes]]:
    """The owner, the number and the text of each note of a segment."""
    place = 0
    while place < len(data):
        owner_bytes, text_bytes, number = _NOTE.unpack_from(data, place)
        owner = place + _NOTE.size
        text = owner + _aligned(owner_bytes)
        yield data[owner : owner + owner_bytes], number, data[text : text + text_bytes]
        place = text + _aligned(text_bytes)


def _aligned(count: int) -> int:
    return -(-count // 4) * 4


# -- MessagePack ---------------------------------------------------------------------------------------------
_CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}
_NUMBERS = {
    0xCA: ">f", 0xCB: ">d", 0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q", 0xD0: ">b", 0xD1: ">h", 0xD2: ">i",
    0xD3: ">q",
}  # fmt: skip
_LENGTHS = {0xD9: ">B", 0xDA: ">H", 0xDB: ">I", 0xDC: ">H", 0xDD: ">I", 0xDE: ">H", 0xDF: ">I"}


class _MessagePackReader:
    """Reads MessagePack values: maps, arrays, texts, numbers, booleans.

    Args:
        data: The text.
    """

    def __init__(self, data: bytes) -> None:
        self._data, self._place = data, 0

    def value(self) -> Any:
        """The next value."""
        tag = self._number(">B")
        if tag in _CONSTANTS:
            return _CONSTANTS[tag]
        if tag in _NUMBERS:
            return self._number(_NUMBERS[tag])
        if tag < 0x80 or tag >= 0xE0:
            return tag if tag < 0x80 else tag - 0x100
        length = self._number(_LENGTHS[tag]) if tag in _LENGTHS else tag & (0x1F if 0xA0 <= tag < 0xC0 else 0x0F)
        if tag in (0xD9, 0xDA, 0xDB) or 0xA0 <= tag < 0xC0:
            return self._text(length)
        if tag in (0xDC, 0xDD) or 0x90 <= tag < 0xA0:
            return [self.value() for _ in range(length)]
        if tag in (0xDE, 0xDF) or 0x80 <= tag < 0x90:
            return {self.value(): self.value() for _ in range(length)}
        raise ValueError(f"a value of the kind {tag:#x} in the metadata")

    def _number(self, form: str) -> Any:
        (value,) = struct.unpack_from(form, self._data, self._place)
        self._place += struct.calcsize(form)
        return value

    def _text(self, length: int) -> str:
        text = self._data[self._place : self._place + length]
        if len(text) < length:
            raise ValueError("the metadata end early")
        self._place += length
        return text.decode()
