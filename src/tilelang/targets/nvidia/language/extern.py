"""The user's own PTX and C++ inside a kernel (level 3).

Emits calls of instructions that are made of the user's text. Invariant: only a GPU can run them, and the text reaches
the compiler as it was written.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence, Set

from tilelang.dtypes import as_dtype
from tilelang.errors import ProgramError, ProgramTypeError
from tilelang.ir.buffer import Region, Scope
from tilelang.ir.expr import Expr, ExprLike, Load, Var, as_expr
from tilelang.ir.stmt import CallStmt, Stmt
from tilelang.ir.visit import Rewriter, expressions, variables_of, walk
from tilelang.language.address import Pointer
from tilelang.language.api import api
from tilelang.language.calls import emit_call, inside_kernel
from tilelang.language.stage import current
from tilelang.targets.gpu.isa.extern import call_extern as extern_instruction
from tilelang.targets.nvidia.isa.extern import inline_ptx as ptx_instruction
from tilelang.targets.nvidia.language.pointers import as_argument

__all__ = [
    "call_extern",
    "import_source",
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
    places = [_output(what, place) for place in outputs]
    values = [as_expr(value) for value in inputs]
    instruction = ptx_instruction(template, [p.dtype for p in places], [v.dtype for v in values])
    emit_call(what, instruction, *places, *values, writes=tuple(places))


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
    made = emit_call(what, extern_instruction(result, name, len(operands)), *operands, reads=reads, writes=writes)
    if made is not None:
        current(what).extern_results[made] = name
    return made


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


def _output(what: str, place: Expr) -> Region:
    if not isinstance(place, Load) or place.buffer.scope not in (Scope.VAR, Scope.LOCAL):
        raise ProgramError(
            f"{what}: an output is {place!r:.40}, which no register can stand for",
            hint="allocate it with T.alloc_var(dtype) or T.alloc_local, and store it afterwards",
        )
    return Region(place.buffer, place.indices, tuple(as_expr(1) for _ in place.indices))
