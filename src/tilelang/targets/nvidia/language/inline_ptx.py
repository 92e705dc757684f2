"""The user's own PTX inside a kernel (level 3).

Emits calls of instructions that are made of the user's text. Invariant: only a GPU can run them, and the text reaches
the compiler as it was written.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilelang.errors import ProgramError
from tilelang.ir.buffer import Region, Scope
from tilelang.ir.expr import Expr, ExprLike, Load, as_expr
from tilelang.language.api import api
from tilelang.language.calls import emit_call
from tilelang.targets.nvidia.isa.extern import inline_ptx as ptx_instruction

__all__ = [
    "inline_ptx",
]


@api
def inline_ptx(template: str, outputs: Sequence[Expr] = (), inputs: Sequence[ExprLike] = ()) -> None:
    """PTX as the user writes it.

    Args:
        template: The instructions; `%0`, `%1`, ... stand for the outputs and then the inputs, `%%` for a percent sign.
        outputs: Places that the PTX writes: mutable scalars of `T.alloc_var`, elements of local buffers.
        inputs: Values that it reads.

    Raises:
        ProgramError: An output is no place that a register can stand for, or the template names more operands than
            there are.

    Example:
        `T.inline_ptx("mul.hi.u32 %0, %1, %2;", [high], [a, b])`
    """
    what = "T.inline_ptx"
    places = [_output(what, output) for output in outputs]
    values = [as_expr(value) for value in inputs]
    instruction = ptx_instruction(template, [p.dtype for p in places], [v.dtype for v in values])
    emit_call(what, instruction, *places, *values, writes=tuple(places))


def _output(what: str, element: Expr) -> Region:
    if not isinstance(element, Load) or element.buffer.scope not in (Scope.VAR, Scope.LOCAL):
        raise ProgramError(
            f"{what}: an output is {element!r:.40}, which no register can stand for",
            hint="allocate it with T.alloc_var(dtype) or T.alloc_local, and store it afterwards",
        )
    return Region(element.buffer, element.indices, tuple(as_expr(1) for _ in element.indices))
