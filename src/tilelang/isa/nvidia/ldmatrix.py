"""Loads and stores of 8x8 matrices by a warp: `ldmatrix` and `stmatrix`.

Gives `ldmatrix(count, trans)` and `stmatrix(count, trans)`, whose meaning and whose use by lowerings are read off one
record, `MatrixCopyAtom`. Invariant: a matrix is 8 rows of 16 bytes, whatever elements they hold; a lane's register of
a matrix is a pair of 16-bit units.

Source: PTX ISA, "Warp-level matrix load instruction: ldmatrix" and "... store instruction: stmatrix".
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from tilelang.isa.instruction import Group, Instruction
from tilelang.isa.intrinsic import Helper
from tilelang.isa.machine import LANES, Pointer, Warp
from tilelang.isa.nvidia.atom import ALL_LANES
from tilelang.layout.fragment import Fragment, digit, fragment
from tilelang.target import Feature

ROW_BYTES = 16
ROWS = 8


@dataclass(frozen=True)
class MatrixCopyAtom:
    """What a matrix load or store does with each lane.

    Lane l gives the address of row `l % 8` of matrix `l // 8`; addresses of lanes beyond the last matrix are not used.
    Register j of a lane holds a pair of 16-bit units of matrix j.

    Attributes:
        count: How many matrices: 1, 2 or 4.
        trans: Whether registers hold the matrices transposed.
    """

    count: int
    trans: bool

    @property
    def registers(self) -> Fragment:
        """The unit that each lane holds, as (matrix, row, unit in the row), two units per register.

        Shapes: (count, 8, 8).
        """
        along, across = ((0, 1, 0), (0, 0, 1)) if self.trans else ((0, 0, 1), (0, 1, 0))
        pair = tuple(2 * step for step in along)
        return fragment(
            (self.count, ROWS, ROWS),
            [digit(4, *pair), digit(8, *across)],
            [digit(2, *along), digit(self.count, 1, 0, 0)],
        )

    @property
    def suffix(self) -> str:
        """Shape and arrangement, as in the instruction's name."""
        return f"x{self.count}" + (".trans" if self.trans else "")


@cache
def ldmatrix(count: int, trans: bool = False) -> Instruction:
    """Loads matrices from shared memory. Arguments: registers to write, the address of the lane's row."""
    atom = MatrixCopyAtom(count, trans)
    name = f"tl_ldmatrix_{atom.suffix.replace('.', '_')}"
    registers = ", ".join(f"%{i}" for i in range(count))
    outputs = ", ".join(f'"=r"(r[{i}])' for i in range(count))
    text = (
        f"__device__ __forceinline__ void {name}(void* registers, const void* row) {{\n"
        "    unsigned* r = reinterpret_cast<unsigned*>(registers);\n"
        f'    asm volatile("ldmatrix.sync.aligned.m8n8.{atom.suffix}.shared.b16 {{{registers}}}, [%{count}];"\n'
        f"                 : {outputs}\n"
        '                 : "r"((unsigned)__cvta_generic_to_shared(row)));\n'
        "}\n"
    )

    def simulate(warp: Warp, target: Pointer, row: Pointer) -> None:
        warp.converge(ALL_LANES, "ldmatrix")
        size = row.buffer.dtype.numpy.itemsize
        rows = warp.read(row, ROW_BYTES // size, where=np.arange(LANES) < count * ROWS)
        units = np.ascontiguousarray(rows[: count * ROWS]).view(np.uint16).reshape(count, ROWS, ROWS)
        pairs = units[tuple(np.moveaxis(atom.registers.table, -1, 0))]  # (32, 2 * count)
        values = np.ascontiguousarray(pairs).view(target.buffer.dtype.numpy)
        step = 4 // target.buffer.dtype.numpy.itemsize
        for register in range(count):
            warp.write(target + register * step, values[:, register * step : (register + 1) * step])

    return Instruction(
        name=name,
        spell={"cuda": name + "({0}, {1})"},
        helper={"cuda": Helper(name, text)},
        simulate=simulate,
        group=Group.WARP,
        needs=Feature.MMA_F16,
        source='PTX ISA, "ldmatrix"',
    )


@cache
def stmatrix(count: int, trans: bool = False) -> Instruction:
    """Stores matrices to shared memory. Arguments: the address of the lane's row, registers to read."""
    atom = MatrixCopyAtom(count, trans)
    name = f"tl_stmatrix_{atom.suffix.replace('.', '_')}"
    registers = ", ".join(f"%{i + 1}" for i in range(count))
    inputs = ", ".join(f'"r"(r[{i}])' for i in range(count))
    text = (
        f"__device__ __forceinline__ void {name}(void* row, const void* registers) {{\n"
        "    const unsigned* r = reinterpret_cast<const unsigned*>(registers);\n"
        f'    asm volatile("stmatrix.sync.aligned.m8n8.{atom.suffix}.shared.b16 [%0], {{{registers}}};"\n'
        f'                 :: "r"((unsigned)__cvta_generic_to_shared(row)), {inputs}\n'
        '                 : "memory");\n'
        "}\n"
    )

    def simulate(warp: Warp, row: Pointer, source: Pointer) -> None:
        warp.converge(ALL_LANES, "stmatrix")
        step = 4 // source.buffer.dtype.numpy.itemsize
        parts = [warp.read(source + register * step, step) for register in range(count)]
        pairs = np.ascontiguousarray(np.concatenate(parts, axis=1)).view(np.uint16)
        units = np.zeros((LANES // ROWS, ROWS, ROWS), np.uint16)
        units[tuple(np.moveaxis(atom.registers.table, -1, 0))] = pairs
        values = units.reshape(LANES, ROWS).view(row.buffer.dtype.numpy)
        warp.write(row, values, where=np.arange(LANES) < count * ROWS)

    return Instruction(
        name=name,
        spell={"cuda": name + "({0}, {1})"},
        helper={"cuda": Helper(name, text)},
        simulate=simulate,
        group=Group.WARP,
        needs=Feature.STMATRIX,
        source='PTX ISA, "stmatrix"',
    )
