"""Executes the machine code of AMD's GPUs: what compilers left of a kernel computes, by AMD's own definitions.

Instructions are decoded by tinygrad's tables, and each does what the pseudo-code of AMD's manual says (`amd_meaning`).
Ours are: registers (`amd_registers`), memory (`amd_accesses`) and control flow (`amd_wave`); the few instructions whose
definition is in words, which exchange lanes (`amd_lanes`); the layouts of matrix instructions (`amd_matrices`), by AMD's
published calculator. Memory is accessed at once and in order, and the waves of a work-group run one after the other
between barriers: wrong addresses and values are found, missing waits are not; those are what `amd_waves` follows. A fused
multiplication and addition of float32 is rounded from float64.
"""

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
from amd_machine_code import KernelCode, family, image, kernel_code
from amd_registers import APERTURE, CODE, KERNARG
from amd_wave import Wave

from tilelang.codegen.print_records import WORDS, printed_texts
from tilelang.targets.amd.runtime.device_code import HipCode

_FIRST_ARRAY = 3  # the number of its space
_RECORDS = 4096  # of what kernels print


def execute(code: HipCode, arrays: Sequence[Any]) -> list[str]:
    """Runs all launches of a compiled program on arrays, in place; gives what they print.

    Args:
        code: Of a program whose parameters are tensors of constant shapes.
        arrays: The arguments.
    """
    views = [_memory_of(np.asarray(array)) for array in arrays]
    # atomic operations on halves access whole words, which allocations of drivers have
    bytes_of = [np.concatenate([view, np.zeros(-len(view) % 4, np.uint8)]) for view in views]
    workspaces = [np.zeros(int(size), np.uint8) for size in code.source.workspaces]
    failed = np.zeros(4, np.uint8)
    records = np.zeros(2 + WORDS * _RECORDS, np.uint64)
    records[1] = _RECORDS
    spaces = [*bytes_of, *workspaces, failed, records.view(np.uint8)]
    first = {"tensor": 0, "workspace": len(bytes_of), "failure": len(spaces) - 2, "prints": len(spaces) - 1}
    for launch in code.source.launches:
        memory = _Addresses(code, spaces)
        kernel = kernel_code(code.binary, launch.name, code.arch)
        numbers = [first[argument.kind] + argument.index for argument in launch.arguments]
        kernarg = b"".join((number + _FIRST_ARRAY << 40).to_bytes(8, "little") for number in numbers)
        memory.spaces[KERNARG >> 40] = np.frombuffer(kernarg, np.uint8)
        grid = [int(extent) for extent in (*launch.grid, "1", "1", "1")[:3]]
        size = code.resources[launch.name].shared_bytes
        for group in np.ndindex(*reversed(grid)):
            _Group(kernel, memory, code.arch, launch.threads[0], size, tuple(reversed(group))).run()
    for view, made in zip(views, bytes_of, strict=True):
        view[:] = made[: len(view)]
    assert not failed.any(), "an assertion of the program fails"
    assert records[0] <= _RECORDS, "it prints more than there is room for"
    return printed_texts([int(word) for word in records[2 : 2 + WORDS * int(records[0])]])


def _memory_of(array: Any) -> Any:
    """The bytes from the first element of an array to its last, gaps included; strides are not negative."""
    steps = sum((extent - 1) * stride for extent, stride in zip(array.shape, array.strides, strict=True))
    size = steps + array.itemsize if array.size else 0
    return np.frombuffer((ctypes.c_uint8 * size).from_address(array.ctypes.data), np.uint8)


class _Addresses:
    """Memory by address: spaces of 2^40 bytes each, of which a part exists."""

    def __init__(self, code: HipCode, arrays: Sequence[Any]) -> None:
        self.spaces: dict[int, Any] = {number + _FIRST_ARRAY: array for number, array in enumerate(arrays)}
        self.spaces[CODE >> 40] = np.frombuffer(image(code.binary), np.uint8)

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
        memory.spaces[APERTURE >> 40] = np.zeros(lds, np.uint8)
        self._waves = [Wave(kernel, memory, arch, n, min(lanes, threads - n * lanes), group, lanes)
                       for n in range(-(-threads // lanes))]  # fmt: skip

    def run(self) -> None:
        running = self._waves
        while running:
            for wave in running:
                wave.run()
            running = [wave for wave in running if not wave.ended]
