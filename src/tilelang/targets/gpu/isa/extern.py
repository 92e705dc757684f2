"""Calls of functions that are defined in source of the user.

They have no simulation: the simulator raises an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NoReturn

from tilelang.dtypes import DType
from tilelang.errors import NoLowering, ProgramError
from tilelang.isa.instruction import Instruction
from tilelang.isa.simulated import Warp

_NAME = re.compile(r"[A-Za-z_]\w*(::[A-Za-z_]\w*)*(<[\w\s,:<>]*>)?")


def no_meaning(what: str, hint: str) -> Callable[..., Any]:
    """The simulation of an instruction whose semantics are only known to the GPU: raises."""

    def simulate(warp: Warp, *arguments: Any) -> NoReturn:
        raise NoLowering(f"{what} cannot be simulated", hint=hint)

    return simulate


def call_extern(result: DType | None, name: str, arity: int) -> Instruction:
    """A call of a function that is defined in source of the user.

    Args:
        result: The dtype of its value, if any.
        name: The name of the function in C++.
        arity: Number of arguments.

    Raises:
        ProgramError: The name is not an identifier of C++.
    """
    if not _NAME.fullmatch(name):
        raise ProgramError(f"T.call_extern: {name!r} is no name of a C++ function")
    return Instruction(
        "call_extern",
        {},
        {},
        no_meaning(
            f"T.call_extern: the function '{name}', which is only available as C++ source,",
            "write it with the operators of the language, or run it on a GPU",
        ),
        result=result,
        source="the user's source",
        dialect_key=("call_extern", result, name, arity),
    )
