"""The accumulator dtype of reductions, scans and gemms.

Invariant: the interpreter and every lowering use this function, so that they round in the same places.
"""

from __future__ import annotations

from tilelang.dtypes import FLOAT32, INT32, DType, promote


def accumulator_dtype(src: DType, dst: DType) -> DType:
    """The dtype in which elements of `src` are accumulated for a result in `dst`.

    The wider of the two; at least float32 for floats, and int32 for integers narrower than a byte. The result is
    converted to `dst` once, at the end.
    """
    dtype = promote(src, dst)
    if dtype.is_float:
        return FLOAT32 if dtype.bits <= 32 else dtype
    return INT32 if dtype.bits < 8 else dtype
