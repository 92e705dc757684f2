"""Strength reduction of what kernels compute for every element.

In float32, a division by a constant becomes a product, and so does one by what varies along fewer axes, whose
reciprocal is then computed once. An exponential of a difference from a maximum becomes a power of 2, which is one
instruction: the exponent is at most 0, so that its rounding is an error of at most 2 ** -24 of the largest exponential.
"""

from __future__ import annotations

import dataclasses
import math

from tilelang.dtypes import FLOAT32
from tilelang.ir.expr import Binary, Call, Const, Expr, Load, const
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.visit import Rewriter, loads_of, variables_of
from tilelang.isa.catalogue import INTRINSICS
from tilelang.level1.fused import FusedKernel
from tilelang.level1.graph import Combiner

LOG2_E = math.log2(math.e)


def with_reduced_strength(kernel: FusedKernel) -> FusedKernel:
    """The kernel with the strength of its bodies reduced."""
    reduce = _StrengthReduction(kernel)
    return dataclasses.replace(
        kernel,
        reductions=tuple(dataclasses.replace(each, body=reduce.expr(each.body)) for each in kernel.reductions),
        outputs=tuple(dataclasses.replace(each, body=reduce.expr(each.body)) for each in kernel.outputs),
    )


class _StrengthReduction(Rewriter):
    def __init__(self, kernel: FusedKernel) -> None:
        self._maxima = {r.array for r in kernel.reductions if r.combiner is Combiner.MAX}

    def expr(self, node: Expr) -> Expr:
        node = self.rebuild_expr(node)
        if node.dtype != FLOAT32:
            return node
        match node:
            case Binary(op=BinaryOp.DIV, a=a, b=Const(value=value)) if _has_reciprocal(value):
                return _times(a, 1 / value)
            case Binary(op=BinaryOp.MUL, a=a, b=Const(value=value)):
                return _times(a, value)
            case Binary(op=BinaryOp.DIV, a=a, b=b) if _varies_along_fewer(b, a):
                return a * (const(1, FLOAT32) / b)
            case Call(callee=callee, args=(Binary(op=BinaryOp.SUB, b=Load(buffer=buffer)) as exponent,)):
                if callee.name == "exp" and buffer in self._maxima:
                    return Call(INTRINSICS["__exp2"], (exponent * const(LOG2_E, FLOAT32),), FLOAT32)
        return node


def _times(a: Expr, factor: float) -> Expr:
    """A product with a constant, folded with one that is there."""
    match a:
        case Binary(op=BinaryOp.MUL, a=inner, b=Const(value=value)):
            return inner * const(value * factor, FLOAT32)
    return a * const(factor, FLOAT32)


def _has_reciprocal(value: float) -> bool:
    """Whether the reciprocal of a constant is neither infinite nor subnormal."""
    return 2.0**-126 <= abs(value) <= 2.0**126


def _varies_along_fewer(b: Expr, a: Expr) -> bool:
    """Whether `b` reads memory, and varies along some of the axes of `a` only."""
    return bool(loads_of(b)) and variables_of(b) < variables_of(a)
