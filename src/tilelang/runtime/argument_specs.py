"""The requirements of a kernel on the arguments of a call: one `ArgumentSpec` per parameter.

Used by `arguments.py`, which also words the errors, and by the fast checks in `argument_table.py` and
`call_checker.cpp`. Invariant: rules of extents refer to earlier entries of the key only, in the order of the inputs, so
that one pass over the arguments suffices.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence

from tilelang.dtypes import DType
from tilelang.ir.expr import Expr, Var, int_const
from tilelang.ir.func import Param, ScalarParam, TensorParam
from tilelang.records import record


class Kind(enum.IntEnum):
    """The kind of an argument; the values are those in `call_checker.cpp`."""

    TENSOR = 0
    SIGNED = 1
    UNSIGNED = 2
    BOOL = 3
    FLOAT = 4
    POINTER = 5


class Rule(enum.IntEnum):
    """The rule of an extent or stride: a constant, a new entry of the key, or equal to an entry of the key."""

    CONSTANT = 0
    KEY = 1
    EQUAL = 2


LOCATION = 0  # the entry of the key with the location of the tensors


@record
class Extent:
    """The requirement on one extent or stride of a tensor.

    Attributes:
        rule: The kind of rule.
        value: The constant, or the index of the entry of the key.
        expr: The expression in the program.
    """

    rule: Rule
    value: int
    expr: Expr


@record
class ArgumentSpec:
    """The requirements on the argument of one parameter.

    Attributes:
        param: The parameter.
        index: Index of the parameter.
        kind: Kind of the argument.
        extents: Extents of a tensor.
        strides: Declared strides of a tensor; None means that it must be dense.
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
        """The tensor parameter."""
        assert isinstance(self.param, TensorParam)
        return self.param

    @property
    def rules(self) -> tuple[Extent, ...]:
        """The requirements on extents, then on declared strides."""
        return (*self.extents, *(self.strides or ()))

    @property
    def may_be_negated(self) -> bool:
        """Whether a tensor that passes all other checks may be a lazily negated view (torch's negative bit).

        Such views are imaginary parts of conjugated tensors, with element stride 2: dense only with a single element.
        """
        dtype = self.param.dtype
        if not dtype.is_float or dtype.bits < 16 or str(dtype) == "bfloat16":
            return False
        extents = [extent.value if extent.rule is Rule.CONSTANT else 1 for extent in self.extents]
        return self.strides is not None or all(extent == 1 for extent in extents)


def make_specs(params: Sequence[Param], inputs: Sequence[int], written: frozenset[int]) -> tuple[ArgumentSpec, ...]:
    """The specs of all parameters; entries of the key are numbered along the inputs first."""
    entries: dict[Expr, int] = {}
    count = LOCATION

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

    specs: dict[int, ArgumentSpec] = {}
    for index in (*inputs, *(i for i in range(len(params)) if i not in inputs)):
        param = params[index]
        if isinstance(param, TensorParam):
            extents = tuple(extent(e) for e in param.buffer.shape)
            strides = None if param.buffer.strides is None else tuple(extent(e) for e in param.buffer.strides)
            specs[index] = ArgumentSpec(param, index, Kind.TENSOR, extents, strides, index in written)
        else:
            specs[index] = ArgumentSpec(param, index, _scalar_kind(param, param.dtype))
    return tuple(specs[index] for index in range(len(params)))


def _scalar_kind(param: ScalarParam, dtype: DType) -> Kind:
    if param.pointer:
        return Kind.POINTER
    if dtype.is_float:
        return Kind.FLOAT
    return Kind.BOOL if dtype.is_bool else Kind.SIGNED if dtype.limits[0] < 0 else Kind.UNSIGNED
