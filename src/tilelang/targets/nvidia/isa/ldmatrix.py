"""Loads and stores of 8x8 matrices by a warp: `ldmatrix` and `stmatrix`.

Gives `ldmatrix(count, trans)` and `stmatrix(count, trans)`, whose meaning and whose use by lowerings are read off one
record, `MatrixCopyAtom`. Invariant: a matrix is 8 rows of 16 bytes, whatever elements they hold; a lane's register of
a matrix is a pair of 16-bit units.

Source: PTX ISA, "Warp-level matrix load instruction: ldmatrix" and "... store instruction: stmatrix".
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, cached_property

import numpy as np

from tilelang.isa.instruction import ExecutionScope, Instruction
from tilelang.isa.intrinsic import Helper
from tilelang.isa.simulated import Pointer, Warp
from tilelang.layout.thread_values import Fragment, digit, fragment
from tilelang.records import record
from tilelang.targets.nvidia.isa.atom import ALL_LANES
from tilelang.targets.nvidia.machines import WARP_SIZE, Feature

_INSTEAD = "write T.gemm, which loads its operands itself"
ROW_BYTES = 16
ROWS = 8
REGISTER_BYTES = 4


@record
class MatrixCopyAtom:
    """A matrix load or store, and what it does with each lane.

    Lane l gives the address of row `l % 8` of matrix `l // 8`; addresses of lanes beyond the last matrix are not used.
    Register j of a lane holds a pair of 16-bit units of matrix j.

    Attributes:
        count: How many matrices: 1, 2 or 4.
        trans: Whether registers hold the matrices transposed.
    """

    count: int
    trans: bool

    @cached_property
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
        values, defined = warp.read_raw(row, ROW_BYTES // size, where=warp.lane < count * ROWS)
        held = _to_registers(atom, np.ascontiguousarray(values).view(np.uint8)).view(target.buffer.dtype.numpy)
        if np.count_nonzero(defined) == defined.size:
            warp.write(target, held)
            return
        held_known = _all_bytes_defined(_to_registers(atom, np.repeat(defined, size, axis=1)), held.shape)
        warp.write(target, held, defined=held_known)

    return Instruction(
        name=name,
        texts={"cuda": name + "({0}, {1})"},
        helpers={"cuda": Helper(name, text)},
        simulate=simulate,
        execution_scope=ExecutionScope.WARP,
        needs=Feature.MMA_F16,
        shared_rows=(count * ROWS, ROW_BYTES),
        instead=_INSTEAD,
        source='PTX ISA, "ldmatrix"',
    )


@cache
def stmatrix(count: int, trans: bool = False) -> Instruction:
    """Stores matrices to shared memory. Arguments: the address of the lane's row, registers to read.

    The warp synchronizes behind it, which takes no time, so that ptxas does not move the store to the next barrier and
    hold until then what it stores: of 240 registers it spilled 5 beside a GELU of 128.
    """
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
        "    __syncwarp();\n"
        "}\n"
    )

    def simulate(warp: Warp, row: Pointer, source: Pointer) -> None:
        warp.converge(ALL_LANES, "stmatrix")
        size = source.buffer.dtype.numpy.itemsize
        values, defined = map(np.ascontiguousarray, warp.read_raw(source, count * REGISTER_BYTES // size))
        rows = _to_rows(atom, values.view(np.uint8)).view(row.buffer.dtype.numpy)
        where = warp.lane < count * ROWS
        if np.count_nonzero(defined) == defined.size:
            warp.write(row, rows, where=where)
            return
        rows_known = _all_bytes_defined(_to_rows(atom, np.repeat(defined, size, axis=1)), rows.shape)
        warp.write(row, rows, where=where, defined=rows_known)

    return Instruction(
        name=name,
        texts={"cuda": name + "({0}, {1})"},
        helpers={"cuda": Helper(name, text)},
        simulate=simulate,
        execution_scope=ExecutionScope.WARP,
        needs=Feature.STMATRIX,
        shared_rows=(count * ROWS, ROW_BYTES),
        instead=_INSTEAD,
        source='PTX ISA, "stmatrix"',
    )


def _to_registers(atom: MatrixCopyAtom, rows: np.ndarray) -> np.ndarray:
    """Return the bytes that each lane holds of matrices given by their rows. Shapes: (32, 16) -> (32, 4 * count)."""
    units = rows[: atom.count * ROWS].reshape(atom.count, ROWS, ROWS, 2)
    return np.ascontiguousarray(units[atom.registers.places]).reshape(WARP_SIZE, -1)


def _to_rows(atom: MatrixCopyAtom, held: np.ndarray) -> np.ndarray:
    """The rows of the matrices that lanes hold, in bytes; zeros beyond them. Shapes: (32, 4 * count) -> (32, 16)."""
    units = np.zeros((WARP_SIZE // ROWS, ROWS, ROWS, 2), held.dtype)
    units[atom.registers.places] = held.reshape(WARP_SIZE, -1, 2)
    return units.reshape(WARP_SIZE, ROW_BYTES)


def _all_bytes_defined(defined: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Which elements have all of their bytes defined."""
    return np.asarray(defined.reshape(*shape, -1).all(axis=-1))


def instructions() -> Iterator[Instruction]:
    """Those of this file, one of each form."""
    for count in (1, 2, 4):
        yield from (make(count, trans) for make in (ldmatrix, stmatrix) for trans in (False, True))
