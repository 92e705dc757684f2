"""Recognizes associative updates: `x = x + e`, `m[0] = max(m[0], e)`, `S[i] *= e` and their other spellings.

Takes stores, gives `Update`s. Invariant: a store of operator `op` in ("+", "*", "min", "max", "fmin", "fmax", "&", "|",
"^") computes `element op e` where `e` does not read that element, so that executing such stores in any order, or on
partial results that are combined by `op` afterwards, gives the sequential result up to floating-point reassociation.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tilelang.dtypes import DType
from tilelang.ir.buffer import Buffer
from tilelang.ir.compare import same_expr
from tilelang.ir.expr import Binary, Call, Cast, Expr, Load, Select
from tilelang.ir.memoize import memoized
from tilelang.ir.scalar import COMPARISONS, BinaryOp
from tilelang.ir.stmt import Store
from tilelang.ir.visit import loads_of
from tilelang.records import record

PICK = "pick"
"""Pseudo-operator of an update that selects between the old value and another by a comparison with the old value."""

_OPERATORS: Mapping[BinaryOp, str] = MappingProxyType(
    {
        BinaryOp.ADD: "+",
        BinaryOp.SUB: "+",  # only as element - e
        BinaryOp.MUL: "*",
        BinaryOp.MIN: "min",
        BinaryOp.MAX: "max",
        BinaryOp.FMIN: "fmin",
        BinaryOp.FMAX: "fmax",
        BinaryOp.BITAND: "&",
        BinaryOp.BITOR: "|",
        BinaryOp.BITXOR: "^",
        BinaryOp.AND: "&",
        BinaryOp.OR: "|",
    }
)
_MODULAR = frozenset({"", "+", "*", "&", "|", "^"})  # well-defined modulo the narrowest width


@record(slots=True, eq=False)
class Update:
    """A store that updates one element by an associative operator.

    Attributes:
        store: The store.
        op: The operator, or `PICK` for a select, which may be associative as well.
        previous: The loads of the element's old value inside `store.value`.
    """

    store: Store
    op: str
    previous: tuple[Load, ...]

    @property
    def buffer(self) -> Buffer:
        """The buffer of the updated element."""
        return self.store.buffer

    @property
    def indices(self) -> tuple[Expr, ...]:
        """The subscripts of the updated element."""
        return self.store.indices


def as_update(store: Store) -> Update | None:
    """The store as an associative update; None if it is not one."""
    found = memoized(store, "_update", (), lambda: _update_of(store))
    return None if found is None else Update(store, *found)


def _update_of(store: Store) -> tuple[str, tuple[Load, ...]] | None:
    """The operator of a store and the loads of the old value; does not refer to the store, which keeps it."""
    previous = tuple(e for e in loads_of(store.value) if _is_element(e, store))
    if not previous:
        return None
    if any(_reads(index, store) for index in store.indices):
        return None
    crossed: list[DType] = []
    op = _operator(store.value, store, crossed)
    if op == "":  # stores the element unchanged
        return None
    if op is None:
        return (PICK, previous) if _is_pick(store.value, store) else None
    return (op, previous) if _keeps_meaning(op, store.buffer.dtype, crossed) else None


def _is_element(load: Load, store: Store) -> bool:
    return (
        load.buffer is store.buffer
        and load.dtype == store.buffer.dtype
        and all(same_expr(a, b) for a, b in zip(load.indices, store.indices, strict=True))
    )


def _reads(expr: Expr, store: Store) -> bool:
    return any(_is_element(e, store) for e in loads_of(expr))


def _operator(value: Expr, store: Store, crossed: list[DType]) -> str | None:
    """The operator that computes `value` from the element; "" for the element itself, None if there is none."""
    match value:
        case Load():
            return "" if _is_element(value, store) else None
        case Binary(op=op, a=a, b=b) if op in _OPERATORS:
            left, right = _reads(a, store), _reads(b, store)
            if left and right or op is BinaryOp.SUB and right:
                return None
            return _both(_OPERATORS[op], _operator(a if left else b, store, crossed))
        case Select(condition=condition, a=a, b=b):
            if _reads(condition, store):
                return None
            return _both(_operator(a, store, crossed), _operator(b, store, crossed))
        case Cast(a=a, dtype=dtype):
            crossed.extend((a.dtype, dtype))
            return _operator(a, store, crossed)
        case Call(callee=callee, args=(a, b, c)) if callee.name == "fma":
            return None if _reads(a, store) or _reads(b, store) else _both("+", _operator(c, store, crossed))
    return None


def _both(a: str | None, b: str | None) -> str | None:
    if a is None or b is None:
        return None
    return a if a == b or not b else b if not a else None


def _keeps_meaning(op: str, dtype: DType, crossed: list[DType]) -> bool:
    """Whether the update is associative although its operands are cast through these dtypes."""
    if dtype.is_bool:
        return not crossed and op in ("&", "|", "^", "min", "max")
    if not all(d.kind is dtype.kind or d.is_int and dtype.is_int for d in crossed):
        return False
    if any(d.bits < dtype.bits for d in crossed):
        return False
    return dtype.is_float or not crossed or op in _MODULAR


def _is_pick(value: Expr, store: Store) -> bool:
    """Whether the value is a select on a comparison with the element, as in `e if e > x else x`."""
    while isinstance(value, Cast):
        value = value.a
    if not isinstance(value, Select):
        return False
    condition = value.condition
    return isinstance(condition, Binary) and condition.op in COMPARISONS and _reads(condition, store)
