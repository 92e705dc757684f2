"""Checks of the code that a compiler of AMD's left, after all that it may have changed: limits, memory of threads, waits."""

import struct
from collections.abc import Sequence

from amd_machine_code import family, kernel_code
from amd_waves import follow

from tilelang.targets.amd.machines import MACHINES, SIMDS, register_file
from tilelang.targets.amd.runtime.code_object import KernelMetadata, read_code_object
from tilelang.targets.amd.runtime.device_code import HipCode


def check_limits(code: HipCode, name: str, threads: int) -> KernelMetadata:
    """Checks registers, LDS and memory of threads of a kernel against the machine; gives its metadata.

    A kernel whose threads have no memory has no access to it, which `follow` checks instruction by instruction.
    """
    machine = MACHINES[code.arch]
    found = read_code_object(code.binary)
    assert f"amdgcn-amd-amdhsa--{code.arch}" == found.target
    kernel = found.kernels[name]
    assert (0, 0, False) == (kernel.private_bytes, kernel.spilled_registers, kernel.has_dynamic_stack)
    assert code.resources[name].shared_bytes <= machine.shared_bytes
    assert machine.warp_size == kernel.wave_size
    assert threads <= kernel.max_threads <= machine.max_threads
    waves = -(-threads // machine.warp_size)
    assert -(-waves // SIMDS) <= register_file(machine).waves(kernel.vector_registers), "a work-group does not fit"
    return kernel


def argument_memory(letters: str, values: Sequence[int]) -> bytes:
    """The memory of arguments, laid out as in C; `letters` are those of `struct`."""
    memory = b""
    for letter, value in zip(letters, values, strict=True):
        size = struct.calcsize(letter)
        memory += bytes(-len(memory) % size) + struct.pack(f"<{letter}", value)
    return memory


def check_waits(code: HipCode, name: str, threads: int, letters: str, values: Sequence[int]) -> int:
    """Checks that a work-group waits for its accesses of LDS; gives the number of direct loads to LDS that it makes.

    Args:
        code: Of CDNA.
        name: The kernel.
        threads: Of the work-group, along x.
        letters: Of the arguments: see `argument_memory`.
        values: Of the arguments; any number for an address.
    """
    assert family(code.arch) == "cdna"
    size = code.resources[name].shared_bytes
    memory = argument_memory(letters, values)
    return follow(kernel_code(code.binary, name, code.arch), memory, threads=threads, lds_bytes=size)
