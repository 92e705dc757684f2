"""Atomic statements on memory that no other thread accesses, as loads and stores.

Takes an `Atomic` on an element of a thread's own memory, gives statements without atomics: on such memory a GPU's
atomic instructions fail.
"""

from __future__ import annotations

from tilelang.dtypes import SCALARS
from tilelang.errors import CompilerBug
from tilelang.ir.expr import Expr, Load, Reinterpret, Var, binary, cast
from tilelang.ir.stmt import Atomic, AtomicOp, Bind, If, Seq, Stmt, Store


def private_update(node: Atomic) -> Stmt:
    """The statements; the result is bound as the atomic would define it."""
    dtype = node.buffer.dtype
    previous: Expr = Load(node.buffer, node.indices, dtype)
    before: list[Stmt] = []
    if node.result is not None or node.compare is not None:
        result = Var("previous", dtype) if node.result is None else node.result
        before.append(Bind(result, cast(previous, result.dtype), loc=node.loc))
        previous = cast(result, dtype)
    if node.op is AtomicOp.LOAD:
        return Seq(tuple(before), loc=node.loc)
    if node.value is None:
        raise CompilerBug(f"T.atomic_{node.op.value}: there is no operand")
    value = cast(node.value, dtype)
    value = value if node.op.operator is None else binary(node.op.operator, previous, value)
    update: Stmt = Store(node.buffer, node.indices, value, loc=node.loc)
    if node.compare is not None:
        bits = SCALARS[f"uint{dtype.bits}"]
        expected = cast(node.compare, dtype)
        update = If(Reinterpret(previous, bits) == Reinterpret(expected, bits), update, loc=node.loc)
    return Seq((*before, update), loc=node.loc)
