import struct
from typing import Any

import pytest
from hip_kernels import ARCHES, GEMM, REVERSE, SPILLING, needs_clang

from tilelang.errors import ToolchainError
from tilelang.targets.amd.runtime.code_object import KernelMetadata, read_code_object
from tilelang.targets.amd.runtime.toolchain import find_clang


def compiled(text: str, arch: str) -> bytes:
    made = find_clang().compile(text, arch, ("-O3",))
    assert made.code is not None, made.log
    return made.code


def packed(value: Any) -> bytes:
    """MessagePack in the short forms."""
    if value is None:
        return b"\xc0"
    if isinstance(value, bool):
        return b"\xc3" if value else b"\xc2"
    if isinstance(value, int):
        return struct.pack("b", value) if -32 <= value < 128 else b"\xd3" + struct.pack(">q", value)
    if isinstance(value, str):
        text = value.encode()
        return (bytes([0xA0 | len(text)]) if len(text) < 32 else b"\xd9" + bytes([len(text)])) + text
    if isinstance(value, list):
        return bytes([0x90 | len(value)]) + b"".join(map(packed, value))
    return bytes([0x80 | len(value)]) + b"".join(packed(k) + packed(v) for k, v in value.items())


KERNEL = {
    ".name": "k", ".vgpr_count": 300, ".sgpr_count": 7, ".group_segment_fixed_size": 65536, ".wavefront_size": 64,
    ".private_segment_fixed_size": 0, ".max_flat_workgroup_size": 256, ".kernarg_segment_size": 24,
}  # fmt: skip


def elf(text: bytes, owner: bytes = b"AMDGPU\0", number: int = 32, machine: int = 224) -> bytes:
    """A file of a header, one segment of notes, and a note of another owner before that with the text."""
    notes = b""
    for name, kind, content in ((b"GNU\0", 1, b"abc"), (owner, number, text)):
        notes += struct.pack("<III", len(name), len(content), kind)
        notes += name.ljust(-(-len(name) // 4) * 4, b"\0") + content.ljust(-(-len(content) // 4) * 4, b"\0")
    header = struct.pack(
        "<4sBBBB8xHHIQQQIHHHHHH", b"\x7fELF", 2, 1, 1, 64, 3, machine, 1, 0, 64, 0, 0x4C, 64, 56, 1, 0, 0, 0
    )
    return header + struct.pack("<II6Q", 4, 4, 120, 0, 0, len(notes), len(notes), 4) + notes


@needs_clang
@pytest.mark.parametrize("arch", ARCHES)
def test_a_kernel_says_its_registers_memory_and_waves(arch: str) -> None:
    found = read_code_object(compiled(REVERSE, arch))
    assert f"amdgcn-amd-amdhsa--{arch}" == found.target
    kernel = found.kernels["reverse"]
    assert (1024, 0, 0, 256) == (
        kernel.shared_bytes, kernel.private_bytes, kernel.spilled_registers, kernel.max_threads
    )  # fmt: skip
    assert (64 if arch.startswith("gfx9") else 32) == kernel.wave_size
    assert 0 < kernel.vector_registers < 32
    assert kernel.argument_bytes >= 16
    assert not kernel.has_dynamic_stack


@needs_clang
def test_a_kernel_that_spills_says_so() -> None:
    kernel = read_code_object(compiled(SPILLING, "gfx942")).kernels["spilling"]
    assert 128 == kernel.vector_registers  # 512 of a SIMD for the four waves that 1024 threads put there
    assert kernel.spilled_registers > 100
    assert kernel.private_bytes >= 4 * kernel.spilled_registers


@needs_clang
def test_accumulators_are_counted_among_the_registers() -> None:
    """Asks for them, since clang 22 has none where others suffice."""
    text = GEMM.replace("THREADS(256) void", '__attribute__((amdgpu_flat_work_group_size(256, 256))) void')
    asm = 'asm volatile("v_accvgpr_write_b32 a7, 0" ::: "a7");'
    kernel = read_code_object(compiled(text.replace("sum[2][2] = {};", f"sum[2][2] = {{}}; {asm}"), "gfx942"))
    assert 8 == kernel.kernels["gemm"].accumulators
    assert kernel.kernels["gemm"].vector_registers > 64 + 8


def test_metadata_are_read_by_their_format() -> None:
    metadata = {
        "amdhsa.version": [1, 2], "amdhsa.target": "amdgcn-amd-amdhsa--gfx942",
        "amdhsa.kernels": [{**KERNEL, ".agpr_count": 44, ".vgpr_spill_count": 2, ".uses_dynamic_stack": True,
                            ".args": [{".size": 8, ".offset": -1, ".kind": None}]}],
    }  # fmt: skip
    found = read_code_object(elf(packed(metadata)))
    assert "amdgcn-amd-amdhsa--gfx942" == found.target
    assert {"k": KernelMetadata("k", 300, 44, 7, 2, 65536, 0, 64, 256, 24, True)} == found.kernels


def test_what_old_compilers_leave_out_is_zero() -> None:
    kernel = read_code_object(elf(packed({"amdhsa.kernels": [KERNEL]}))).kernels["k"]
    assert (0, 0, False) == (kernel.accumulators, kernel.spilled_registers, kernel.has_dynamic_stack)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b"\xcc\xff", 255), (b"\xcd\x01\x00", 256), (b"\xce\x00\x01\x00\x00", 65536), (b"\xcf" + b"\0" * 7 + b"\x09", 9),
        (b"\xd0\xff", -1), (b"\xd1\xff\xfe", -2), (b"\xd2\xff\xff\xff\xfd", -3), (b"\xff", -1), (b"\x7f", 127),
    ],
)  # fmt: skip
def test_numbers_of_every_width(text: bytes, value: int) -> None:
    whole = packed({"amdhsa.kernels": [KERNEL]})
    changed = whole.replace(packed(".sgpr_count") + packed(7), packed(".sgpr_count") + text)
    assert value == read_code_object(elf(changed)).kernels["k"].scalar_registers


def test_long_forms_of_texts_arrays_and_maps() -> None:
    inner = b"\xdf" + struct.pack(">I", len(KERNEL)) + packed(KERNEL)[1:]
    texts = b"\xda\x00\x0eamdhsa.kernels", b"\xdb\x00\x00\x00\x0eamdhsa.kernels"
    arrays = b"\xdc\x00\x01", b"\xdd\x00\x00\x00\x01"
    for text, array in zip(texts, arrays, strict=True):
        assert ["k"] == list(read_code_object(elf(b"\xde\x00\x01" + text + array + inner)).kernels)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "error: unpack_from requires a buffer"),
        (b"\x7fELF" + b"\0" * 60, "ValueError: not an ELF file of 64 bits for AMD GPUs"),
        (elf(b"", machine=190), "ValueError: not an ELF file of 64 bits for AMD GPUs"),
        (elf(b"", number=31), "ValueError: no metadata"),
        (elf(packed({})), "KeyError: 'amdhsa.kernels'"),
        (elf(packed({"amdhsa.kernels": [{}]})), "KeyError: '.name'"),
        (elf(b"\xc1"), "ValueError: a value of the kind 0xc1 in the metadata"),
        (elf(b"\xa9short"), "ValueError: the metadata end early"),
    ],
)
def test_what_is_no_code_object_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(ToolchainError) as caught:
        read_code_object(data)
    assert caught.value.message.startswith(f"what the compiler gave is no code object for AMD GPUs: {why}")
