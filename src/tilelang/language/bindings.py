"""Values of names while a function is staged that are no values: unbound, lost, still to be defined."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import Any

from tilelang.dtypes import BOOL, FLOAT32, INT32, INT64, DType
from tilelang.errors import ProgramError
from tilelang.ir.expr import Expr

MISSING = object()  # the value of a name that has none


class Poison:
    """Stands for a name whose value exists only inside a staged loop or branch; any use is an error."""

    def __init__(self, name: str, construct: str, *, tile: bool = False) -> None:
        object.__setattr__(self, "_what", (name, construct, tile))

    def __tilelang_expr__(self) -> Expr:
        raise self.error()

    def error(self) -> ProgramError:
        """The error of using the name."""
        name, construct, tile = object.__getattribute__(self, "_what")
        instead = f"allocate '{name}'" if tile else f"assign '{name}'"
        example = "" if tile else f", for example `{name} = T.float32(0)`"
        return ProgramError(
            f"'{name}' has no value here: it is assigned only inside the {construct} above",
            hint=f"{instead} before the {construct}{example}, or use it inside",
        )

    def _use(self, *_: object) -> Any:
        raise self.error()

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__") and attribute.endswith("__"):  # protocol probes such as hasattr
            raise AttributeError(attribute)
        raise self.error()

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _use
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = __neg__ = __invert__ = _use
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = __lshift__ = __rshift__ = __abs__ = _use
    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = _use
    __getitem__ = __setitem__ = __iter__ = __len__ = __bool__ = __index__ = __int__ = __float__ = __call__ = _use
    __str__ = __repr__ = __format__ = _use  # so that no message shows it as an operand
    __hash__ = object.__hash__


class Undeclared:
    """A name that both sides of a staged branch assign: a mutable scalar, once the first of them does."""

    def __init__(self, name: str, parent: list[Any]) -> None:
        self.name = name
        self.parent = parent

    def __tilelang_expr__(self) -> Expr:
        raise ProgramError(
            f"'{self.name}' is used before it is assigned", hint=f"assign '{self.name}' before this line"
        )


def read(get: Callable[[], object] | None) -> object:
    """The present value of a name, or MISSING if it has none yet."""
    if get is None:
        return MISSING
    try:
        return get()
    except NameError:
        return MISSING


def is_number(value: object) -> bool:
    """Whether a value is a plain Python or NumPy number."""
    if isinstance(value, numbers.Real):
        return True
    return type(value).__module__ == "numpy" and hasattr(value, "item") and not getattr(value, "shape", ())


def kind_of(value: object) -> str:
    """Return what kind of thing a value is, in the user's words."""
    if isinstance(value, Expr):
        return "a value known only when the kernel runs"
    if hasattr(type(value), "__tilelang_expr__"):
        return "a tile"
    return "None" if value is None else type(value).__name__


def number_dtype(value: Any) -> DType:
    """The dtype that a plain number takes when it becomes a mutable scalar."""
    if isinstance(value, bool) or type(value).__name__ in ("bool", "bool_"):
        return BOOL
    if isinstance(value, numbers.Integral):
        return INT32 if -(2**31) <= int(value) < 2**31 else INT64
    return FLOAT32
