"""Helpers of the functions of tile operators: options that must be known while staging, and emission."""

from __future__ import annotations

from tilelang.errors import ProgramError
from tilelang.ir.expr import Const, Expr
from tilelang.ir.stmt import TileOp
from tilelang.language.stage import current


def emit_op(op: TileOp) -> None:
    """Checks an operator and appends it to the kernel.

    Raises:
        ProgramError: Shapes, dtypes or scopes do not fit.
    """
    stager = current(op.name)
    op.check()
    stager.emit(op)


def plain_bool(what: str, name: str, value: object) -> bool:
    """A switch that an argument must be while the kernel is staged.

    Raises:
        ProgramError: It is only known when the kernel runs.
    """
    if isinstance(value, Expr) and not isinstance(value, Const):
        raise ProgramError(
            f"{what}: {name} must be known while the kernel is staged", hint=f"write {name}=True or False"
        )
    return bool(value.value if isinstance(value, Const) else value)


def plain_int(what: str, name: str, value: object) -> int:
    """A number that an argument must be while the kernel is staged.

    Raises:
        ProgramError: It is no plain int.
    """
    number = value.value if isinstance(value, Const) else value
    if isinstance(number, bool) or not isinstance(number, int):
        raise ProgramError(f"{what}: {name} must be an int known while the kernel is staged, got {value!r:.40}")
    return number
