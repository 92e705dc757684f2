"""The dense matrix instructions of AMD's GPUs on the registers of a wave.

Layouts are written down here once more, apart from those of the compiler. Source: ROCm/amd_matrix_instruction_calculator
1.01 (CDNA 1 to 3, RDNA 3 and 4); the order of k within an instruction cannot be observed, since A and B share it.
"""

import re
from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np

_DTYPES = {"F16": np.float16, "BF16": ml_dtypes.bfloat16, "F32": np.float32, "XF32": np.float32, "F64": np.float64,
           "I8": np.int8, "IU8": np.int8, "IU4": ml_dtypes.int4}  # fmt: skip
_NAME = re.compile(r"V_(MFMA|WMMA)_(\w+?)_(\d+)X(\d+)X(\d+)_?(\w+?)(?:_1K)?(?:_E64)?$")


def multiplied(name: str, float8: Mapping[str, Any], a: Any, b: Any, c: Any) -> Any:
    """The registers of D, words by lanes.

    Args:
        name: Of the instruction.
        float8: The machine's dtypes of float8, "fp8" and "bf8".
        a: The registers of A; likewise `b` and `c`.

    Raises:
        NotImplementedError: The instruction is not one of those known here.
    """
    match = _NAME.match(name)
    if match is None or match[2] not in ("F32", "I32", "F64"):
        raise NotImplementedError(name)
    kinds = [_DTYPES.get(kind) or float8.get(kind.lower()) for kind in (match[6].split("_") * 2)[:2]]
    if None in kinds:
        raise NotImplementedError(name)
    size, depth = int(match[3]), int(match[5])
    lanes = a.shape[1]
    repeated = match[1] == "WMMA" and a.shape[0] * 32 // _bits(kinds[0]) == depth
    rows_a, rows_b = (_rows(words, kind, size, depth, repeated) for words, kind in zip((a, b), kinds, strict=True))
    wide = np.int64 if match[2] == "I32" else np.float64
    total = rows_a.astype(wide) @ rows_b.astype(wide).T
    kind = {"F32": np.float32, "I32": np.int32, "F64": np.float64}[match[2]]
    sums = np.ascontiguousarray(c.T).view(kind)  # lanes by values
    row, column = _places(match[1], match[2], repeated, lanes, sums.shape[1], size)
    result = (sums.astype(wide) + total[row, column]).astype(kind)
    return np.ascontiguousarray(result).view(np.uint32).T


def _bits(dtype: Any) -> int:
    return 4 if dtype is ml_dtypes.int4 else 8 * np.dtype(dtype).itemsize


def _rows(words: Any, dtype: Any, size: int, depth: int, repeated: bool) -> Any:
    """An operand as a matrix: lane l has values of row l mod size, next lanes with that row have those after them."""
    values = np.ascontiguousarray(words.T).view(np.uint8 if dtype is ml_dtypes.int4 else dtype)
    if dtype is ml_dtypes.int4:  # the low half of a byte comes first
        nibbles = np.stack([values & 15, values >> 4], axis=2).reshape(len(values), -1).astype(np.int8)
        values = (nibbles ^ 8) - 8
    if repeated:
        assert np.array_equal(words[:, :16], words[:, 16:]), "both halves of a wave must hold the operand"
        return values[:size]
    return values.reshape(-1, size, values.shape[1]).swapaxes(0, 1).reshape(size, -1)[:, :depth]


def _places(kind: str, of_sums: str, repeated: bool, lanes: int, values: int, size: int) -> tuple[Any, Any]:
    """Row and column of each value of D, by lane and value."""
    lane, value = np.arange(lanes)[:, None], np.arange(values)[None]
    column = lane % size + 0 * value
    if kind == "WMMA":
        return (2 * value + lane // 16 if repeated else 8 * (lane // 16) + value), column
    groups = 64 // size
    if of_sums == "F64":
        return 4 * value + lane // size, column
    return 4 * (value // 4 * groups + lane // size) + value % 4, column
