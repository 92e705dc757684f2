"""The memory that one launch hands to the driver: configuration, arguments, attributes.

Takes a `DeviceLaunch`, a grid and a function, gives a block of bytes that one `struct.pack_into` per launch completes.
Invariant: what changes from call to call (the stream and the arguments) lies together; everything else is written once.

Source: CUDA Driver API, structs CUlaunchConfig and CUlaunchAttribute, and "Execution Control", cuLaunchKernelEx. Other
drivers are given the same values, one by one (`Driver.launch`).
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from tilelang.codegen.source import DeviceLaunch
from tilelang.dtypes import DType
from tilelang.errors import CompilerBug
from tilelang.records import record

_CONFIG = struct.Struct("<7I4xQQI4x")  # grid, threads, shared bytes, stream, attributes, how many attributes
_STREAM_OFFSET = 32
ARGUMENTS_OFFSET = 64
_ATTRIBUTE = struct.Struct("<I4x3I52x")
_COOPERATIVE, _CLUSTER, _EARLY = 2, 4, 6  # enum CUlaunchAttributeID; the last is PROGRAMMATIC_STREAM_SERIALIZATION
_MAX_ATTRIBUTES = 3
_ALIGNMENT = 64

MAP_BYTES, MAP_ALIGNMENT = 128, 64  # of a tensor map
MAP = f"{MAP_BYTES}s"
# struct's letter for the type of an argument in C
LETTERS = {
    "bool": "?", "int8_t": "b", "uint8_t": "B", "int16_t": "h", "uint16_t": "H", "int": "i", "int32_t": "i",
    "unsigned": "I", "uint32_t": "I", "int64_t": "q", "uint64_t": "Q", "long long": "q", "unsigned long long": "Q",
    "float": "f", "double": "d",
}  # fmt: skip


def letter(ctype: str, dtype_bytes: int | None = None) -> str:
    """The letter of `struct` for an argument; what C has no number for is passed as the bits of an element.

    Args:
        ctype: The type in C.
        dtype_bytes: The size of a value whose type is a struct of bits.
    """
    plain = ctype.replace("const ", "").replace(" __restrict__", "").strip()
    if plain.endswith("*"):
        return "Q"
    if plain in LETTERS:
        return LETTERS[plain]
    if dtype_bytes in (1, 2, 4, 8):
        return {1: "B", 2: "H", 4: "I", 8: "Q"}[dtype_bytes]
    raise CompilerBug(f"a kernel argument has the type {ctype!r}, which a call cannot fill in")


def packed_scalar(value: int | float, dtype: DType, code: str) -> int | float:
    """A scalar argument as `struct` packs it by this letter, rounded to the parameter's dtype."""
    if not dtype.is_float:
        return value
    element = np.asarray(value).astype(dtype.numpy)
    if code in "fd":
        return float(element)
    return int.from_bytes(element.tobytes(), "little")


def size_of(letters: str) -> int:
    """Bytes of one argument."""
    return struct.calcsize(f"<{letters}")


@record
class LaunchFormat:
    """Writes the part of a launch that changes from call to call.

    Attributes:
        letters: The letter of `struct` for each argument.
        pack: Writes the stream, the address and number of the attributes, and the arguments.
        offsets: Where each argument lies, in bytes from the beginning of the arguments.
        size_bytes: Of configuration, arguments, pointers and attributes together.
        pointers: Where the pointers to the arguments lie.
        attributes: Where the attributes lie.
    """

    letters: tuple[str, ...]
    pack: struct.Struct
    offsets: tuple[int, ...]
    size_bytes: int
    pointers: int
    attributes: int

    @property
    def argument_bytes(self) -> int:
        """Bytes of all arguments together."""
        return self.pointers - ARGUMENTS_OFFSET

    def write(self, block: Block, slot: Slot, stream: int, values: Sequence[int | float | bytes]) -> None:
        """Completes a launch."""
        self.pack.pack_into(block.memory, slot.start, stream, slot.attributes, slot.attribute_count, *values)


def format_of(letters: Sequence[str]) -> LaunchFormat:
    """The layout for arguments of these types, aligned as in C."""
    text, position, offsets = f"<QQI{ARGUMENTS_OFFSET - _STREAM_OFFSET - 20}x", 0, []
    for code in letters:
        size = size_of(code)
        gap = -position % (MAP_ALIGNMENT if code == MAP else size)
        text += (f"{gap}x" if gap else "") + code
        offsets.append(position + gap)
        position += gap + size
    pointers = _aligned(ARGUMENTS_OFFSET + position, 8)
    attributes = _aligned(pointers + 8 * len(letters), 8)
    total = _aligned(attributes + _MAX_ATTRIBUTES * _ATTRIBUTE.size, _ALIGNMENT)
    return LaunchFormat(tuple(letters), struct.Struct(text), tuple(offsets), total, pointers, attributes)


