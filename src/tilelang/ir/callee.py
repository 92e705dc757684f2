"""Functions that expressions call, and routines that statements call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tilelang.dtypes import DType
from tilelang.records import record


@record(slots=True)
class Callee:
    """A pure function of scalars; `isa` extends it with its text in each language.

    Attributes:
        name: The name without prefix, as in `T.exp`.
        arity: Number of operands.
        result: The dtype of a call, from the dtypes of its operands.
        meaning: The function on NumPy values; operands come in the dtype that `compute` names.
        compute: The dtype in which operands are handed to `meaning`, from the operand dtypes.
    """

    name: str
    arity: int
    result: Callable[[tuple[DType, ...]], DType]
    meaning: Callable[..., Any]
    compute: Callable[[tuple[DType, ...]], DType]


@record(slots=True)
class Routine:
    """A procedure on memory that statements call; its text per language is given by `isa`.

    Attributes:
        name: The name in printed IR.
        texts: Per language, the text of the call, in which `{0}`, `{1}`, ... stand for the arguments: pointers for
            regions, values for expressions.
        helpers: Per language, what must stand before the first call; see `isa.intrinsic.Helper`.
    """

    name: str
    texts: Mapping[str, str]
    helpers: Mapping[str, object]
