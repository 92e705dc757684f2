"""The user's own C++ inside a kernel (level 3).

Emits calls of functions of the user's text. Invariant: only a GPU can run them, and the text reaches the compiler as it
was written.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Set

from tilelang.dtypes import as_dtype
from tilelang.errors import ProgramError, ProgramTypeError
from tilelang.ir.buffer import Region
from tilelang.ir.expr import Expr, Var
from tilelang.ir.stmt import CallStmt, Stmt
from tilelang.ir.visit import Rewriter, expressions, variables_of, walk
from tilelang.language.address import Pointer
from tilelang.language.api import api
from tilelang.language.calls import emit_call, inside_kernel
from tilelang.language.pointers import as_argument
from tilelang.language.stage import current
from tilelang.targets.gpu.isa.extern import call_extern as extern_instruction

__all__ = [
    "call_extern",
    "import_source",
]


@api
def call_extern(*args: object, dtype: object = None) -> Expr | None:
    """Calls a C++ function of `T.import_source`: `T.call_extern(dtype, name, *arguments)`.

    Args:
        args: The dtype of its value, "handle" or "void" for a function without one; the function's name; values, and
            addresses of `T.address_of` or whole tiles. What addresses lead to counts as read and written, unless
            `access_ptr("r")` says otherwise.
        dtype: Of its value, in place of the first of `args`.

    Returns:
        The value, or None if there is none. A value that nothing uses need not exist.

    Raises:
        ProgramTypeError: The dtype or the name is missing.

    Example:
        `y = T.call_extern("float32", "my_activation", x)`, `T.call_extern("fill", T.access_ptr(b, "w"), dtype="void")`
    """
    what = "T.call_extern"
    given = args if dtype is None else (dtype, *args)
    kind, name = given[:2] if len(given) > 1 else (None, None)
    values = given[2:]
    if not isinstance(name, str):
        raise ProgramTypeError(
            f"{what}: needs a dtype and the name of a function", hint=f'write {what}("float32", "name", x)'
        )
    result = None if str(kind) in ("handle", "void", "None", "") else as_dtype(kind)
    operands = [as_argument(what, value) for value in values]  # type: ignore[arg-type]
    modes = [value.mode if isinstance(value, Pointer) else "rw" for value in values]
    regions = [(o, mode) for o, mode in zip(operands, modes, strict=True) if isinstance(o, Region)]
    reads = tuple(region for region, mode in regions if "r" in mode)
    writes = tuple(region for region, mode in regions if "w" in mode)
    returned = emit_call(what, extern_instruction(result, name, len(operands)), *operands, reads=reads, writes=writes)
    if returned is not None:
        current(what).extern_results[returned] = name
    return returned


def without_unused_results(body: Stmt, names: Mapping[Var, str]) -> Stmt:
    """A body in which calls of C++ functions give no value where nothing uses it: the function may have none.

    Args:
        body: The statements.
        names: The function that each result comes from.
    """
    used = {var for stmt in walk(body) for root in expressions(stmt) for var in variables_of(root)} if names else set()
    unused = names.keys() - used
    return _WithoutResults(names, unused).visit(body) or body if unused else body


class _WithoutResults(Rewriter):
    def __init__(self, names: Mapping[Var, str], unused: Set[Var]) -> None:
        self._name_of, self._unused = names, unused

    def stmt(self, node: Stmt) -> Stmt | None:
        if isinstance(node, CallStmt) and node.result in self._unused and node.result is not None:
            routine = extern_instruction(None, self._name_of[node.result], len(node.args))
            return dataclasses.replace(node, routine=routine, result=None)
        return self.rebuild_stmt(node)


@api
def import_source(text: str) -> None:
    """C++ that stands before the kernel: functions for `T.call_extern`.

    Example:
        `T.import_source("__device__ float twice(float x) { return 2 * x; }")`

    Raises:
        ProgramError: There is no kernel around, or the text is none.
    """
    current("T.import_source")
    if not isinstance(text, str):
        raise ProgramError(f"T.import_source: expected a text, got {type(text).__name__}")
    _, hints = inside_kernel("T.import_source")
    if text not in hints.sources:
        hints.sources.append(text)
