"""Loads from global memory to LDS that bypass registers.

Gives `direct_to_lds(bytes)`, whose text takes a pointer, and `from_buffer`, whose takes a buffer resource. Invariant:
the lanes of a wave fill consecutive chunks of LDS, lane l the one at offset l * bytes from that of lane 0; each may
read anywhere. So a swizzled tile is filled by permuting the global addresses. What lanes read beyond the bounds of a
resource is zeros, which they write to LDS like other data.
Loaded data is visible to the wave after its wait, and to other waves after a barrier that follows the wait.
The text is assembly because compilers wait for all built-in loads before each read of LDS (LLVM up to 21), or never
(LLVM 22). It names no clobber of M0, a reserved register, which compilers write right before each use of their own.

Source: AMD Instinct MI300 and CDNA 4 Instruction Set Architecture, "Memory Buffer Load to LDS" (an instruction's offset
moves both addresses), "Manually Inserted Wait States" (one between a write of M0 and a load to LDS). Zeros beyond the
bounds: github.com/ROCm/rocm-systems, pull request 10928, and github.com/triton-lang/triton, pull request 11435.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

import numpy as np

from tilelang.analysis.strides import stride_along
from tilelang.errors import CompilerBug, NoLowering, SimulationError
from tilelang.ir.buffer import Region
from tilelang.ir.callee import Routine
from tilelang.ir.expr import Expr, int_const
from tilelang.ir.stmt import CallStmt, For, ForKind, Stmt
from tilelang.ir.visit import substitute
from tilelang.isa.instruction import Effect, Instruction
from tilelang.isa.intrinsic import Helper
from tilelang.isa.simulated import Pointer, Warp
from tilelang.records import record
from tilelang.targets.amd.isa.buffer_load import BEYOND, BUFFER_LOAD
from tilelang.targets.amd.isa.wait_counters import DIRECT_TO_LDS
from tilelang.targets.amd.machines import CDNA_WAVE, Feature
from tilelang.targets.gpu.isa.lanes import spread

_SUFFIXES = {4: "dword", 16: "dwordx4"}
SIZES = tuple(_SUFFIXES)  # in bytes; both addresses are multiples of the size
MAX_TOGETHER = 4
"""Loads of 16 bytes a lane with one address in LDS, by the 12 bits of the instruction's offset."""

_ZEROS = Helper(
    "tl_zeros",
    """\
// What lanes without a source load.
static __device__ const __attribute__((aligned(16))) unsigned tl_zeros[4] = {};
""",
)


@cache
def direct_to_lds(size: int) -> Instruction:
    """The load of 4 or 16 bytes by each lane.

    It is called by all lanes of a wave, with the address in LDS, the address in global memory and whether to read
    there; if not, the bytes become zero.

    Args:
        size: In bytes.

    Raises:
        NoLowering: No machine has a load of that size.
    """
    if size not in _SUFFIXES:
        raise NoLowering(f"direct loads to LDS: 4 or 16 bytes a lane, not {size}", hint="copy through registers")
    name = f"tl_direct_to_lds_{size}"
    text = f"""\
// Loads {size} bytes a lane to LDS, one after another from the address of the first lane on; zeros without `keep`.
// Waves give it in a scalar register. The lower half of a pointer is the address in LDS; a cast between address spaces
// would test it for null.
__device__ __forceinline__ void {name}(void* shared, const void* global, bool keep) {{
    const unsigned address = (unsigned)(unsigned long)shared;
    asm volatile("s_mov_b32 m0, %0\\n\\ts_nop 0\\n\\tglobal_load_lds_{_SUFFIXES[size]} %1, off"
                 :
                 : "s"(address), "v"(keep ? global : (const void*)tl_zeros)
                 : "memory");
}}
"""

    def simulate(warp: Warp, dst: Pointer, src: Pointer, keep: Any) -> None:
        active = warp.active.copy()
        kept = active & spread(warp, keep).astype(bool)
        dtype = src.buffer.dtype.numpy
        count = size // dtype.itemsize
        if count * dtype.itemsize != size:
            raise NoLowering(f"direct loads to LDS: {size} bytes are no whole number of {src.buffer.dtype!s}")
        _check_destination(warp, dst, size)
        zeros = np.zeros((), dtype)

        def complete() -> None:
            values = np.where(kept[:, None], warp.read(src, count, where=kept), zeros)
            warp.write(dst, np.ascontiguousarray(values).view(dst.buffer.dtype.numpy), where=active)

        warp.defer(DIRECT_TO_LDS, complete)
        warp.commit(DIRECT_TO_LDS)  # the counter counts loads

    return Instruction(
        name.removeprefix("tl_"),
        {"hip": f"{name}({{0}}, {{1}}, {{2}})"},
        {"hip": Helper(name, text, (_ZEROS,))},
        simulate,
        async_unit=DIRECT_TO_LDS,
        needs=Feature.DIRECT_TO_LDS if size == 4 else Feature.DIRECT_TO_LDS_WIDE,
        predicate=2,
        source="AMD Instinct MI300 Instruction Set Architecture, 'Memory Buffer Load to LDS'",
    )


def directly_loaded(stmt: Stmt) -> Region | None:
    """Where the lanes of a load to LDS read; None for other statements."""
    if not isinstance(stmt, CallStmt) or all(stmt.routine is not load for load in DIRECT_LOADS.values()):
        return None
    source = stmt.args[1]
    return source if isinstance(source, Region) else None


@record
class SeveralLoads:
    """Loads of a wave that fill successive pieces of LDS.

    Attributes:
        first: The load to the first piece; where it reads is as in the loop.
        keep: Which lanes load something, as in the loop.
        count: How many there are.
        piece: The bytes of each.
    """

    first: CallStmt
    keep: Expr
    count: int
    piece: int


