"""Arithmetic on extents while a kernel is staged: enough algebra to see that `(k + 1) * 32 - k * 32` is 32.

Takes integer expressions, gives their difference where it is constant. Invariant: never wrong; names that are fixed
mean what they stand for, and an expression that is not a polynomial then is a variable of its own, equal only to the
same expression. Everything stands in index position, where arithmetic is exact.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tilelang.dtypes import INT64
from tilelang.ir.buffer import Region
from tilelang.ir.expr import Binary, Cast, Const, Expr, ExprLike, Unary, Var, as_expr, binary, int_const
from tilelang.ir.scalar import BinaryOp, UnaryOp
from tilelang.ir.visit import children
from tilelang.language.stage import definition
from tilelang.ops.describe import extent_text
from tilelang.ops.describe import shape_text as operands_shape_text

Key = tuple[object, ...]
Polynomial = Counter[tuple[Key, ...]]  # from a sorted product of atoms to its coefficient


def difference(a: ExprLike, b: ExprLike) -> int | None:
    """`a - b` where it is the same number for all values of the variables, else None."""
    left = _polynomial(as_expr(a))
    left.subtract(_polynomial(as_expr(b)))
    return _number(left)


def folded(extent: Expr) -> Expr:
    """The same extent, as a literal where it is the same number for all values of the variables."""
    if int_const(extent) is not None or isinstance(extent, Var) and definition(extent) is None:
        return extent
    number = difference(extent, 0)
    return extent if number is None else Const(number, extent.dtype, weak=True)


def match_regions(a: Region, b: Region) -> tuple[Region, Region] | None:
    """Two regions with equal extents once unit extents are dropped, or None if theirs differ.

    Where it is only known when the kernel runs whether two extents are equal, the smaller one counts for both.
    """
    first, second = list(a.extent), list(b.extent)
    ours, theirs = ([d for d, extent in enumerate(x) if int_const(extent) != 1] for x in (first, second))
    if len(ours) != len(theirs):
        return None
    for i, j in zip(ours, theirs, strict=True):
        gap = difference(first[i], second[j])
        if gap is None:
            first[i] = second[j] = binary(BinaryOp.MIN, first[i], second[j])
        elif gap:
            return None
    return Region(a.buffer, a.start, tuple(first)), Region(b.buffer, b.start, tuple(second))


def product(extents: Sequence[ExprLike]) -> Expr:
    """The product of extents; 1 for none."""
    result = as_expr(1)
    for extent in extents:
        result = as_expr(extent) if int_const(result) == 1 else result * extent
    return result


def plain(value: Expr) -> int | Expr:
    """A Python int for a literal, else the expression."""
    number = int_const(value)
    return value if number is None else number


def text(extent: ExprLike) -> str:
    """An extent or index as it reads in a message."""
    return extent_text(as_expr(extent))


def shape_text(extents: Sequence[ExprLike]) -> str:
    """A shape as it reads in a message, in the form of a tuple."""
    return operands_shape_text([as_expr(extent) for extent in extents])


def _number(polynomial: Polynomial) -> int | None:
    """The value of a polynomial that has no variables left."""
    rest = {product: factor for product, factor in polynomial.items() if factor}
    return None if set(rest) - {()} else rest.get((), 0)


def _polynomial(expr: Expr) -> Polynomial:
    meaning = definition(expr) if isinstance(expr, Var) else None
    if meaning is not None:
        return _polynomial(meaning)
    match expr:
        case Const(value=value) if expr.dtype.is_int:
            return Counter({(): int(value)})
        case Cast(a=a, dtype=dtype) if dtype == INT64 and a.dtype.is_int:
            return _polynomial(a)
        case Unary(op=UnaryOp.NEG, a=a):
            return _times(Counter({(): -1}), _polynomial(a))
        case Binary(op=BinaryOp.ADD, a=a, b=b) if expr.dtype.is_int:
            total = _polynomial(a)
            total.update(_polynomial(b))
            return total
        case Binary(op=BinaryOp.SUB, a=a, b=b) if expr.dtype.is_int:
            total = _polynomial(a)
            total.subtract(_polynomial(b))
            return total
        case Binary(op=BinaryOp.MUL, a=a, b=b) if expr.dtype.is_int:
            return _times(_polynomial(a), _polynomial(b))
        case Binary(op=op, a=a, b=b) if expr.dtype.is_int and a.dtype.is_int and b.dtype.is_int:
            result = _of_numbers(op, _polynomial(a), _polynomial(b))
            if result is not None:
                return result
    return Counter({(_key(expr),): 1})


def _of_numbers(op: BinaryOp, a: Polynomial, b: Polynomial) -> Polynomial | None:
    """Apply another operator to two numbers, or to polynomials of which one is always the smaller; else return None."""
    left, right = _number(a), _number(b)
    if left is not None and right is not None:
        result = int_const(binary(op, left, right))
        return None if result is None else Counter({(): result})
    if op not in (BinaryOp.MIN, BinaryOp.MAX):
        return None
    gap = Counter(a)
    gap.subtract(b)
    size = _number(gap)
    return None if size is None else a if (size < 0) is (op is BinaryOp.MIN) else b


def _times(a: Polynomial, b: Polynomial) -> Polynomial:
    result: Polynomial = Counter()
    for left, x in a.items():
        for right, y in b.items():
            result[tuple(sorted(left + right, key=repr))] += x * y
    return result


def _key(expr: Expr) -> Key:
    match expr:
        case Const(value=value, dtype=dtype):
            return ("const", value, str(dtype))
        case Var():
            meaning = definition(expr)
            return ("var", id(expr)) if meaning is None else _key(meaning)
    parts = tuple(_key(child) for child in children(expr))
    detail = {name: getattr(expr, name) for name in ("op", "callee") if hasattr(expr, name)}
    return (type(expr).__name__, str(expr.dtype), str(detail), id(getattr(expr, "buffer", None)), parts)
