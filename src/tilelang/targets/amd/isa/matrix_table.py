"""The table of dense matrix instructions of AMD's GPUs.

Gives `MATRIX_INSTRUCTIONS`, and those of a machine. Invariant: a row is listed if any machine has it; `runs_on` says
which.

Source: as for `matrix`, the list of instructions of each manual; names from clang's BuiltinsAMDGPU.def; clocks from
ROCm/amd_matrix_instruction_calculator and, for gfx950, LLVM's SISchedule.td.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from tilelang.dtypes import DType, as_dtype
from tilelang.targets.amd.isa.matrix import MatrixInstruction, Operands
from tilelang.targets.amd.machines import Feature
from tilelang.targets.machine import Machine

_FLOAT8 = {
    Feature.MFMA_FP8_FNUZ: {"fp8": "float8_e4m3fnuz", "bf8": "float8_e5m2fnuz"},
    Feature.MFMA_FP8_OCP: {"fp8": "float8_e4m3fn", "bf8": "float8_e5m2"},
}
_OCP = _FLOAT8[Feature.MFMA_FP8_OCP]
_INT8 = ("int8", "uint8")
_INT4 = ("int4", "uint4")
# M, K, blocks, and clocks
_SIXTEEN_BITS = ((32, 8, 1, 32), (16, 16, 1, 16), (32, 4, 2, 64), (16, 4, 4, 32), (4, 4, 16, 8))
_FLOAT32 = ((32, 2, 1, 64), (16, 4, 1, 32), (32, 1, 2, 64), (16, 1, 4, 32), (4, 1, 16, 8))
_INT8_BLOCKS = ((32, 4, 2, 64), (16, 4, 4, 32), (4, 4, 16, 8))
_EIGHT_BITS = ((32, 16, 1, 32), (16, 32, 1, 16))


def _mfma(
    needs: Feature,
    out: str,
    kind: str,
    dtypes: tuple[str, str, str],
    size: int,
    k: int,
    blocks: int,
    cycles: int,
    operand_type: str,
    *,
    flushes: bool = False,
    variant: str = "",
) -> MatrixInstruction:
    a, b, c = map(as_dtype, dtypes)
    builtin = f"mfma_{out}_{size}x{size}x{k}{kind}"
    return MatrixInstruction(
        Operands.MFMA, builtin, (size, size, k), a, b, c, needs, cycles, blocks, operand_type, flushes, variant=variant
    )


def _of_cdna() -> Iterator[MatrixInstruction]:
    for size, k, blocks, cycles in _FLOAT32:
        yield _mfma(Feature.MFMA, "f32", "f32", ("float32",) * 3, size, k, blocks, cycles, "float")
    for flushes in (False, True):  # gfx90a flushes, and needs twice the clocks for instructions of one block
        needs = Feature.MFMA | Feature.MFMA_FLUSHES if flushes else Feature.MFMA
        for size, k, blocks, cycles in _SIXTEEN_BITS:
            clocks = 2 * cycles if flushes and blocks == 1 else cycles
            halves, brains = ("float16", "float16", "float32"), ("bfloat16", "bfloat16", "float32")
            yield _mfma(needs, "f32", "f16", halves, size, k, blocks, clocks, "_Float16", flushes=flushes)
            yield _mfma(needs, "f32", "bf16_1k", brains, size, k, blocks, clocks, "short", flushes=flushes)
    for size, k in ((32, 16), (16, 32)):
        for dtype, kind, element in (("float16", "_f16", "_Float16"), ("bfloat16", "_bf16", "__bf16")):
            yield _mfma(Feature.MFMA_WIDE, "f32", kind, (dtype, dtype, "float32"), size, k, 1, size, element)
    integers = ("int8", "int8", "int32")
    for size, k in ((32, 8), (16, 16)):
        yield _mfma(Feature.MFMA_I8_NARROW, "i32", "i8", integers, size, k, 1, 2 * size, "int")
    for size, k, blocks, cycles in _INT8_BLOCKS:
        yield _mfma(Feature.MFMA, "i32", "i8", integers, size, k, blocks, cycles, "int")
    for size, k, blocks, cycles in _EIGHT_BITS:
        yield _mfma(Feature.MFMA_I8, "i32", "_i8", integers, size, k, blocks, cycles, "long")
    for size, k in ((32, 32), (16, 64)):
        yield _mfma(Feature.MFMA_WIDE, "i32", "_i8", integers, size, k, 1, size, "int")
    for needs, kinds in _FLOAT8.items():
        variant = "ocp" if kinds is _OCP else "fnuz"
        for a, b in ((a, b) for a in kinds for b in kinds):
            for size, k, blocks, cycles in _EIGHT_BITS:
                dtypes = (kinds[a], kinds[b], "float32")
                yield _mfma(needs, "f32", f"_{a}_{b}", dtypes, size, k, blocks, cycles, "long", variant=variant)
    for size, k in ((32, 4), (16, 8)):
        truncated = ("tfloat32", "tfloat32", "float32")
        yield _mfma(Feature.MFMA_XF32, "f32", "_xf32", truncated, size, k, 1, size, "float")
    doubles = ("float64",) * 3
    yield _mfma(Feature.MFMA_F64, "f64", "f64", doubles, 16, 4, 1, 32, "double")
    yield _mfma(Feature.MFMA_F64, "f64", "f64", doubles, 4, 4, 4, 16, "double")
    yield from _of_scaled()


def _of_scaled() -> Iterator[MatrixInstruction]:
    """With scales of zero clang chooses the instruction that has none."""
    formats = {"fp8": 0, "bf8": 1}
    for a, b in ((a, b) for a in formats for b in formats):
        for size, k in ((32, 64), (16, 128)):
            yield MatrixInstruction(
                Operands.MFMA,
                f"mfma_scale_f32_{size}x{size}x{k}_f8f6f4",
                (size, size, k),
                as_dtype(_OCP[a]),
                as_dtype(_OCP[b]),
                as_dtype("float32"),
                Feature.MFMA_SCALED,
                2 * size,
                arguments=f"{{a}}, {{b}}, {{c}}, {formats[a]}, {formats[b]}, 0, 0, 0, 0",
                variant=f"{a}_{b}",
            )


def _of_rdna() -> Iterator[MatrixInstruction]:
    shape = (16, 16, 16)
    for needs, operands, suffix in (
        (Feature.WMMA_REPEATED, Operands.REPEATED, "_w32"),
        (Feature.WMMA_SPLIT, Operands.SPLIT, "_w32_gfx12"),
    ):
        for dtype, kind, element in (("float16", "f16", "_Float16"), ("bfloat16", "bf16", "short")):
            row = as_dtype(dtype)
            yield MatrixInstruction(
                operands, f"wmma_f32_16x16x16_{kind}{suffix}", shape, row, row, as_dtype("float32"), needs,
                operand_type=element, arguments="{a}, {b}, {c}",
            )  # fmt: skip
        yield from _of_integers(operands, f"wmma_i32_16x16x16_iu8{suffix}", shape, _INT8, needs)
        yield from _of_integers(operands, f"wmma_i32_16x16x16_iu4{suffix}", shape, _INT4, needs)
    yield from _of_integers(
        Operands.SPLIT, "wmma_i32_16x16x32_iu4_w32_gfx12", (16, 16, 32), _INT4, Feature.WMMA_SPLIT
    )
    for a, b in ((a, b) for a in _OCP for b in _OCP):
        yield MatrixInstruction(
            Operands.SPLIT, f"wmma_f32_16x16x16_{a}_{b}_w32_gfx12", shape, as_dtype(_OCP[a]), as_dtype(_OCP[b]),
            as_dtype("float32"), Feature.WMMA_SPLIT, arguments="{a}, {b}, {c}",
        )  # fmt: skip


def _of_integers(
    operands: Operands, builtin: str, shape: tuple[int, int, int], dtypes: tuple[str, str], needs: Feature
) -> Iterator[MatrixInstruction]:
    """An instruction of WMMA that takes signed and unsigned integers; those of 4 bits are packed for it."""
    operand = "tl_nibbles({})" if dtypes is _INT4 else "{}"
    for a, b in ((a, b) for a in dtypes for b in dtypes):
        signs = ["false" if dtype.startswith("u") else "true" for dtype in (a, b)]
        left, right = operand.format("{a}"), operand.format("{b}")
        yield MatrixInstruction(
            operands, builtin, shape, as_dtype(a), as_dtype(b), as_dtype("int32"), needs,
            arguments=f"{signs[0]}, {left}, {signs[1]}, {right}, {{c}}, false", variant=f"{a}_{b}",
        )  # fmt: skip


MATRIX_INSTRUCTIONS: tuple[MatrixInstruction, ...] = (*_of_cdna(), *_of_rdna())


@lru_cache(maxsize=256)
def instructions_for(machine: Machine, a: DType, b: DType, c: DType) -> tuple[MatrixInstruction, ...]:
    """Those of a machine for one product of these dtypes."""
    return tuple(
        row
        for row in MATRIX_INSTRUCTIONS
        if (row.a_dtype, row.b_dtype, row.c_dtype) == (a, b, c) and row.blocks == 1 and row.runs_on(machine)
    )
