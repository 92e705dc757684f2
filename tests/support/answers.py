"""What lowerings answer when they are asked whether they do an operator."""

from tilelang.lowering.lowering import Refusal


def reason(lowering, op, site):
    """Why a lowering refuses an operator; "" if it accepts it."""
    answer = lowering.accepts(op, site)
    return answer.reason if isinstance(answer, Refusal) else ""


def accepted(lowering, op, site):
    """The plan of a lowering that accepts an operator."""
    answer = lowering.accepts(op, site)
    assert not isinstance(answer, Refusal), answer.reason
    return answer


def constraints(lowering, op, site):
    """What a lowering that accepts an operator needs of layouts."""
    return lowering.constrain(op, accepted(lowering, op, site), site)
