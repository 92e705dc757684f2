"""The table of `mma.sync` instructions, and the choice among them.

Gives `ATOMS`, and `choose_atom` for the operand dtypes of a gemm. Invariant: an atom is listed if any hardware has it;
`needs` is the feature that a target must have.

Source: PTX ISA, "Multiply-and-Accumulate Instruction: mma", syntax and target notes.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilelang.dtypes import DType, as_dtype
from tilelang.isa.instruction import Instruction
from tilelang.targets.nvidia.isa.atom import MmaAtom, mma
from tilelang.targets.nvidia.machines import Feature
from tilelang.targets.target import Target

_FLOAT8 = ("float8_e4m3fn", "float8_e5m2")
_INT8 = ("int8", "uint8")
_INT4 = ("int4", "uint4")


def _atoms() -> Iterator[MmaAtom]:
    """All rows: the sizes of an operand dtype, smallest first."""

    def rows(needs: Feature, a: str, b: str, c: str, *shapes: tuple[int, int, int]) -> Iterator[MmaAtom]:
        for shape in shapes:
            yield MmaAtom(shape, as_dtype(a), as_dtype(b), as_dtype(c), needs)

    for c in ("float32", "float16"):
        yield from rows(Feature.MMA_F16, "float16", "float16", c, (16, 8, 8))
        yield from rows(Feature.MMA_AMPERE, "float16", "float16", c, (16, 8, 16))
    yield from rows(Feature.MMA_AMPERE, "bfloat16", "bfloat16", "float32", (16, 8, 8), (16, 8, 16))
    yield from rows(Feature.MMA_AMPERE, "tfloat32", "tfloat32", "float32", (16, 8, 4), (16, 8, 8))
    yield from rows(Feature.MMA_AMPERE, "float64", "float64", "float64", (8, 8, 4))
    wide = ((16, 8, 4), (16, 8, 8), (16, 8, 16))
    yield from rows(Feature.MMA_FLOAT64, "float64", "float64", "float64", *wide)
    for a in _INT8:
        for b in _INT8:
            yield from rows(Feature.MMA_INT8, a, b, "int32", (8, 8, 16))
            yield from rows(Feature.MMA_AMPERE, a, b, "int32", (16, 8, 16), (16, 8, 32))
    for a in _INT4:
        for b in _INT4:
            yield from rows(Feature.MMA_INT8, a, b, "int32", (8, 8, 32))
            yield from rows(Feature.MMA_AMPERE, a, b, "int32", (16, 8, 32), (16, 8, 64))
    for a in _FLOAT8:
        for b in _FLOAT8:
            yield from rows(Feature.MMA_FLOAT8, a, b, "float32", (16, 8, 32))


ATOMS: tuple[MmaAtom, ...] = tuple(_atoms())


def atoms_for(target: Target, a: DType, b: DType, c: DType) -> tuple[MmaAtom, ...]:
    """The atoms that a target has for these dtypes."""
    return tuple(
        atom for atom in ATOMS if (atom.a_dtype, atom.b_dtype, atom.c_dtype) == (a, b, c) and target.has(atom.needs)
    )


def choose_atom(target: Target, a: DType, b: DType, c: DType, k: int) -> MmaAtom | None:
    """The atom that a product of depth `k` is best made of: the least padding, then the largest; None without any."""
    return min(
        atoms_for(target, a, b, c),
        key=lambda atom: (-(-k // atom.shape[2]) * atom.shape[2], -atom.shape[0], -atom.shape[2]),
        default=None,
    )


def instructions() -> Iterator[Instruction]:
    """Those of this file: the instruction of each atom."""
    yield from map(mma, ATOMS)
