"""Asynchronous copies from global to shared memory that pass no registers, in groups that one waits for.

Gives `cp_async(size)`, `ASYNC_COPIES`, `CP_ASYNC_COMMIT` and `CP_ASYNC_WAIT`. Invariant: what was copied is there only
after a wait for its group, and for other threads only after a barrier that follows their waits.

Source: PTX ISA, "Data Movement and Conversion Instructions: cp.async", "cp.async.commit_group", "cp.async.wait_group".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

import numpy as np

from tilelang.errors import NoLowering
from tilelang.isa.function import Function, Parameter, ParameterKind
from tilelang.isa.instruction import Effect, Instruction
from tilelang.isa.intrinsic import Helper
from tilelang.isa.simulated import Pointer, Warp
from tilelang.targets.gpu.isa.lanes import spread
from tilelang.targets.nvidia.isa.async_units import CP_ASYNC
from tilelang.targets.nvidia.isa.ptx_statement import ptx_statement, shared_operand
from tilelang.targets.nvidia.machines import Feature

_INSTEAD = "write T.copy in loops of T.Pipelined, which waits for it"
SIZES = (4, 8, 16)  # in bytes; both addresses are multiples of the size
_SOURCE = "PTX ISA, 'Data Movement and Conversion Instructions: {}'"


@cache
def cp_async(size: int, *, predicated: bool = False) -> Instruction:
    """The copy of 4, 8 or 16 bytes by each lane.

    It is called with the address in shared memory, the address in global memory and whether to read there; if not,
    the bytes become zero. Copies of 16 bytes go past the L1 cache and ask the L2 cache for the 128 bytes around them.

    Args:
        size: In bytes.
        predicated: Whether it has a further operand: whether the lane copies at all.

    Raises:
        NoLowering: The machine has no copy of that size.
    """
    if size not in SIZES:
        raise NoLowering(f"cp.async: copies 4, 8 or 16 bytes, not {size}", hint="copy through registers")
    name = f"tl_cp_async_{size}_if" if predicated else f"tl_cp_async_{size}"

    def simulate(warp: Warp, dst: Pointer, src: Pointer, keep: Any, executes: Any = True) -> None:
        active = warp.active & spread(warp, executes).astype(bool)
        kept = active & spread(warp, keep).astype(bool)
        dtype = src.buffer.dtype.numpy
        count = size // dtype.itemsize
        if count * dtype.itemsize != size:
            raise NoLowering(f"cp.async: {size} bytes are no whole number of elements of {src.buffer.dtype!s}")
        zeros = np.zeros((), dtype)

        def complete() -> None:
            values = np.where(kept[:, None], warp.read(src, count, where=kept), zeros)
            warp.write(dst, np.ascontiguousarray(values).view(dst.buffer.dtype.numpy), where=active)

        warp.defer(CP_ASYNC, complete)

    operands = "{0}, {1}, {2}, {3}" if predicated else "{0}, {1}, {2}"
    return Instruction(
        name.removeprefix("tl_"),
        {"cuda": f"{name}({operands})"},
        {"cuda": Helper(name, _predicated_text(name, size) if predicated else _text(name, size))},
        simulate,
        async_unit=CP_ASYNC,
        needs=Feature.CP_ASYNC,
        predicate=2,
        instead=_INSTEAD,
        source=_SOURCE.format("cp.async"),
    )


def _ptx(size: int) -> str:
    cache_operator = "cg" if size == 16 else "ca"  # .cg exists for 16 bytes only
    return f"cp.async.{cache_operator}.shared.global.L2::128B [%0], [%1], {size}, %2;"


def _text(name: str, size: int) -> str:
    return f"""\
// Copies {size} bytes asynchronously; writes zeros where `keep` is false.
__device__ __forceinline__ void {name}(void* shared, const void* global, bool keep) {{
    asm volatile("{_ptx(size)}"
                 :
                 : {shared_operand("shared")}, "l"(global), "r"(keep ? {size} : 0)
                 : "memory");
}}
"""


def _predicated_text(name: str, size: int) -> str:
    return f"""\
// Copies {size} bytes asynchronously where `executes` is true; writes zeros where `keep` is false.
__device__ __forceinline__ void {name}(void* shared, const void* global, bool keep, bool executes) {{
    asm volatile("{{\\n"
                 ".reg .pred p;\\n"
                 "setp.ne.b32 p, %3, 0;\\n"
                 "@p {_ptx(size)}\\n"
                 "}}"
                 :
                 : {shared_operand("shared")}, "l"(global), "r"(keep ? {size} : 0), "r"((int)executes)
                 : "memory");
}}
"""


ASYNC_COPIES: Mapping[int, Instruction] = MappingProxyType({size: cp_async(size) for size in SIZES})
"""The copies by their bytes."""


def _commit(warp: Warp) -> None:
    warp.commit(CP_ASYNC)


def _wait(warp: Warp, pending: Any) -> None:
    warp.wait(CP_ASYNC, int(pending))


CP_ASYNC_COMMIT = ptx_statement(
    "cp_async_commit",
    "cp.async.commit_group;",
    (),
    _commit,
    "Commits this thread's copies since the last commit as one group.",
    async_unit=CP_ASYNC,
    effect=Effect.COMMIT,
    needs=Feature.CP_ASYNC,
    instead=_INSTEAD,
    source=_SOURCE.format("cp.async.commit_group"),
)
"""Commits the thread's copies since the last commit as one group; takes no arguments."""

CP_ASYNC_WAIT = Instruction(
    "cp_async_wait",
    {"cuda": "tl_cp_async_wait<{0}>()"},
    {
        "cuda": Helper(
            "tl_cp_async_wait",
            """\
// Waits until at most N groups of this thread's copies are pending.
template <int N> __device__ __forceinline__ void tl_cp_async_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}
""",
        )
    },
    _wait,
    async_unit=CP_ASYNC,
    effect=Effect.WAIT,
    needs=Feature.CP_ASYNC,
    instead=_INSTEAD,
    source=_SOURCE.format("cp.async.wait_group"),
)
"""Waits until at most N of the thread's newest groups are pending; called with N, a constant."""


FUNCTIONS = (
    Function("ptx_commit_group", CP_ASYNC_COMMIT, "Closes a group of the copies that `T.ptx_cp_async` has begun."),
    Function(
        "ptx_wait_group",
        CP_ASYNC_WAIT,
        "Waits until at most `pending` groups of copies are on their way.",
        (Parameter("pending", ParameterKind.CONSTANT),),
    ),
)


def instructions() -> Iterator[Instruction]:
    """Those of this file, one of each form."""
    copies = (cp_async(size, predicated=predicated) for predicated in (False, True) for size in SIZES)
    yield from (*copies, CP_ASYNC_COMMIT, CP_ASYNC_WAIT)
