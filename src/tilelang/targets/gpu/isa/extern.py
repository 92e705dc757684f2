"""Calls of functions that the user's source defines.

Invariant: only a GPU knows what they do, so that simulating one is an error that says so.
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
    """The meaning of an instruction that only a GPU knows: simulating it is an error that says so."""

    def simulate(warp: Warp, *arguments: Any) -> NoReturn:
        raise NoLowering(f"{what} cannot be simulated", hint=hint)

    return simulate


def call_extern(result: DType | None, name: str, arity: int) -> Instruction:
    """A call of a function that the user's source defines; called with its arguments.

    Args:
        result: The dtype of its value; None if it has none.
        name: The function, as C++ calls it.
        arity: Number of arguments.

    Raises:
        ProgramError: The name is no name of C++.
    """
    if not _NAME.fullmatch(name):
        raise ProgramError(f"T.call_extern: {name!r} is no name of a C++ function")
    return Instruction(
        "call_extern",
        {},
        {},
        no_meaning(
            f"T.call_extern: the function '{name}', of which only its source in C++ is known,",
            "write it with the operators of the language, or run it on a GPU",
        ),
        result=result,
        source="the user's source",
        form=("call_extern", result, name, arity),
    )
