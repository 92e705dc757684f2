"""The arrays and scalars that a function marked `@tilelang.compute` is traced with; they have no values.

A `TracedArray` stands for an array of the graph. A `Scalar` is one number as an expression: a literal, a symbolic size,
or, inside `tnp.compute`, an expression over the axes of the array that is being defined. Operators on them are the
functions of `tilelang.numpy`. Conversions to bool, int and float raise errors that say what to write instead.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from importlib import import_module
from typing import Any, NoReturn

from tilelang.arith.simplify import simplify
from tilelang.dtypes import INT32, DType
from tilelang.errors import Loc, ProgramValueError, StagingError, StagingTypeError, UnknownAttribute, nearest
from tilelang.ir.expr import Const, Expr, Number, Var
from tilelang.ir.visit import loads_of, variables_of
from tilelang.language.extents import folded, plain, product, shape_text
from tilelang.language.types import TensorType
from tilelang.level1.api import api
from tilelang.level1.graph import Array
from tilelang.level1.promotion import OperandDType
from tilelang.records import record

Operator = Callable[..., Any]


@record(eq=False, repr=False, kw_only=True)
class Axis(Var):
    """An axis of index notation.

    Attributes:
        extent: Its extent.
        reduced: Whether `tnp.reduce_axis` made it.
        number: Of all axes, in the order in which they were made.
    """

    extent: Expr
    reduced: bool
    number: int = field(default_factory=itertools.count().__next__)


def _binary(name: str, module: str = "functions.elementwise") -> tuple[Operator, Operator]:
    """The method of a binary operator, and the reflected one: both call the function of that name."""

    def on_left(self: Operand, other: object) -> Any:
        return _function(name, module)(self, other)

    def on_right(self: Operand, other: object) -> Any:
        return _function(name, module)(other, self)

    return on_left, on_right


def _unary(name: str) -> Operator:
    return lambda self: _function(name)(self)


def _function(name: str, module: str = "functions.elementwise") -> Callable[..., Any]:
    """A function on the values of this module, which is defined by means of them."""
    return getattr(import_module(f"tilelang.level1.{module}"), name)  # type: ignore[no-any-return]


class Operand:
    """Base class of arrays and scalars.

    Attributes:
        dtype: The dtype by the rules of promotion; arithmetic on narrow floats is float32.
        weak: Whether it takes the dtype of what it is combined with.
    """

    dtype: DType
    weak: bool
    __array_ufunc__ = None  # NumPy scalars leave `scalar * array` to `__rmul__`
    __hash__ = object.__hash__

    __add__, __radd__ = _binary("add")
    __sub__, __rsub__ = _binary("subtract")
    __mul__, __rmul__ = _binary("multiply")
    __truediv__, __rtruediv__ = _binary("divide")
    __floordiv__, __rfloordiv__ = _binary("floor_divide")
    __mod__, __rmod__ = _binary("remainder")
    __pow__, __rpow__ = _binary("pow")
    __matmul__, __rmatmul__ = _binary("matmul", "functions.linear")
    __and__, __rand__ = _binary("bitwise_and")
    __or__, __ror__ = _binary("bitwise_or")
    __xor__, __rxor__ = _binary("bitwise_xor")
    __lshift__, __rlshift__ = _binary("bitwise_left_shift")
    __rshift__, __rrshift__ = _binary("bitwise_right_shift")
    __eq__, __ne__ = _binary("equal")[0], _binary("not_equal")[0]
    __lt__, __le__ = _binary("less")[0], _binary("less_equal")[0]
    __gt__, __ge__ = _binary("greater")[0], _binary("greater_equal")[0]
    __neg__, __pos__, __abs__ = _unary("negative"), _unary("positive"), _unary("abs")
    __invert__ = _unary("bitwise_invert")

    @property
    def shape(self) -> tuple[Any, ...]:
        """The extents: ints, and scalars for symbolic sizes."""
        return ()

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def operand_dtype(self) -> OperandDType:
        """The dtype and its weakness, for promotion."""
        return OperandDType(self.dtype, self.weak)

    @api
    def astype(self, dtype: object) -> Any:
        """The values converted to a dtype, and rounded to it: integers wrap, floats become integers by truncation."""
        return _function("astype")(self, dtype)

    def _has_symbolic_size(self) -> bool:
        return False

    def _refuse(self, what: str, hint: str) -> NoReturn:
        """Raises for a use that needs a value now."""
        if self._has_symbolic_size():
            raise StagingError(
                f"a symbolic size {what}, but its value is known only when the computation runs",
                hint="make the size static: leave it out of the annotation, or give the annotation a number",
            )
        raise StagingError(f"an array {what}, but its values are known only when the computation runs", hint=hint)

    def __bool__(self) -> bool:
        self._refuse(
            "is used as a truth value",
            "write tnp.where(condition, x, y) in place of `if`, `x & y` in place of `and`, `x | y` in place of `or`, "
            "and `~x` in place of `not`",
        )

    def __index__(self) -> int:
        self._refuse("is used as a Python integer", "index an array by it, x[i], or pass the number as an argument")

    def __int__(self) -> int:
        self._refuse("is converted to a Python int", 'write x.astype("int32")')

    def __float__(self) -> float:
        hint = 'write x.astype("float32"), and tnp.exp(x) in place of math.exp(x)'
        self._refuse("is converted to a Python float", hint)

    def __array__(self, *arguments: object, **keywords: object) -> NoReturn:
        hint = "write tnp.sum(x) in place of numpy.sum(x), and likewise for other functions"
        self._refuse("is made a NumPy array", hint)

    def __array_function__(self, function: Callable[..., Any], *arguments: object) -> NoReturn:
        raise given_to_library("numpy", getattr(function, "__name__", ""))

    def __complex__(self) -> complex:
        self._refuse("is converted to a Python complex", "there are no complex dtypes")


def given_to_library(library: str, name: str = "", loc: Loc | None = None) -> StagingError:
    """The error for a function of another library that is given an array.

    Args:
        library: Its name.
        name: The function, if it is known.
        loc: Where it is called; the calling line if None.
    """
    same = import_module("tilelang.level1.functions").name_here(name)
    hint = f"write tnp.{same or 'exp'}(x) in place of {library}.{name if same else 'exp'}(x)"
    return StagingError(
        f"a function of {library} is given an array of the computation, which has no values yet",
        loc=loc,
        hint=hint if same else f"{hint}, and likewise for other functions",
    )


class TracedArray(Operand):
    """An array whose values are known when the computation runs.

    It has `shape`, `dtype`, `ndim`, `size`, `T`, `mT`, `at`, `astype` and Python's operators; `x[...]` indexes by
    integers, slices, None, `...` and integer arrays as NumPy does.

    Attributes:
        node: The array of the graph.
    """

    def __init__(self, node: Array, *, weak: bool = False) -> None:
        self.node = node
        self.dtype = node.stored_dtype
        self.weak = weak

    @property
    def shape(self) -> tuple[Any, ...]:  # noqa: D102  see `Operand`
        return tuple(as_size(extent) for extent in self.node.shape)

    @property
    def size(self) -> Any:
        """The number of elements."""
        return as_size(folded(product(self.node.shape)))

    @property
    def T(self) -> TracedArray:
        """The transpose of a matrix."""
        if self.ndim != 2:
            raise ProgramValueError(
                f"array.T: the array has {self.ndim} dimensions, and only a matrix has a transpose",
                hint="write x.mT for a stack of matrices, or tnp.permute_dims(x, axes)",
            )
        return self.mT

    @property
    def mT(self) -> TracedArray:
        """The transposes of a stack of matrices."""
        return _function("matrix_transpose", "functions.shaping")(self)  # type: ignore[no-any-return]

    @property
    def at(self) -> Any:
        """Updates at indices: `x.at[i].add(y)` is `x` with `y` added there; also `set`, `multiply`, `min`, `max`."""
        return _function("IndexedUpdates", "functions.selection")(self)

    @property
    def __tilelang_type__(self) -> TensorType:
        """The tensor type for which a Level 2 kernel that takes this array is compiled."""
        return TensorType(self.node.shape, self.dtype)

    def __tilelang_call__(self, kernel: object, arguments: Sequence[Any]) -> Any:
        """A call of a Level 2 kernel with this array among its arguments."""
        return _function("call_kernel", "kernel_calls")(kernel, arguments)

    def __getitem__(self, key: object) -> Any:
        return _function("index", "indexing")(self, key)

    def __setitem__(self, key: object, value: object) -> None:
        raise StagingError(
            "x[...] = y: arrays of a computation do not change", hint="write x = x.at[...].set(y), or tnp.where"
        )

    def __len__(self) -> int:
        if not self.node.shape:
            raise StagingTypeError("len: the array has no dimensions")
        return operator.index(self.shape[0])

    def __iter__(self) -> Iterator[Any]:
        return iter([self[i] for i in range(len(self))])

    def __repr__(self) -> str:
        return f"<array {self.node.name}: {self.dtype!s} {shape_text(self.node.shape)}>"

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)  # protocol probes
        functions = import_module("tilelang.level1.functions")
        if name not in _ATTRIBUTES and (same := functions.name_here(name)):
            hint = f"write tnp.{same}(x)"
        else:
            near = nearest(name, [*_ATTRIBUTES, *functions.NAMES])
            hint = f"did you mean {f'x.{near}' if near in _ATTRIBUTES else f'tnp.{near}(x)'}?" if near else ""
        raise UnknownAttribute(f"an array of a computation has no attribute '{name}'", hint=hint)


_ATTRIBUTES = ("T", "astype", "at", "dtype", "mT", "ndim", "shape", "size")


class Scalar(Operand):
    """One number: a literal, a symbolic size, or a value over the axes of index notation.

    Attributes:
        expr: The number, in the dtype in which it is computed.
    """

    def __init__(self, expr: Expr, dtype: DType, *, weak: bool = False) -> None:
        self.expr, self.dtype, self.weak = expr, dtype, weak

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The axes of index notation that it depends on, in the order in which they were made."""
        axes = [var for var in variables_of(self.expr) if isinstance(var, Axis)]
        return tuple(sorted(axes, key=lambda axis: axis.number))

    def __repr__(self) -> str:
        return f"<{self.expr!r}>"

    def _has_symbolic_size(self) -> bool:
        return not self.axes and not loads_of(self.expr)

    def _known(self) -> Number | None:
        """The number, if it is the same whatever the sizes are."""
        value = simplify(self.expr)
        return value.value if isinstance(value, Const) else None

    def __bool__(self) -> bool:
        known = self._known()
        return super().__bool__() if known is None else bool(known)

    def __index__(self) -> int:
        known = self._known()
        return int(known) if isinstance(known, int) else super().__index__()

    def __int__(self) -> int:
        known = self._known()
        return super().__int__() if known is None else int(known)

    def __float__(self) -> float:
        known = self._known()
        return super().__float__() if known is None else float(known)


def as_size(extent: Expr) -> int | Scalar:
    """An extent as users see it."""
    size = plain(folded(extent))
    return size if isinstance(size, int) else Scalar(size, INT32, weak=True)
