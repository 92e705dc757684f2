"""Prints index arithmetic as Python, for values that the host computes before a launch: grids, sizes of workspaces.

Takes expressions of symbols and scalar parameters, gives text over their names. Invariant: evaluated with Python
integers, the text gives the exact value; division by zero gives 0.
"""

from __future__ import annotations

from tilelang.errors import CompilerBug
from tilelang.ir.expr import Binary, Cast, Const, Expr, Select, Unary, Var, int_const
from tilelang.ir.scalar import BinaryOp, UnaryOp

_INFIX = {
    BinaryOp.ADD: "+",
    BinaryOp.SUB: "-",
    BinaryOp.MUL: "*",
    BinaryOp.EQ: "==",
    BinaryOp.NE: "!=",
    BinaryOp.LT: "<",
    BinaryOp.LE: "<=",
    BinaryOp.GT: ">",
    BinaryOp.GE: ">=",
    BinaryOp.AND: "and",
    BinaryOp.OR: "or",
    BinaryOp.BITAND: "&",
    BinaryOp.BITOR: "|",
    BinaryOp.BITXOR: "^",
    BinaryOp.SHL: "<<",
    BinaryOp.SHR: ">>",
}
_DIVISIONS = {
    BinaryOp.FLOORDIV: "{a} // {b}",
    BinaryOp.FLOORMOD: "{a} % {b}",
    BinaryOp.TRUNCDIV: "abs({a}) // abs({b}) * (1 if ({a} < 0) == ({b} < 0) else -1)",
    BinaryOp.TRUNCMOD: "abs({a}) % abs({b}) * (1 if {a} >= 0 else -1)",
}


def python_text(expr: Expr) -> str:
    """The expression as Python, in parentheses unless it is a name or a number.

    Raises:
        CompilerBug: It has an operand that is not available on the host.
    """
    match expr:
        case Const(value=value):
            return str(value) if value >= 0 else f"({value})"
        case Var():
            return expr.name
        case Binary(op=BinaryOp.MIN | BinaryOp.MAX, a=a, b=b):
            return f"{expr.op.value}({python_text(a)}, {python_text(b)})"
        case Binary(op=op, a=a, b=b) if op in _INFIX:
            return f"({python_text(a)} {_INFIX[op]} {python_text(b)})"
        case Binary(op=op, a=a, b=b) if op in _DIVISIONS:
            text = _DIVISIONS[op].format(a=python_text(a), b=python_text(b))
            return f"({text})" if int_const(b) else f"({text} if {python_text(b)} else 0)"
        case Unary(op=UnaryOp.NOT, a=a):
            return f"(not {python_text(a)})"
        case Unary(op=op, a=a):
            return f"({op.value}{python_text(a)})"
        case Select(condition=condition, a=a, b=b):
            return f"({python_text(a)} if {python_text(condition)} else {python_text(b)})"
        case Cast(a=a) if expr.is_index:
            return python_text(a)
    raise CompilerBug(f"codegen: the host cannot compute a {type(expr).__name__}")
