"""The table of a kernel's arguments: one row per parameter, which says what a call must pass for it.

Takes the parameters of a `Signature`, gives rows. `arguments.py` walks them to word errors; `argument_table.py` and
`call_checker.cpp` walk them at speed. Invariant: the rules of extents refer to earlier entries of the key only, in the
order of the inputs, so that one walk over the arguments of a call decides it.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence

from tilelang.dtypes import DType
from tilelang.ir.expr import Expr, Var, int_const
from tilelang.ir.func import Param, ScalarParam, TensorParam
from tilelang.records import record


class Kind(enum.IntEnum):
    """What an argument is; the numbers are those of `call_checker.cpp`."""

    TENSOR = 0
    SIGNED = 1
    UNSIGNED = 2
    BOOL = 3
    FLOAT = 4
    POINTER = 5


class Rule(enum.IntEnum):
    """What an extent or stride must be: a number, anything (an entry of the key), or equal to an entry of the key."""

    CONSTANT = 0
    KEY = 1
    EQUAL = 2


HOME = 0  # the entry of the key that says where the tensors are


@record
class Extent:
    """What one extent or stride of a tensor must be.

    Attributes:
        rule: The kind of rule.
        value: The number, or the entry of the key.
        expr: As the program states it.
    """

    rule: Rule
    value: int
    expr: Expr


@record
class Row:
    """What a call must pass for one parameter.

    Attributes:
        param: The parameter.
        index: Which one.
        kind: What it is.
        extents: Of a tensor.
        strides: Of a tensor, where they are declared; None means that it must be dense.
        written: Whether the kernel may write it.
    """

    param: Param
    index: int
    kind: Kind
    extents: tuple[Extent, ...] = ()
    strides: tuple[Extent, ...] | None = None
    written: bool = False

    @property
    def tensor(self) -> TensorParam:
        """The parameter of a row of that kind."""
        assert isinstance(self.param, TensorParam)
        return self.param

    @property
    def rules(self) -> tuple[Extent, ...]:
        """Those of extents, then those of declared strides."""
        return (*self.extents, *(self.strides or ()))

    @property
    def may_be_negated(self) -> bool:
        """Whether a tensor that passes all other tests can stand for the negative of what is in memory.

        Such are imaginary parts of conjugated tensors, whose elements lie two apart: dense only if there is but one.
        """
        dtype = self.param.dtype
        if not dtype.is_float or dtype.bits < 16 or str(dtype) == "bfloat16":
            return False
        extents = [extent.value if extent.rule is Rule.CONSTANT else 1 for extent in self.extents]
        return self.strides is not None or all(extent == 1 for extent in extents)


def make_rows(params: Sequence[Param], inputs: Sequence[int], written: frozenset[int]) -> tuple[Row, ...]:
    """The rows of all parameters; the entries of the key are numbered along the inputs first."""
    entries: dict[Expr, int] = {}
    count = HOME

    def extent(expr: Expr) -> Extent:
        nonlocal count
        constant = int_const(expr)
        if constant is not None:
            return Extent(Rule.CONSTANT, constant, expr)
        if isinstance(expr, Var) and expr in entries:
            return Extent(Rule.EQUAL, entries[expr], expr)
        count += 1
        if isinstance(expr, Var):
            entries[expr] = count
        return Extent(Rule.KEY, count, expr)

    made: dict[int, Row] = {}
    for index in (*inputs, *(i for i in range(len(params)) if i not in inputs)):
        param = params[index]
        if isinstance(param, TensorParam):
            extents = tuple(extent(e) for e in param.buffer.shape)
            strides = None if param.buffer.strides is None else tuple(extent(e) for e in param.buffer.strides)
            made[index] = Row(param, index, Kind.TENSOR, extents, strides, index in written)
        else:
            made[index] = Row(param, index, _scalar_kind(param, param.dtype))
    return tuple(made[index] for index in range(len(params)))


def _scalar_kind(param: ScalarParam, dtype: DType) -> Kind:
    if param.pointer:
        return Kind.POINTER
    if dtype.is_float:
        return Kind.FLOAT
    return Kind.BOOL if dtype.is_bool else Kind.SIGNED if dtype.limits[0] < 0 else Kind.UNSIGNED
