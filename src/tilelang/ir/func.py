"""Functions: parameters, a body, and the level of the IR that the body is written in."""

from __future__ import annotations

import enum
from dataclasses import field

from tilelang.dtypes import DType
from tilelang.errors import NOWHERE, Loc
from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Expr, Var
from tilelang.ir.stmt import Stmt
from tilelang.records import record


class Level(enum.Enum):
    """Which nodes a body may hold; `ir.verify` knows the rows."""

    TILE = "tile"
    THREAD = "thread"


@record(eq=False)
class TensorParam:
    """A tensor argument. Its symbolic dims and strides are variables bound from the argument at the call."""

    buffer: Buffer

    @property
    def name(self) -> str:
        """The parameter's name."""
        return self.buffer.name

    @property
    def dtype(self) -> DType:
        """The element dtype."""
        return self.buffer.dtype

    @property
    def shape(self) -> tuple[Expr, ...]:
        """The extents."""
        return self.buffer.shape


@record(eq=False)
class ScalarParam:
    """A scalar argument.

    Attributes:
        var: Its value.
        pointer: Whether it is an address of global memory, for which a call may pass the tensor that lies there.
    """

    var: Var
    pointer: bool = False

    @property
    def name(self) -> str:
        """The parameter's name."""
        return self.var.name

    @property
    def dtype(self) -> DType:
        """The value's dtype."""
        return self.var.dtype


Param = TensorParam | ScalarParam


@record(eq=False)
class PrimFunc:
    """A kernel function as the front end leaves it and passes hand it on.

    Attributes:
        name: The user's function name.
        params: In the order of the signature.
        body: Launches in order, and allocations of global workspaces between them.
        level: Which nodes the body may hold.
        symbols: Symbolic dims and strides, in order of first appearance in the parameters.
        attrs: `T.func_attr`, free-form facts from the user.
        outputs: Positions of the parameters that a call allocates and returns, in the order of return: the tensors of
            `T.empty`.
        loc: Where the function was defined.
    """

    name: str
    params: tuple[Param, ...]
    body: Stmt
    level: Level = Level.TILE
    symbols: tuple[Var, ...] = ()
    attrs: tuple[tuple[str, object], ...] = ()
    outputs: tuple[int, ...] = ()
    loc: Loc = field(default=NOWHERE, repr=False)

    def __repr__(self) -> str:
        return f"PrimFunc({self.name})"

    def __str__(self) -> str:
        from tilelang.ir.printer import to_text  # noqa: PLC0415  the printer imports the nodes

        return to_text(self)
