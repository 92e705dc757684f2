"""What compilers must know of the registers of matrix instructions of a warpgroup: statements on an array of them.

Gives `fence_operands`, `renew_operands`, `define_operands` and `hide_operands`, each for a dtype and a number of
elements. Invariant: values stay the same. NVVM's time grows with asm statements, so one has several registers.

Source: PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions", "wgmma.fence".
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from tilelang.dtypes import DType, as_dtype
from tilelang.isa.instruction import Instruction
from tilelang.isa.intrinsic import Helper
from tilelang.isa.simulated import Pointer, Warp
from tilelang.targets.gpu.isa.save_registers import SAVE_REGISTERS
from tilelang.targets.nvidia.isa.atom import per_register
from tilelang.targets.nvidia.machines import Feature

_AT_ONCE = 4  # registers of a statement; more or fewer took NVVM longer


@cache
def fence_operands(dtype: DType, count: int) -> Instruction:
    """Forces the compiler to have computed an array of registers here; called with the array.

    To be executed before `WGMMA_FENCE` for registers that the wgmma instructions after it use: where ptxas moves their
    computation past the fence, it serializes the instructions. CUTLASS calls it `warpgroup_fence_operand`.
    """
    kind, letter = _type_of(dtype)
    comment = "Keeps the compiler from moving computations of these registers across this point."
    return _for_registers("fence", f"tl_fence_{kind}_operands", comment, kind, "", f"+{letter}", dtype, count)


@cache
def renew_operands(dtype: DType, count: int) -> Instruction:
    """Like `fence_operands`, by an instruction that writes the registers, with the values they have.

    For an operand A that a loop keeps: see `passes/renew_held_operands.py`.
    """
    comment = "Writes these registers with their own values, which ptxas does not see."
    write = "prmt.b32 {0}, {0}, {0}, 0x3210;"
    return _for_registers("renew", "tl_renew_operands", comment, "unsigned", write, "+r", dtype, count)


@cache
def define_operands(dtype: DType, count: int) -> Instruction:
    """Defines an accumulator that the next wgmma instruction overwrites; called with the array.

    The instruction names the registers as operands all the same. For undefined ones the compiler may take any: where it
    takes those of an accumulator in flight, ptxas injects a wait for it (advice C7517). Zeros may be moved there first:
    with them attention of 64 dimensions by tiles of 128x128 took 1.2 times as long on an H200.
    """
    kind, letter = _type_of(dtype)
    comment = "Defines registers that the next wgmma overwrites."
    return _for_registers("define", f"tl_define_{kind}_operands", comment, kind, "", f"={letter}", dtype, count)


@cache
def hide_operands(dtype: DType, count: int) -> Instruction:
    """Hides the values of an array of registers from compilers that are to save registers; called with the array.

    See `passes/hide_cleared_sums.py`.
    """
    kind, letter = _type_of(dtype)
    comment = "Hides the values of these registers from the compiler, where registers are scarce."
    name = f"tl_hide_{kind}_operands"
    return _for_registers("hide", name, comment, kind, "", f"+{letter}", dtype, count, macro=SAVE_REGISTERS)


def _type_of(dtype: DType) -> tuple[str, str]:
    """The type of a register in CUDA C++, and the letter of its constraint in asm statements."""
    return ("float", "f") if dtype == "float32" else ("unsigned", "r")


def _for_registers(
    what: str, name: str, comment: str, kind: str, ptx: str, constraint: str, dtype: DType, count: int, macro: str = ""
) -> Instruction:
    """Executes PTX on each register of an array, `{0}`; for the compilers, as values stay the same.

    If a macro is named, only where it is defined.
    """
    memory = '::"memory"' if constraint.startswith("+") else ""

    def statement(*registers: str) -> str:
        written = " ".join(ptx.format(f"%{n}") for n in range(len(registers))).strip()
        operands = ", ".join(f'"{constraint}"({register})' for register in registers)
        return f'asm volatile("{written}" : {operands}{memory});'

    together = (f"r[i + {n}]" for n in range(_AT_ONCE))
    begin, end = (f"#ifdef {macro}\n", "#endif\n") if macro else ("", "")
    text = f"""\
// {comment}
template <int N> __device__ __forceinline__ void {name}(void* registers) {{
{begin}\
    {kind}* r = reinterpret_cast<{kind}*>(registers);
#pragma unroll
    for (int i = 0; i + {_AT_ONCE} <= N; i += {_AT_ONCE})
        {statement(*together)}
#pragma unroll
    for (int i = N - N % {_AT_ONCE}; i < N; ++i) {statement("r[i]")}
{end}\
}}
"""

    def simulate(warp: Warp, registers: Pointer) -> None:
        """Does nothing: values stay, or are not defined yet."""

    return Instruction(
        f"wgmma_{what}_operands_{dtype!s}_{count}",
        {"cuda": f"{name}<{count // per_register(dtype)}>({{0}})"},
        {"cuda": Helper(name, text)},
        simulate,
        needs=Feature.WGMMA,
        source="PTX ISA, 'Asynchronous Warpgroup Level Matrix Instructions: wgmma.fence'",
    )


def instructions() -> Iterator[Instruction]:
    """The instructions of this file, on 32 elements of every dtype of accumulators."""
    for operands in (fence_operands, renew_operands, define_operands, hide_operands):
        yield from (operands(as_dtype(name), 32) for name in ("float32", "float16", "int32"))
