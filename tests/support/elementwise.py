"""Kernels that apply expressions to elements of arrays, to test the generated text of an expression."""

import numpy as np
from cuda_host import run_source, sequential_source
from harness import assert_same, run_everywhere, run_reference_on_copies
from programs import index_var

from tilelang.dtypes import as_dtype
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Load, as_expr
from tilelang.ir.func import PrimFunc, TensorParam
from tilelang.ir.scalar import LOGICAL, BinaryOp
from tilelang.ir.stmt import Launch, ParallelLoop, Seq, Store

INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
FLOATS = ["float16", "bfloat16", "float32", "float64"]
EIGHT_BITS = ["float8_e4m3fn", "float8_e5m2"]
ARITHMETIC = [op for op in BinaryOp if op not in LOGICAL]


def global_buffer(name, shape, dtype):
    return Buffer(name, tuple(as_expr(e) for e in shape), as_dtype(dtype), Scope.GLOBAL)


class Elementwise:
    """A kernel that applies expressions to elements of arrays, one output row each; compiled once for many dtypes."""

    def __init__(self):
        self.params, self.arguments, self.launches = [], [], []

    def add(self, dtype, make, x, y):
        """Outputs for all expressions `make(x, y)`."""
        i, count, number = index_var("i"), as_expr(len(x)), len(self.launches)
        inputs = [global_buffer(f"{letter}{number}", (len(x),), dtype) for letter in "XY"]
        exprs = make(*(Load(buffer, (i,), buffer.dtype) for buffer in inputs))
        outs = [global_buffer(f"O{number}_{n}", (len(x),), e.dtype) for n, e in enumerate(exprs)]
        body = [ParallelLoop((i,), (count,), Store(out, (i,), e)) for out, e in zip(outs, exprs, strict=True)]
        self.launches.append(Launch((index_var("bx"),), (as_expr(1),), (128, 1, 1), Seq(tuple(body))))
        self.params += [*inputs, *outs]
        self.arguments += [x, y, *(np.zeros(len(x), out.dtype.numpy) for out in outs)]

    @property
    def func(self):
        """The kernel."""
        return PrimFunc("elementwise", tuple(TensorParam(b) for b in self.params), Seq(tuple(self.launches)))

    def check(self, rtol=0.0, atol=0.0):
        """Runs everything on both executors."""
        run_everywhere(self.func, *self.arguments, rtol=rtol, atol=atol, compile_flags="-O1")

    def check_cuda(self):
        """Runs the CUDA text on the host, for dtypes whose text is C++ as well."""
        func = self.func
        expected = run_reference_on_copies(func, self.arguments)
        actual = [np.array(a) for a in self.arguments]
        run_source(func, sequential_source(func), actual)
        for want, got in zip(expected, actual, strict=True):
            assert_same(want, got)


def pairs(values, dtype):
    """All pairs of some values as two arrays."""
    array = np.array(values, np.float64 if isinstance(values[0], float) else as_dtype(dtype).numpy)
    a, b = np.meshgrid(array.astype(as_dtype(dtype).numpy), array.astype(as_dtype(dtype).numpy))
    return a.ravel(), b.ravel()
