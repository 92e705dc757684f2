"""Evaluation of scalar expressions for all lanes of a warp at once: each is turned into a closure, once per program.

Takes expressions, gives closures over a `Frame` (a warp: its variables, its memory, its mask). A closure's value is one
number that all lanes share where nothing in it depends on the thread, else an array with one value per lane; which of
the two is found out when it runs. Invariant: for each active lane the value is what `sim.expressions` computes: index
arithmetic is exact, data wraps and rounds at each operation, only the chosen side of a `Select`, `and` and `or` is
loaded. Values of inactive lanes are arbitrary.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import numpy as np

from tilelang.dtypes import FLOAT32, DType
from tilelang.errors import CompilerBug
from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Binary, Call, Cast, Const, Expr, Load, Reinterpret, Select, Unary, Var
from tilelang.ir.scalar import COMPARISONS, LOGICAL, BinaryOp, UnaryOp, convert, data_binary, data_unary, exact_binary
from tilelang.ir.visit import walk_expr
from tilelang.isa.simulated import TensorMapView
from tilelang.sim.device_memory import Window
from tilelang.sim.local_memory import Registers
from tilelang.sim.storage import Accessor

Value = Any  # a number, or an array with one entry (or one vector) per lane
Closure = Callable[["Frame"], Value]
Moved = Callable[["Frame"], tuple[Value, "np.ndarray | None"]]


class Frame(Accessor, Protocol):
    """The state that closures work on.

    Attributes:
        env: The value of every variable, by its slot.
        cells: The memory of every buffer, by its slot; None before its first use.
    """

    env: list[Value]
    cells: list[Window | Registers | None]

    def cell(self, slot: int) -> Window | Registers:
        """The memory of a buffer whose entry in `cells` is still None."""

    def set_mask(self, mask: np.ndarray) -> None:
        """Makes these lanes the active ones."""


class Slots:
    """Numbers variables and buffers, so that a frame can hold them in lists.

    Attributes:
        buffers: By slot.
        invariant: Variables that do not change while a warp runs: the block, the thread, sizes, scalar parameters.
        views: The tensors of the variables that are tensor maps.
        place: Gives the window on a tensor at an address; takes the buffer, the address, extents and strides.
    """

    def __init__(self) -> None:
        self._vars: dict[object, int] = {}
        self._cells: dict[Buffer, int] = {}
        self.buffers: list[Buffer] = []
        self.invariant: set[Var] = set()
        self.views: dict[Expr, TensorMapView] = {}
        self.place: Callable[[Buffer, int, tuple[int, ...], tuple[int, ...] | None], Window] | None = None

    def var(self, var: object) -> int:
        """The slot of a variable, or of anything else that a frame shall remember."""
        return self._vars.setdefault(var, len(self._vars))

    def has_slot(self, var: object) -> bool:
        """Whether the program names the variable."""
        return var in self._vars

    def buffer(self, buffer: Buffer) -> int:
        """The slot of a buffer."""
        slot = self._cells.get(buffer)
        if slot is None:
            slot = self._cells[buffer] = len(self.buffers)
            self.buffers.append(buffer)
        return slot

    @property
    def variables(self) -> int:
        """The number of slots for variables."""
        return len(self._vars)


_EXACT: dict[BinaryOp, Callable[[Value, Value], Value]] = {
    BinaryOp.ADD: operator.add,
    BinaryOp.SUB: operator.sub,
    BinaryOp.MUL: operator.mul,
    BinaryOp.EQ: operator.eq,
    BinaryOp.NE: operator.ne,
    BinaryOp.LT: operator.lt,
    BinaryOp.LE: operator.le,
    BinaryOp.GT: operator.gt,
    BinaryOp.GE: operator.ge,
    BinaryOp.BITAND: operator.and_,
    BinaryOp.BITOR: operator.or_,
    BinaryOp.BITXOR: operator.xor,
}


def _truncated_quotient(x: Value, positive: int) -> Value:
    if isinstance(x, int):
        return x // positive if x >= 0 else -(-x // positive)
    quotient = x // positive
    return quotient + (quotient * positive != x) * (x < 0) if np.count_nonzero(x < 0) else quotient


def _truncated_remainder(x: Value, positive: int) -> Value:
    if isinstance(x, int):
        return x % positive if x >= 0 else -(-x % positive)
    return np.fmod(x, positive)


_BY_CONSTANT: dict[BinaryOp, Callable[[Value, Value], Value]] = {  # right for a positive constant on the right
    BinaryOp.FLOORDIV: operator.floordiv,
    BinaryOp.FLOORMOD: operator.mod,
    BinaryOp.TRUNCDIV: _truncated_quotient,
    BinaryOp.TRUNCMOD: _truncated_remainder,
}
# Operators for which NumPy, on operands of one dtype that C has, does what `data_binary` does.
_NATIVE: dict[BinaryOp, Callable[[Value, Value], Value]] = {
    BinaryOp.ADD: np.add,
    BinaryOp.SUB: np.subtract,
    BinaryOp.MUL: np.multiply,
    BinaryOp.DIV: np.true_divide,
    BinaryOp.MIN: np.minimum,
    BinaryOp.MAX: np.maximum,
    BinaryOp.FMIN: np.fmin,
    BinaryOp.FMAX: np.fmax,
    BinaryOp.BITAND: np.bitwise_and,
    BinaryOp.BITOR: np.bitwise_or,
    BinaryOp.BITXOR: np.bitwise_xor,
    BinaryOp.EQ: np.equal,
    BinaryOp.NE: np.not_equal,
    BinaryOp.LT: np.less,
    BinaryOp.LE: np.less_equal,
    BinaryOp.GT: np.greater,
    BinaryOp.GE: np.greater_equal,
}


class LaneCompiler:
    """Closures for the expressions of one program.

    Args:
        slots: The slots of variables and buffers in a frame.
        warp_size: How many lanes a frame has.
    """

    def __init__(self, slots: Slots, warp_size: int) -> None:
        self._slots, self._warp_size = slots, warp_size
        self._indices: dict[Expr, Closure] = {}
        self._data: dict[Expr, Closure] = {}

    def index(self, expr: Expr) -> Closure:
        """The exact value of an integer expression: a Python int, or int64 per lane."""
        closure = self._indices.get(expr)
        if closure is None:
            closure = self._indices[expr] = self._kept(expr, self._index(expr))
        return closure

    def data(self, expr: Expr) -> Closure:
        """The value of an expression in its dtype."""
        closure = self._data.get(expr)
        if closure is None:
            closure = self._data[expr] = self._as_data(expr)
        return closure

    def bound(self, var: Var, expr: Expr) -> Closure:
        """The value that a variable receives."""
        return self.index(expr) if var.index else self.data(expr)

    def moved(self, expr: Expr) -> Moved | None:
        """The value and which lanes of it are defined, for expressions that only move contents; None for others."""
        match expr:
            case Load():
                return self._load(expr, moving=True)
            case Cast(a=a, dtype=dtype) if not expr.is_index:
                inner = self.moved(a)
                if inner is None:
                    return None
                return _changed(inner, converter(a.dtype, dtype))
            case Reinterpret(a=a, dtype=dtype) if a.dtype.lanes == dtype.lanes:
                inner = self.moved(a)
                return None if inner is None else _changed(inner, lambda value: _reinterpret(value, dtype))
            case Select(condition=condition, a=a, b=b) if not expr.is_index:
                left, right = self.moved(a), self.moved(b)
                if left is not None or right is not None:
                    return self._choose(self.data(condition), left or self._defined(a), right or self._defined(b))
        return None

    def _defined(self, expr: Expr) -> Moved:
        value = self.data(expr)
        return lambda w: (value(w), None)

    # -- indices --------------------------------------------------------------------------------------------
    def _kept(self, expr: Expr, closure: Closure) -> Closure:
        """The same value, computed once per warp where it cannot change while the warp runs."""
        if isinstance(expr, Var | Const) or not self._is_invariant(expr):
            return closure
        slot = self._slots.var(expr)

        def remembered(w: Frame) -> Value:
            value = w.env[slot]
            if value is None:
                value = w.env[slot] = closure(w)
            return value

        return remembered

    def _is_invariant(self, expr: Expr) -> bool:
        return all(
            node in self._slots.invariant if isinstance(node, Var) else not isinstance(node, Load)
            for node in walk_expr(expr)
        )

    def _index(self, expr: Expr) -> Closure:
        match expr:
            case Const(value=value):
                number = int(value)
                return lambda w: number
            case Var():
                slot = self._slots.var(expr)
                return (lambda w: w.env[slot]) if expr.index else (lambda w: _exact(w.env[slot]))
            case Binary(op=op, a=a, b=b) if expr.dtype.is_int:
                return _exact_closure(op, self.index(a), self.index(b), a, b)
            case Unary(op=sign, a=a) if expr.dtype.is_int:
                x = self.index(a)
                return (lambda w: -x(w)) if sign is UnaryOp.NEG else (lambda w: ~x(w))
            case Select(condition=condition, a=a, b=b) if expr.dtype.is_int:
                choose = self._choose(self.data(condition), self._plain(self.index(a)), self._plain(self.index(b)))
                return lambda w: choose(w)[0]
            case Cast(a=a) if expr.is_index:
                return self.index(a)
            case Cast(a=a, dtype=dtype) if dtype.is_int and a.dtype.is_int:
                x = self.index(a)
                return lambda w: _exact(convert(x(w), dtype))
        data = self.data(expr)
        return lambda w: _exact(data(w))

    @staticmethod
    def _plain(closure: Closure) -> Moved:
        return lambda w: (closure(w), None)

    # -- data -----------------------------------------------------------------------------------------------
    def _as_data(self, expr: Expr) -> Closure:
        dtype = expr.dtype
        if expr.is_index and not isinstance(expr, Const):
            exact, numpy = self.index(expr), dtype.numpy
            if not is_native(dtype):
                return lambda w: convert(exact(w), dtype)

            def wrap(w: Frame) -> Value:
                value = exact(w)
                return value.astype(numpy) if isinstance(value, np.ndarray) else convert(value, dtype)

            return wrap
        match expr:
            case Const(value=value):
                constant = convert(value, dtype)
                if dtype.lanes > 1:
                    constant = np.full((self._warp_size, dtype.lanes), constant)
                return lambda w: constant
            case Var():
                slot = self._slots.var(expr)
                return lambda w: w.env[slot]
            case Binary():
                return self._binary(expr)
            case Unary(op=op, a=a):
                x = self.data(a)
                if op is UnaryOp.NOT:
                    return lambda w: np.logical_not(x(w))
                if op is UnaryOp.NEG and is_native(dtype):
                    return lambda w: np.negative(x(w))
                return lambda w: data_unary(op, x(w), dtype)
            case Select(condition=condition, a=a, b=b):
                pure = self._touch_nothing(a, b)
                choose = self._choose(self.data(condition), self._defined(a), self._defined(b), pure)
                return lambda w: choose(w)[0]
            case Cast(a=a):
                x, change = self.data(a), converter(a.dtype, dtype)
                return lambda w: change(x(w))
            case Reinterpret(a=a):
                x = self.data(a)
                return lambda w: _reinterpret(x(w), dtype)
            case Load():
                load = self._load(expr, moving=False)
                return lambda w: load(w)[0]
            case Call(callee=callee, args=args):
                compute = callee.compute(tuple(arg.dtype for arg in args))
                operands = [(converter(arg.dtype, compute), self.data(arg)) for arg in args]
                meaning, result = callee.meaning, FLOAT32 if dtype.is_tf32 else dtype
                if dtype.lanes > 1:
                    shape = (self._warp_size, dtype.lanes)
                    return lambda w: np.broadcast_to(convert(meaning(*[x(w) for _, x in operands]), result), shape)
                return lambda w: convert(meaning(*[to(operand(w)) for to, operand in operands]), result)
        raise CompilerBug(f"the simulator cannot evaluate {type(expr).__name__}")

    def _binary(self, expr: Binary) -> Closure:
        op, a, b, dtype = expr.op, expr.a, expr.b, expr.dtype
        if a.is_index and b.is_index:  # a comparison: other operators would be index arithmetic themselves
            return _exact_closure(op, self.index(a), self.index(b), a, b)
        x, y = self.data(a), self.data(b)
        if op in LOGICAL:
            return self._logical(op, x, y, self._touch_nothing(b))
        native = _NATIVE.get(op)
        if native is None or a.dtype != b.dtype or not (is_native(dtype) or op in COMPARISONS):
            return lambda w: data_binary(op, x(w), y(w), dtype)
        if op in COMPARISONS and not is_native(a.dtype):
            return lambda w: data_binary(op, x(w), y(w), dtype)
        return lambda w: native(x(w), y(w))

    def _logical(self, op: BinaryOp, x: Closure, y: Closure, pure: bool) -> Closure:
        is_and = op is BinaryOp.AND

        def evaluate(w: Frame) -> Value:
            first = x(w)
            if np.ndim(first) == 0:
                return y(w) if bool(first) is is_and else np.bool_(not is_and)
            open_lanes = (first if is_and else ~first) & w.mask
            if not np.count_nonzero(open_lanes):
                return first
            if pure:
                second = y(w)
            else:
                outer = w.mask
                w.set_mask(open_lanes)
                second = y(w)
                w.set_mask(outer)
            return np.logical_and(first, second) if is_and else np.logical_or(first, second)

        return evaluate

    def _choose(self, test: Closure, x: Moved, y: Moved, pure: bool = False) -> Moved:
        """One side per lane; only lanes that choose a side evaluate it, unless nothing can be seen of that."""

        def evaluate(w: Frame) -> tuple[Value, np.ndarray | None]:
            chosen = test(w)
            if np.ndim(chosen) == 0:
                return x(w) if chosen else y(w)
            if pure:
                return _merge(chosen, x(w)[0], y(w)[0]), None
            outer = w.mask
            ours, theirs = chosen & outer, ~chosen & outer
            if not np.count_nonzero(theirs):
                return x(w)
            if not np.count_nonzero(ours):
                return y(w)
            w.set_mask(ours)
            first, defined = x(w)
            w.set_mask(theirs)
            second, also_known = y(w)
            w.set_mask(outer)
            value = _merge(chosen, first, second)
            if defined is None and also_known is None:
                return value, None
            yes = np.True_
            return value, _merge(chosen, yes if defined is None else defined, yes if also_known is None else also_known)

        return evaluate

    def _load(self, expr: Load, moving: bool) -> Moved:
        buffer = expr.buffer
        slot, count = self._slots.buffer(buffer), expr.dtype.lanes
        where = [self.index(i) for i in expr.indices]
        if len(where) == 1:
            only = where[0]

            def load_one(w: Frame) -> tuple[Value, np.ndarray | None]:
                cell = w.cells[slot] or w.cell(slot)
                return cell.read(w, cell.offset(w, (only(w),), count), count, moving=moving)

            return load_one

        def load(w: Frame) -> tuple[Value, np.ndarray | None]:
            cell = w.cells[slot] or w.cell(slot)
            return cell.read(w, cell.offset(w, tuple([i(w) for i in where]), count), count, moving=moving)

        return load

    @staticmethod
    def _touch_nothing(*exprs: Expr) -> bool:
        return not any(isinstance(node, Load) for expr in exprs for node in walk_expr(expr))


def _changed(moved: Moved, change: Callable[[Value], Value]) -> Moved:
    """Contents of which each element is changed by itself, and so is as defined as before."""

    def evaluate(w: Frame) -> tuple[Value, np.ndarray | None]:
        value, defined = moved(w)
        return change(value), defined

    return evaluate


def is_native(dtype: DType) -> bool:
    """Whether NumPy computes in this dtype as `data_binary` does."""
    return dtype.numpy.kind in "iuf" and dtype.bits >= 8 and not (dtype.is_float and dtype.bits < 32)


def converter(source: DType, dtype: DType) -> Callable[[Value], Value]:
    """Return the function that converts values of one dtype as `ir.scalar.convert` does."""
    if source == dtype:
        return lambda value: value
    numpy = dtype.numpy
    direct = is_native(source) or source == "float16"
    if direct and not dtype.is_tf32 and (is_native(dtype) or (dtype == "float16" and source == "float32")):
        return lambda value: value.astype(numpy)
    if dtype == "float32" and source == "bfloat16":
        return lambda value: value.astype(numpy)
    return lambda value: convert(value, dtype)


def per_lane(value: Value, lanes: int) -> np.ndarray:
    """The value as an array with one entry per lane."""
    array = np.asarray(value)
    return np.full(lanes, array) if array.ndim == 0 else array


def uniform_int(values: Iterable[Value], mask: np.ndarray) -> Value:
    """A Python int if all active lanes have the same value, else the values."""
    array = np.asarray(values)
    if array.ndim == 0:
        return int(array)
    active = array[mask]
    return int(active[0]) if (active == active[0]).all() else array.astype(np.int64)


def _exact_closure(op: BinaryOp, x: Closure, y: Closure, left: Expr, right: Expr) -> Closure:
    if any(isinstance(side, Const) and not -(2**63) <= int(side.value) < 2**63 for side in (left, right)):
        return _wide_closure(op, x, y)
    simple = _EXACT.get(op)
    if simple is None and isinstance(right, Const) and int(right.value) > 0:
        simple = _BY_CONSTANT.get(op)
    if simple is not None:
        if isinstance(right, Const):
            number, by_number = int(right.value), simple
            return lambda w: by_number(x(w), number)
        apply = simple
        return lambda w: apply(x(w), y(w))
    if op in (BinaryOp.SHL, BinaryOp.SHR):
        return lambda w: _shift(op, x(w), y(w))
    return lambda w: exact_binary(op, x(w), y(w))


def _wide_closure(op: BinaryOp, x: Closure, y: Closure) -> Closure:
    """Computes with numbers that arrays of 64 bits cannot hold; lanes keep the low 64 bits of the exact result."""
    exact: Callable[[Value, Value], Value] = np.frompyfunc(functools.partial(exact_binary, op), 2, 1)

    def evaluate(w: Frame) -> Value:
        value = exact(x(w), y(w))
        if np.ndim(value) == 0:
            return value
        return value.astype(np.bool_) if op in COMPARISONS else ((value + 2**63) % 2**64 - 2**63).astype(np.int64)

    return evaluate


def _shift(op: BinaryOp, x: Value, y: Value) -> Value:
    """Shifts lane by lane, as exact as Python's where the result needs no more than 64 bits."""
    if isinstance(x, int) and isinstance(y, int):
        return exact_binary(op, x, y)
    inside = (np.asarray(y) >= 0) & (np.asarray(y) < 64)
    by = np.where(inside, y, 0)
    if op is BinaryOp.SHL:
        return np.where(inside, np.left_shift(x, by), 0)
    return np.where(inside, np.right_shift(x, by), np.where(np.asarray(x) < 0, -1, 0))


def _exact(value: Value) -> Value:
    return value.astype(np.int64) if np.ndim(value) else int(value)


def _merge(chosen: Value, x: Value, y: Value) -> Value:
    width = max(np.ndim(x), np.ndim(y))
    if width == 2:
        chosen = chosen[:, None]
        x = x[:, None] if np.ndim(x) == 1 else x
        y = y[:, None] if np.ndim(y) == 1 else y
    return np.where(chosen, x, y)


def _reinterpret(value: Value, dtype: DType) -> Value:
    array = np.ascontiguousarray(value)
    if np.ndim(value) == 0:
        return array.reshape(-1).view(dtype.numpy)[0]
    lanes = array.reshape(len(array), -1).view(dtype.numpy)
    return lanes[:, 0] if dtype.lanes == 1 else lanes
