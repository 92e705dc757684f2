"""The dtype in which operators that combine many elements do so.

Takes the dtypes of the operands, gives that of the running value. Invariant: the interpreter and every lowering ask
here, so that they round at the same places.
"""

from __future__ import annotations

from tilelang.dtypes import FLOAT32, INT32, DType, promote


def accumulator(src: DType, dst: DType) -> DType:
    """The dtype of a running fold from elements of `src` into elements of `dst`.

    The wider of the two, at least float32 among floats, and int32 for integers narrower than a byte; the result is
    converted to `dst` once, at the end.
    """
    dtype = promote(src, dst)
    if dtype.is_float:
        return FLOAT32 if dtype.bits <= 32 else dtype
    return INT32 if dtype.bits < 8 else dtype
