"""Functions: parameters, a body, and the level of the IR that the body is written in."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import field
from types import MappingProxyType
from typing import NoReturn

from tilelang.dtypes import DType
from tilelang.errors import NOWHERE, Loc, StagingTypeError
from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Expr, Var
from tilelang.ir.stmt import Stmt
from tilelang.records import record

PASS_CONFIGS = "tilelang_pass_configs"
"""The attribute that `T.annotate_pass_configs` sets, a dict."""
COMPILE_FLAGS = "tilelang_compile_flags"
"""The attribute that `T.annotate_compile_flags` extends, a list."""


class Level(enum.Enum):
    """Which nodes a body may contain; see `ir.verify`."""

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
        pointer: Whether it is an address of global memory; a call may then pass a tensor.
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
    """A kernel function, from the front end through all passes.

    Attributes:
        name: The user's function name.
        params: Parameters in the order of the signature.
        body: Launches in order, and allocations of global workspaces between them.
        level: Which nodes the body may hold.
        symbols: Symbolic dims and strides, in order of first appearance in the parameters.
        attributes: Attributes by `T.func_attr` and by annotations of the whole function.
        assumptions: Conditions on symbols and scalar parameters that every call satisfies, by `T.assume` and because
            views are within their tensors.
        outputs: Positions of the parameters that a call allocates and returns, in the order of return: the tensors of
            `T.empty`.
        loc: Where the function was defined.
    """

    name: str
    params: tuple[Param, ...]
    body: Stmt
    level: Level = Level.TILE
    symbols: tuple[Var, ...] = ()
    attributes: tuple[tuple[str, object], ...] = ()
    outputs: tuple[int, ...] = ()
    assumptions: tuple[Expr, ...] = ()
    loc: Loc = field(default=NOWHERE, repr=False)

    @property
    def attrs(self) -> Mapping[str, object]:
        """The attributes of the function, by name.

        Besides those of `T.func_attr`: `global_symbol`, its name; `tilelang_out_idx`, the positions of the returned
        tensors, counted from the last parameter; `tilelang_pass_configs` and `tilelang_compile_flags`, from
        `T.annotate_pass_configs` and `T.annotate_compile_flags`. Absent where empty.
        """
        known: dict[str, object] = {"global_symbol": self.name, **dict(self.attributes)}
        if self.outputs:
            known["tilelang_out_idx"] = [position - len(self.params) for position in self.outputs]
        return MappingProxyType(known)

    def __call__(self, *arguments: object, **keywords: object) -> NoReturn:
        """Raises: a program must be compiled before it is called.

        Raises:
            StagingTypeError: Always.
        """
        try:
            raise StagingTypeError(
                f"'{self.name}' is a program that is not compiled, and cannot be called",
                hint=f"compile it first: `kernel = tilelang.compile({self.name})`, then `kernel(...)`; "
                "what kernels call inside is marked @T.macro",
            )
        except StagingTypeError as error:
            error.__traceback__ = None  # the frame of this package
            raise

    def __repr__(self) -> str:
        return f"PrimFunc({self.name})"

    def script(self) -> str:
        """The function as text, like `str`."""
        return str(self)

    def __str__(self) -> str:
        from tilelang.ir.printer import to_text  # noqa: PLC0415  the printer imports the nodes

        return to_text(self)
