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
def print(obj: TileProxy | ExprLike | None = None, msg: str = "", warp_group_id: int = 0, warp_id: int = 0) -> None:
    """Prints a scalar, an element, a whole tile or a text when the kernel runs.

    Args:
        obj: An expression, an element, a buffer or a region; nothing but the text without it.
        msg: What to print in front; the source text of `obj` otherwise.
        warp_group_id: Whose thread prints a tile, which has the same contents for all. Accepted as published.
        warp_id: The warp in that group, likewise.

    Raises:
        ProgramError: `obj` is text, or there is neither it nor a text, or a number of a warp is negative.

    Example:
        `T.print(C_local, msg="accumulator:")`
    """
    stager = current("T.print")
    if isinstance(obj, str):
        raise ProgramError("T.print: the first argument is text, not a value", hint="write T.print(value, msg='...')")
    for name, number in (("warp_group_id", warp_group_id), ("warp_id", warp_id)):
        if isinstance(number, bool) or not isinstance(number, int) or number < 0:
            raise ProgramError(f"T.print: {name} is {number!r:.40}, not the number of one")
    if obj is None:
        if not msg:
            raise ProgramError("T.print: there is nothing to print", hint="write T.print(value), or T.print(msg='...')")
        stager.emit(Print(None, str(msg)))
        return
    operand = obj.region if isinstance(obj, TileProxy) and obj.ndim else as_expr(obj)  # type: ignore[arg-type]
    stager.emit(Print(operand, str(msg), _argument_text(stager.loc, "print")))


@api
def device_assert(condition: ExprLike, msg: str = "", no_stack_info: bool = False) -> None:
    """Stops the kernel with `DeviceAssertError` if the condition does not hold when the kernel gets here.

    Args:
        condition: A truth value, usually an expression.
        msg: What the error says; the source text of the condition otherwise.
        no_stack_info: Accepted as published; the error always names the line.

    Raises:
        ProgramError: The condition is no scalar.
        DeviceAssertError: When the kernel runs and the condition does not hold; names this line.

    Example:
        `T.device_assert(idx[i] < N, "index out of range")`
    """
    del no_stack_info
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
