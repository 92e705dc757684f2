"""Hypothesis strategies shared by tests: random expressions with what is known of their variables."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

from hypothesis import strategies as st

from tilelang.arith.domain import Domain
from tilelang.dtypes import INT32, INT64, as_dtype
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Expr, Var, binary, cast, const, select, unary
from tilelang.ir.scalar import BinaryOp, UnaryOp

COMPARISONS = [BinaryOp.EQ, BinaryOp.NE, BinaryOp.LT, BinaryOp.LE, BinaryOp.GT, BinaryOp.GE]
LINEAR = [BinaryOp.ADD, BinaryOp.ADD, BinaryOp.SUB, BinaryOp.MUL]
DIVISIONS = [BinaryOp.FLOORDIV, BinaryOp.FLOORMOD, BinaryOp.TRUNCDIV, BinaryOp.TRUNCMOD]
OTHERS = [BinaryOp.MIN, BinaryOp.MAX, BinaryOp.BITAND, BinaryOp.BITOR, BinaryOp.BITXOR]
SIZES = [1, 2, 3, 4, 7, 8, 16, 128]
DATA_DTYPES = [as_dtype(name) for name in ("int8", "uint8", "int32", "uint32", "int64")]
T = TypeVar("T")
LITERALS = [-128, -8, -3, -1, 0, 1, 1, 2, 3, 4, 7, 8, 8, 16, 31, 32, 127, 128]


@dataclass(frozen=True)
class Place:
    """Variables with the ranges that a domain knows, and conditions that hold there."""

    ranges: dict[Var, tuple[int, int]]
    domain: Domain
    conditions: tuple[Expr, ...] = ()

    def points(self, seed: int, count: int = 40) -> Iterator[dict[Var, int]]:
        """Corners and random points of the ranges where the conditions hold."""
        chooser = random.Random(seed)
        for n in range(count):
            ends = n % 3 == 0
            point = {
                var: chooser.choice((low, high)) if ends else chooser.randint(low, high)
                for var, (low, high) in self.ranges.items()
            }
            if all(evaluate(condition, point) for condition in self.conditions):
                yield point


@st.composite
def places(draw: st.DrawFn, *, wide: bool = False) -> Place:
    """Four variables with ranges; the domain knows some of the ends. `wide` allows values near 2**31."""
    ranges, domain = {}, Domain()
    for name in ("i", "j", "k", "n"):
        var = Var(name, draw(st.sampled_from([INT32, INT32, INT64])), index=True)
        low = draw(st.sampled_from([-9, -1, 0, 0, 0, 1, 8, *([2**31 - 3, -(2**31) - 2] if wide else [])]))
        high = low + draw(st.sampled_from([0, 3, 7, 15, 127]))
        ranges[var] = (low, high)
        known_low, known_high = draw(st.booleans()) or wide, draw(st.integers(0, 3)) > 0 or wide
        domain = domain.with_range(var, low if known_low else None, high if known_high else None)
    place = Place(ranges, domain)
    if draw(st.integers(0, 2)) == 0:
        condition = draw(index_conditions(list(ranges), 1))
        place = Place(ranges, domain.assume(condition), (condition,))
    return place


_CHOICE = st.integers(0, 255)


class _Grower:
    """Grows expressions node by node from one stream of choices, which is faster than nesting strategies."""

    def __init__(self, draw: st.DrawFn, index: list[Var], data: list[Var]) -> None:
        self.draw, self.index, self.data = draw, index, data

    def pick(self, options: list[T]) -> T:
        return options[self.draw(_CHOICE) % len(options)]

    def number(self, depth: int) -> Expr:
        """Index arithmetic of every operator."""
        if depth == 0 or self.draw(_CHOICE) % 8 == 0:
            return self.pick([*self.index, *self.index, *(const(v, INT32) for v in LITERALS)])
        kind = self.pick(["linear"] * 3 + ["divide"] * 2 + ["scale", "any", "other", "shift", "unary", "select", "cast"])
        a = self.number(depth - 1)
        if kind == "linear":
            return binary(self.pick(LINEAR), a, self.number(depth - 1))
        if kind == "divide":
            return binary(self.pick(DIVISIONS), a, self.pick(SIZES))
        if kind == "any":
            return binary(self.pick(DIVISIONS), a, self.number(depth - 1))
        if kind == "scale":
            return a * self.pick(SIZES)
        if kind == "other":
            return binary(self.pick(OTHERS), a, self.number(depth - 1))
        if kind == "shift":
            return binary(self.pick([BinaryOp.SHL, BinaryOp.SHR]), a, self.pick([0, 1, 3, 5]))
        if kind == "unary":
            return unary(self.pick([UnaryOp.NEG, UnaryOp.INVERT]), a)
        if kind == "select":
            return select(self.condition(depth - 1), a, self.number(depth - 1))
        return cast(a, INT64)

    def mixed(self, depth: int) -> Expr:
        """Integers that wrap, with index arithmetic among them."""
        if depth == 0 or self.draw(_CHOICE) % 8 == 0:
            return self.number(1) if self.draw(_CHOICE) % 3 == 0 else self.pick(self.data)
        kind = self.pick(["linear"] * 4 + ["literal", "literal", "divide", "other", "unary", "cast", "select"])
        a = self.mixed(depth - 1)
        if kind == "linear":
            return binary(self.pick(LINEAR), a, self.mixed(depth - 1))
        if kind == "literal":
            return binary(self.pick(LINEAR), a, self.pick(LITERALS))
        if kind == "divide":
            return binary(self.pick(DIVISIONS), a, self.mixed(depth - 1))
        if kind == "other":
            return binary(self.pick(OTHERS), a, self.mixed(depth - 1))
        if kind == "unary":
            return unary(self.pick([UnaryOp.NEG, UnaryOp.INVERT]), a)
        if kind == "select":
            return select(self.condition(depth - 1), a, self.mixed(depth - 1))
        return cast(a, self.pick(DATA_DTYPES))

    def condition(self, depth: int) -> Expr:
        """A condition over whatever the grower grows."""
        kind = self.draw(_CHOICE) % 6 if depth else 0
        if kind == 5:
            return unary(UnaryOp.NOT, self.condition(depth - 1))
        if kind == 4:
            return binary(self.pick([BinaryOp.AND, BinaryOp.OR]), self.condition(depth - 1), self.condition(depth - 1))
        side = self.mixed if self.data else self.number
        return binary(self.pick(COMPARISONS), side(depth), side(depth))


@st.composite
def index_expressions(draw: st.DrawFn, variables: list[Var], depth: int) -> Expr:
    """Index arithmetic over the variables, of every operator."""
    return _Grower(draw, variables, []).number(depth)


@st.composite
def index_conditions(draw: st.DrawFn, variables: list[Var], depth: int) -> Expr:
    """Conditions over index arithmetic."""
    return _Grower(draw, variables, []).condition(depth)


@st.composite
def mixed_expressions(draw: st.DrawFn, data: list[Var], index: list[Var], depth: int) -> Expr:
    """Integers that wrap, with index arithmetic among them."""
    return _Grower(draw, index, data).mixed(depth)


@st.composite
def mixed_conditions(draw: st.DrawFn, data: list[Var], index: list[Var], depth: int) -> Expr:
    """Conditions over integers that wrap and index arithmetic."""
    return _Grower(draw, index, data).condition(depth)


def data_variables() -> dict[Var, tuple[int, int]]:
    """One data variable per integer dtype, with its range."""
    return {Var(f"d_{dtype!s}", dtype): (int(dtype.limits[0]), int(dtype.limits[1])) for dtype in DATA_DTYPES}
