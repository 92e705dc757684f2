"""Plans and refusals of lowerings for an operator."""

from tilelang.lowering.lowering import Refusal


def reason(lowering, op, context):
    """Why a lowering refuses an operator; "" if it accepts it."""
    answer = lowering.accepts(op, context)
    return answer.reason if isinstance(answer, Refusal) else ""


def accepted(lowering, op, context):
    """The plan of a lowering that accepts an operator."""
    answer = lowering.accepts(op, context)
    assert not isinstance(answer, Refusal), answer.reason
    return answer


def constraints(lowering, op, context):
    """What a lowering that accepts an operator needs of layouts."""
    return lowering.constrain(op, accepted(lowering, op, context), context)
