"""Functions of two values, or of two groups of them, that scans and reductions combine elements by.

Takes a function of the user, gives the expressions that it makes of its parameters. Invariant: the expressions read no
memory and have no effects, so that they may be evaluated anywhere and any number of times.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilelang.dtypes import DType
from tilelang.errors import ProgramError, ProgramTypeError, ProgramValueError
from tilelang.ir.buffer import Region
from tilelang.ir.expr import Expr, Var, as_expr, cast
from tilelang.language.regions import Operand, scalar_operand
from tilelang.language.stage import current, reads_memory

Combine = Callable[..., object]


def as_tiles(what: str, operand: Operand | Sequence[Operand], count: int | None = None) -> tuple[Operand, ...]:
    """One operand, or several in a tuple or list.

    Raises:
        ProgramValueError: There are none, or another number than is needed.
    """
    tiles = tuple(operand) if isinstance(operand, tuple | list) else (operand,)
    if not tiles or count is not None and len(tiles) != count:
        needed = "at least one tile is" if count is None else f"{count} tile{' is' if count == 1 else 's are'}"
        raise ProgramValueError(f"{what}: {needed} needed, got {len(tiles)}")
    return tiles


def as_many(what: str, srcs: Sequence[Region], dsts: Sequence[Region]) -> Sequence[Region]:
    """The destinations, if there is one for each source.

    Raises:
        ProgramValueError: There are more or fewer.
    """
    if len(srcs) != len(dsts):
        raise ProgramValueError(
            f"{what}: {len(srcs)} tiles come in, but {len(dsts)} go out", hint="pass one destination for each tile"
        )
    return dsts


def combining(what: str, function: Combine, dtypes: Sequence[DType]) -> tuple[tuple[Var, ...], tuple[Expr, ...]]:
    """The parameters of a function and what it makes of them, one value of each dtype.

    Raises:
        ProgramTypeError: It does not take two groups of values.
        ProgramError: It gives another number of values, reads memory, or has effects.
    """
    if not callable(function):
        raise ProgramTypeError(
            f"{what}: {function!r:.40} is no function of two values", hint="write lambda a, b: a + b"
        )
    stager = current(what)
    letters = ("a", "b") if len(dtypes) == 1 else tuple(f"{side}{n}" for side in "ab" for n in range(len(dtypes)))
    variables = tuple(Var(letter, dtype) for letter, dtype in zip(letters, (*dtypes, *dtypes), strict=True))
    with stager.block() as statements:
        combined = function(*variables)
    values = tuple(combined) if isinstance(combined, tuple | list) else (combined,)
    if len(values) != len(dtypes):
        raise ProgramError(
            f"{what}: the function gives {len(values)} values for {len(dtypes)} tiles",
            hint="return one value for each tile, in their order",
        )
    body = tuple(
        cast(as_expr(scalar_operand(value, what, "what the function gives")), dtype)
        for value, dtype in zip(values, dtypes, strict=True)
    )
    if statements or any(reads_memory(expr) for expr in body):
        raise ProgramError(
            f"{what}: the function reads or writes memory, or has statements that the kernel runs",
            hint="let it be one expression of its parameters, with T.if_then_else for choices",
        )
    return variables, body
