"""Inline PTX: an instruction made of the user's own text."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tilelang.dtypes import DType
from tilelang.errors import NoLowering, ProgramError
from tilelang.ir.callee import Routine
from tilelang.isa.instruction import Instruction
from tilelang.isa.intrinsic import Helper
from tilelang.targets.gpu.isa.extern import no_meaning
from tilelang.targets.nvidia.isa.types import BITS, cuda_type

_INSTEAD = "call a C++ function of T.import_source by T.call_extern"
_OPERAND = re.compile(r"(?<!%)%(\d+)")

# Source: CUDA, "Inline PTX Assembly in CUDA", "Constraints"
_LETTERS = {16: "h", 32: "r", 64: "l"}


def is_user_code(routine: Routine) -> bool:
    """Whether the text of an instruction is the user's own, so that a compiler's complaint about it is for the user."""
    return routine.name in ("inline_ptx", "call_extern", "CUDASourceCodeKernel")


def inline_ptx(template: str, outputs: Sequence[DType], inputs: Sequence[DType]) -> Instruction:
    """The user's PTX. It is called with the addresses of the outputs, one element each, and then the inputs' values.

    Args:
        template: PTX in which `%0`, `%1`, ... are the outputs and then the inputs, in registers of their dtype: bits
            of 16-bit floats in a 16-bit register, of narrower values in a 32-bit one (inputs only). `%%` is a percent
            sign, as before the name of a special register.
        outputs: Dtypes of what it writes.
        inputs: Dtypes of what it reads.

    Raises:
        ProgramError: The template names an operand that is not there.
        NoLowering: A dtype fits no register.
    """
    count = len(outputs) + len(inputs)
    for found in _OPERAND.finditer(template):
        if int(found[1]) >= count:
            raise ProgramError(
                f"T.inline_ptx: the template names %{found[1]}, but there are {count} operands",
                hint="outputs come first, then inputs; write %% for a percent sign",
            )
    written = [_output(dtype, number) for number, dtype in enumerate(outputs)]
    read = [_input(dtype, number) for number, dtype in enumerate(inputs, start=len(outputs))]
    text = f'asm volatile({string_literal(template)} : {", ".join(written)} : {", ".join(read)} : "memory")'
    kinds = tuple(helper for dtype in (*outputs, *inputs) if (helper := cuda_type(dtype).helper) is not None)
    return Instruction(
        "inline_ptx",
        {"cuda": text},
        {"cuda": Helper("inline_ptx of " + " ".join(map(str, (*outputs, *inputs))), "", needs=(BITS, *kinds))},
        no_meaning("T.inline_ptx: inline PTX", "write it with the operators of the language, or run it on a GPU"),
        instead=_INSTEAD,
        source="Inline PTX Assembly in CUDA",
    )


def _register(dtype: DType) -> tuple[str, str]:
    """The letter of the register that holds a dtype's bits, and its type in CUDA."""
    size = 8 * dtype.storage_bytes
    if dtype.lanes == 1 and dtype in ("float32", "tfloat32", "float64"):
        return ("d", "double") if dtype == "float64" else ("f", "float")
    if size not in (8, 16, 32, 64):
        raise NoLowering(f"T.inline_ptx: {dtype!s} fits no register", hint="pass its parts")
    size = max(size, 16)
    return _LETTERS[size], f"uint{size}_t"


def _output(dtype: DType, number: int) -> str:
    letter, kind = _register(dtype)
    if dtype.storage_bytes == 1:
        raise NoLowering(f"T.inline_ptx: no register of {dtype!s} can be written", hint="write an int32 and convert it")
    return f'"={letter}"(*({kind}*)({{{number}}}))'


def _input(dtype: DType, number: int) -> str:
    letter, kind = _register(dtype)
    own, value = cuda_type(dtype), f"({{{number}}})"
    if dtype.storage_bytes == 1:
        return f'"r"((uint32_t)tl_bits<uint8_t>({own.name}{value}))'
    if letter in "fd":
        return f'"{letter}"({kind}{value})'
    return f'"{letter}"(tl_bits<{kind}>({own.name}{value}))'


def string_literal(text: str) -> str:
    """A text as a C string, so that it may stand in the template of an instruction."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return '"' + escaped.replace("{", "{{").replace("}", "}}") + '"'
