"""Recognizes passes that `T.online_softmax` computes: a running maximum, a sum of exponentials, and a gemm of them.

These are three incremental forms of one kernel; the operator computes the same, and rescales only if a maximum has
grown by much. Its scores are unscaled, and its maximum may be smaller than the largest score, so that nothing else may
read its maximum and sum.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from tilelang.dtypes import FLOAT32
from tilelang.ir.buffer import Buffer
from tilelang.ir.compare import expr_key
from tilelang.ir.expr import Binary, Call, Const, Expr, Select, const
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.visit import loads_of
from tilelang.level1.contraction import Contraction, contraction, without_widening
from tilelang.level1.data_passes import Accumulation, Pass
from tilelang.level1.fused import Output
from tilelang.level1.graph import Combiner
from tilelang.level1.strength_reduction import LOG2_E
from tilelang.records import record


@record(eq=False)
class SoftmaxStep:
    """The operands of an online softmax.

    Attributes:
        scores: What is combined into the maximum, divided by the scale.
        scale: Positive.
        exponential: The exponential of a score, as the sum and the gemm read it.
        maximum: The running maximum.
        total: The running sum of exponentials.
        output: The gemm of exponentials and another operand, a sum over the same axes.
        product: Its operands.
    """

    scores: Expr
    scale: float
    exponential: Expr
    maximum: Accumulation
    total: Accumulation
    output: Accumulation
    product: Contraction


def softmax_step(each: Pass, outputs: Sequence[Output]) -> SoftmaxStep | None:
    """The online softmax that the only pass of a kernel computes; None if it computes something else.

    Args:
        each: The pass.
        outputs: What is stored after it.
    """
    if len(each.accumulations) != 3 or each.outputs:
        return None
    maximum, total, output = each.accumulations
    if maximum.reduction.combiner is not Combiner.MAX or total.reduction.combiner is not Combiner.SUM:
        return None
    if maximum.form is not None or maximum.body.dtype != FLOAT32:
        return None
    exponential = total.body
    match exponential:
        case Call(callee=callee, args=(Binary(op=BinaryOp.MUL, a=Binary(op=BinaryOp.SUB, a=a, b=b), b=Const() as c),)):
            if callee.name != "__exp2" or c.value != const(LOG2_E, FLOAT32).value:
                return None
            if expr_key(a) != expr_key(maximum.body) or expr_key(b) != expr_key(maximum.reduction.result):
                return None
        case _:
            return None
    product = contraction(output.reduction, output.body)
    if product is None or expr_key(without_widening(product.a)) != expr_key(exponential):
        return None
    total_array = total.reduction.array
    own: set[Buffer] = {maximum.reduction.array, total_array}
    if any(o.array in own or _reads(o.body, own) for o in outputs):
        return None
    if output.form is None or output.form.epilogue is not None and _reads(output.form.epilogue, own - {total_array}):
        return None
    return SoftmaxStep(*_unscaled(maximum.body), exponential, maximum, total, output, product)


def _reads(expr: Expr, buffers: Set[Buffer]) -> bool:
    return any(load.buffer in buffers for load in loads_of(expr))


def _unscaled(expr: Expr) -> tuple[Expr, float]:
    """An expression and its positive constant factor, also under a mask of -inf."""
    match expr:
        case Binary(op=BinaryOp.MUL, a=a, b=Const(value=value)) if value > 0:
            return a, float(value)
        case Binary(op=BinaryOp.MUL, a=Const(value=value), b=b) if value > 0:
            return b, float(value)
        case Select(condition=condition, a=a, b=Const(value=value) as other) if value == -float("inf"):
            inner, scale = _unscaled(a)
            return Select(condition, inner, other, expr.dtype), scale
    return expr, 1.0
