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
"""The attribute in which `T.annotate_pass_configs` collects, as a dict."""
COMPILE_FLAGS = "tilelang_compile_flags"
"""The attribute in which `T.annotate_compile_flags` collects, as a list."""


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
        attributes: `T.func_attr`, free-form facts from the user, and what other annotations say of the whole function.
        assumptions: Conditions of symbols and scalar parameters that every call satisfies, by `T.assume` and because
            other names of tensors lie within them.
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
        """What is known of the function, by name.

        Besides what `T.func_attr` says, `global_symbol` is its name, `tilelang_out_idx` the positions of the tensors
        that it returns, counted from the last parameter, and `tilelang_pass_configs` and `tilelang_compile_flags` are
        what `T.annotate_pass_configs` and `T.annotate_compile_flags` say; each is absent where there is nothing to say.
        """
        known: dict[str, object] = {"global_symbol": self.name, **dict(self.attributes)}
        if self.outputs:
            known["tilelang_out_idx"] = [position - len(self.params) for position in self.outputs]
        return MappingProxyType(known)

    def __call__(self, *arguments: object, **keywords: object) -> NoReturn:
        """Refuses a call: a program is compiled before it runs.

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
        """The function as text, as `str` gives it."""
        return str(self)

    def __str__(self) -> str:
        from tilelang.ir.printer import to_text  # noqa: PLC0415  the printer imports the nodes

        return to_text(self)
