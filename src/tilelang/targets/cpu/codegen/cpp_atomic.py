"""Prints atomic statements as C++.

Read-modify-write operations are compare-and-swap loops around the ordinary text of the operator, with the same
wrapping, rounding and NaN; simple integer operations use the machine's instruction. On-chip memory belongs to one
thread and needs neither.
"""

from __future__ import annotations

from tilelang.codegen.c_expr import ExprPrinter
from tilelang.dtypes import DType
from tilelang.errors import CompilerBug
from tilelang.ir.buffer import Scope
from tilelang.ir.expr import Expr, Var, binary, cast
from tilelang.ir.stmt import Atomic, AtomicOp
from tilelang.isa.intrinsic import Helper
from tilelang.targets.cpu.codegen.cpp_dialect import CPP

_FETCH = {
    AtomicOp.ADD: "__atomic_fetch_add",
    AtomicOp.AND: "__atomic_fetch_and",
    AtomicOp.OR: "__atomic_fetch_or",
    AtomicOp.XOR: "__atomic_fetch_xor",
}
UPDATE = Helper(
    "tl_atomic_update",
    """\
// Replaces an element by change(element), indivisibly; gives the element as it was.
template <int ORDER, typename T, typename F> static inline T tl_atomic_update(T* element, F change) {
    T old, next;
    __atomic_load(element, &old, __ATOMIC_RELAXED);
    do {
        next = change(old);
    } while (!__atomic_compare_exchange(element, &old, &next, true, ORDER, __ATOMIC_RELAXED));
    return old;
}
""",
)


def atomic_lines(node: Atomic, exprs: ExprPrinter) -> list[str]:
    """The statement's lines of text."""
    buffer, dtype = node.buffer, node.buffer.dtype
    if buffer.scope is Scope.VAR:
        raise CompilerBug("codegen: an atomic on a mutable scalar")
    lvalue, kind = exprs.element(buffer, node.indices), exprs.storage(dtype)
    value = None if node.value is None else cast(node.value, dtype)
    previous = _previous(node, exprs, lvalue, kind, value)
    if node.result is None:
        return [f"{previous};"]
    text = exprs.loaded(previous, dtype)
    return [f"const {CPP.value_type(dtype)} {exprs.names.declare(node.result)} = {text};"]


def _previous(node: Atomic, exprs: ExprPrinter, lvalue: str, kind: str, value: Expr | None) -> str:
    """An expression that performs the operation and has the value of the previous element."""
    op, dtype, order = node.op, node.buffer.dtype, f"__ATOMIC_{node.order.name}"
    if op is AtomicOp.LOAD:
        exprs.need(UPDATE_LOAD)
        return f"tl_atomic_load<{order}>(&{lvalue})"
    if value is None:
        raise CompilerBug(f"codegen: atomic {op.value} without a value")
    if op in _FETCH and _is_machine_integer(dtype):
        return f"{_FETCH[op]}(&{lvalue}, {exprs.stored(value, dtype)}, {order})"
    exprs.need(UPDATE)
    stored = exprs.stored(value, dtype)
    if node.compare is not None:
        expected = exprs.stored(cast(node.compare, dtype), dtype)
        return (
            f"tl_atomic_update<{order}>(&{lvalue}, [&]({kind} element) -> {kind} {{ "
            f"const {kind} expected = {expected}; "
            f"return __builtin_memcmp(&element, &expected, sizeof expected) ? element : {stored}; }})"
        )
    if op.operator is None:
        return f"tl_atomic_update<{order}>(&{lvalue}, [&]({kind}) -> {kind} {{ return {stored}; }})"
    with exprs.names.scope():
        old = Var("element", dtype)
        name = exprs.names.declare(old)
        exprs.names.alias(old, exprs.loaded(name, dtype))
        change = exprs.stored(binary(op.operator, old, value), dtype)
    return f"tl_atomic_update<{order}>(&{lvalue}, [&]({kind} {name}) -> {kind} {{ return {change}; }})"


def _is_machine_integer(dtype: DType) -> bool:
    return dtype.is_int and dtype.bits >= 8 and dtype.lanes == 1


UPDATE_LOAD = Helper(
    "tl_atomic_load",
    """\
// An element as some thread left it.
template <int ORDER, typename T> static inline T tl_atomic_load(const T* element) {
    T value;
    __atomic_load(element, &value, ORDER);
    return value;
}
""",
)
