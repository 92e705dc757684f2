"""`T.print` and `T.device_assert`.

Takes values, tiles and conditions, emits `Print` and `Assert`. Invariant: a tile is printed once, in logical order.
"""

from __future__ import annotations

import ast
import linecache

from tilelang.errors import Loc, ProgramError
from tilelang.ir.expr import Const, Expr, ExprLike, as_bool, as_expr
from tilelang.ir.stmt import Assert, Print
from tilelang.language.api import api
from tilelang.language.proxy import TileProxy
from tilelang.language.stage import current

__all__ = [
    "device_assert",
    "print",
]


@api
def print(obj: TileProxy | ExprLike, msg: str = "") -> None:
    """Prints a scalar, an element or a whole tile when the kernel runs.

    Args:
        obj: An expression, an element, a buffer or a region.
        msg: What to print in front; the source text of `obj` otherwise.

    Raises:
        ProgramError: `obj` is text.

    Example:
        `T.print(C_local, msg="accumulator:")`
    """
    stager = current("T.print")
    if isinstance(obj, str):
        raise ProgramError("T.print: the first argument is text, not a value", hint="write T.print(value, msg='...')")
    operand = obj.region if isinstance(obj, TileProxy) and obj.ndim else as_expr(obj)  # type: ignore[arg-type]
    stager.emit(Print(operand, str(msg), _argument_text(stager.loc, "print")))


@api
def device_assert(condition: ExprLike, msg: str = "") -> None:
    """Stops the kernel with `DeviceAssertError` if the condition does not hold when the kernel gets here.

    Args:
        condition: A truth value, usually an expression.
        msg: What the error says; the source text of the condition otherwise.

    Raises:
        ProgramError: The condition is no scalar.
        DeviceAssertError: When the kernel runs and the condition does not hold; names this line.

    Example:
        `T.device_assert(idx[i] < N, "index out of range")`
    """
    stager = current("T.device_assert")
    test: Expr = as_bool(condition)
    if isinstance(test, Const) and test.value:
        return
    stager.emit(Assert(test, str(msg) or _argument_text(stager.loc, "device_assert") or "assertion failed"))


def _argument_text(loc: Loc, function: str) -> str:
    """The first argument of the call of `T.<function>` that stands at a place, as the user wrote it; "" if unclear."""
    if not loc.file:
        return ""
    last = max(loc.line, loc.end_line)
    lines = [linecache.getline(loc.file, n) for n in range(loc.line, last + 1)]
    lines[-1] = lines[-1][: loc.end_col or None]  # other statements may stand on the same lines
    lines[0] = lines[0][loc.col :]
    try:
        tree = ast.parse("".join(lines))
    except SyntaxError:
        return ""
    for node in ast.walk(tree):
        named = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == function
        if named and node.args:  # type: ignore[attr-defined]
            return ast.unparse(node.args[0])  # type: ignore[attr-defined]
    return ""