def several_loads(loop: For) -> SeveralLoads | None:
    """The loads of an unrolled loop, if the instruction's offset reaches the last piece; None for other loops."""
    load, start, count = loop.body, int_const(loop.start), int_const(loop.stop)
    if loop.kind is not ForKind.UNROLLED or (start, loop.step) != (0, 1) or not isinstance(load, CallStmt):
        return None
    size = next((size for size, each in DIRECT_LOADS.items() if each is load.routine), 0)
    if not size or count is None or not 1 < count <= MAX_TOGETHER:
        return None
    target, source, keep = load.args
    assert isinstance(target, Region)
    assert isinstance(keep, Expr)
    step, piece = stride_along(target.buffer, target.start, loop.var), size * CDNA_WAVE
    if step is None or step * target.buffer.dtype.storage_bytes != piece:
        return None
    at = tuple(substitute(index, {loop.var: loop.start}) for index in target.start)
    first = dataclasses.replace(load, args=(dataclasses.replace(target, start=at), source, keep))
    return SeveralLoads(first, keep, count, piece)


def from_buffer(load: Routine, count: int) -> Helper:
    """The text of loads to LDS by a buffer resource and, of each, an offset of lanes and one of the wave.

    Args:
        load: One of `DIRECT_LOADS`.
        count: So many loads fill successive pieces of LDS; each reads so many pieces after its offsets.
    """
    size = next(size for size, each in DIRECT_LOADS.items() if each is load)
    own: Any = DIRECT_LOADS[size].helpers["hip"]
    piece = size * CDNA_WAVE
    numbers = range(count)
    assembly = ["s_mov_b32 m0, %0", "s_nop 0"] + [
        f"buffer_load_{_SUFFIXES[size]} %{2 + 2 * n}, %1, %{3 + 2 * n} offen{f' offset:{n * piece}' if n else ''} lds"
        for n in numbers
    ]
    name = f"tl_buffer_to_lds_{size}" + (f"x{count}" if count > 1 else "")
    operands = ",\n".join(f"    unsigned offset{n}, unsigned moved{n}" for n in numbers)
    inputs = ",\n                   ".join(f'"v"(offset{n}), "s"(moved{n})' for n in numbers)
    calls = [
        f"    {own.name}((char*)shared + {n * piece}, from + (offset{n} + moved{n} + {n * piece}), "
        f"offset{n} < {BEYOND});\n"
        for n in numbers
    ]
    more = "\n// Each instruction adds its own offset to both addresses: one in LDS suffices." if count > 1 else ""
    text = f"""\
// As {own.name}, from `from + offset + moved`, which a buffer load adds by itself.{more}
__device__ __forceinline__ void {name}(
    void* shared, tl_resource from,
{operands}
) {{
#if __has_builtin(__builtin_amdgcn_raw_buffer_load_b128)
    const unsigned address = (unsigned)(unsigned long)shared;
    asm volatile({_lines_of(assembly)}
                 :
                 : "s"(address), "s"(from),
                   {inputs}
                 : "memory");
#else
{"".join(calls)}#endif
}}
"""
    return Helper(name, text, (own, BUFFER_LOAD))


def _lines_of(assembly: list[str]) -> str:
    """String literals of instructions."""
    return "\n                 ".join(f'"{line}\\n\\t"' for line in assembly)


OFFSET_IF = Helper(
    "tl_offset_if",
    f"""\
// Lanes that load nothing have an offset beyond the resource.
__device__ __forceinline__ unsigned tl_offset_if(bool inside, unsigned offset) {{
    return inside ? offset : {BEYOND};
}}
""",
)


def _check_destination(warp: Warp, dst: Pointer, size: int) -> None:
    """Checks that each lane names the chunk of LDS that the hardware fills for it."""
    address = warp.shared_address(dst)
    lanes = np.flatnonzero(warp.active)
    expected = address[0] + warp.lane * size
    if lanes[0] != 0:
        raise SimulationError(
            f"direct load to LDS: lane 0 of warp {warp.index} does not execute it, which gives the address of all",
            hint="let all lanes execute it, and those without a source with a false predicate",
        )
    wrong = lanes[address[lanes] != expected[lanes]]
    if len(wrong):
        lane = int(wrong[0])
        raise SimulationError(
            f"direct load to LDS: lane {lane} of warp {warp.index} is to fill byte {int(address[lane])}, but the lanes "
            f"of a wave fill successive pieces, and its piece begins at byte {int(expected[lane])}",
            hint="let lane l fill the piece l * bytes after that of lane 0, and permute the sources",
        )


def _pseudo_instruction(name: str, effect: Effect) -> Instruction:
    def simulate(warp: Warp, *operands: Any) -> None:
        raise CompilerBug(f"{name} is left in the program of a thread")

    return Instruction(name, {}, {}, simulate, async_unit=DIRECT_TO_LDS, effect=effect)


COMMIT_DIRECT_LOADS = _pseudo_instruction("commit_direct_loads", Effect.COMMIT)
"""Pseudo-instruction that ends a group of direct loads; `count_direct_loads` removes it. No operands."""

WAIT_FOR_DIRECT_LOAD_GROUPS = _pseudo_instruction("wait_for_groups_of_direct_loads", Effect.WAIT)
"""Pseudo-instruction that waits until at most N groups are in flight; `count_direct_loads` replaces it. One operand."""

DIRECT_LOADS: Mapping[int, Instruction] = MappingProxyType({size: direct_to_lds(size) for size in SIZES})
"""The loads by their bytes."""


def instructions() -> Iterator[Instruction]:
    """Those of this file, one of each form."""
    yield from DIRECT_LOADS.values()