class Slot(NamedTuple):
    """One launch within a block.

    Attributes:
        start: Where the changing part begins in the block's memory.
        attributes: Address of the launch's attributes.
        attribute_count: How many there are.
        config: Address of the configuration, for the driver.
        function: The kernel.
        parameters: Address of the pointers to the arguments.
    """

    start: int
    attributes: int
    attribute_count: int
    config: ctypes.c_void_p
    function: ctypes.c_void_p
    parameters: ctypes.c_void_p


class Block(NamedTuple):
    """The memory of all launches of one call; one call uses it at a time."""

    memory: ctypes.Array[ctypes.c_char]
    slots: tuple[Slot, ...]


class EncodedMaps(Protocol):
    """The tensor maps that are one argument of a launch, by the address of the tensor."""

    @property
    def tensor(self) -> int:
        """The parameter whose address decides; after the parameters, the workspace."""

    def __getitem__(self, address: int) -> bytes:
        """The map for an address."""

    def native_fields(self, offset: int, kept: list[object]) -> tuple[int, ...]:
        """The fields of a `Map` of launch.cpp for the argument at an offset.

        Args:
            offset: Of the argument among all of the launch.
            kept: Receives the objects that must outlive the fields.

        Raises:
            NotNative: launch.cpp does not encode such maps.
        """


@record
class Placed:
    """A launch with everything that is known before a call.

    Attributes:
        launch: The kernel.
        grid: Blocks in x, y and z.
        function: The loaded kernel.
        format: Of its arguments.
        maps: The tensor maps among them.
        shared_bytes: Dynamic shared memory of a block; that of the kernel if it is constant.
    """

    launch: DeviceLaunch
    grid: tuple[int, int, int]
    function: int
    format: LaunchFormat
    maps: tuple[EncodedMaps, ...] = ()
    shared_bytes: int | None = None


class LaunchValues(NamedTuple):
    """The values of a configuration, for drivers that take values.

    Attributes:
        grid: Blocks in x, y and z.
        threads: Of a block, in x, y and z.
        shared_bytes: Dynamic shared memory of a block.
        stream: On which the kernel runs.
        cooperative: Whether all blocks must be resident at once.
    """

    grid: tuple[int, int, int]
    threads: tuple[int, int, int]
    shared_bytes: int
    stream: int
    cooperative: bool


def launch_values(config: int) -> LaunchValues:
    """The values of the configuration at an address."""
    x, y, z, tx, ty, tz, shared, stream, attributes, count = _CONFIG.unpack(ctypes.string_at(config, _CONFIG.size))
    records = ctypes.string_at(attributes, count * _ATTRIBUTE.size) if count else b""
    kinds = {kind for kind, *_ in _ATTRIBUTE.iter_unpack(records)}
    return LaunchValues((x, y, z), (tx, ty, tz), shared, stream, _COOPERATIVE in kinds)


def make_block(launches: Sequence[Placed]) -> Block:
    """A fresh block for these launches."""
    total = sum(placed.format.size_bytes for placed in launches)
    memory = ctypes.create_string_buffer(total + _ALIGNMENT)
    base = ctypes.addressof(memory)
    start = -base % _ALIGNMENT
    slots = []
    for placed in launches:
        slots.append(_fill(memory, base, start, placed))
        start += placed.format.size_bytes
    return Block(memory, tuple(slots))


def _fill(memory: ctypes.Array[ctypes.c_char], base: int, start: int, placed: Placed) -> Slot:
    launch, layout = placed.launch, placed.format
    wanted = [
        (_CLUSTER, *launch.cluster) if launch.cluster != (1, 1, 1) else None,
        (_COOPERATIVE, 1, 0, 0) if launch.cooperative else None,
        (_EARLY, 1, 0, 0) if launch.early else None,
    ]
    given = [attribute for attribute in wanted if attribute is not None]
    for n, attribute in enumerate(given):
        _ATTRIBUTE.pack_into(memory, start + layout.attributes + n * _ATTRIBUTE.size, *attribute)
    attributes = base + start + layout.attributes
    shared = launch.shared_bytes if placed.shared_bytes is None else placed.shared_bytes
    _CONFIG.pack_into(memory, start, *placed.grid, *launch.threads, shared, 0, attributes, len(given))
    pointers = [base + start + ARGUMENTS_OFFSET + offset for offset in layout.offsets]
    struct.pack_into(f"<{len(pointers)}Q", memory, start + layout.pointers, *pointers)
    return Slot(
        start + _STREAM_OFFSET,
        attributes,
        len(given),
        ctypes.c_void_p(base + start),
        ctypes.c_void_p(placed.function),
        ctypes.c_void_p(base + start + layout.pointers),
    )


def _aligned(offset: int, unit: int) -> int:
    return -(-offset // unit) * unit
