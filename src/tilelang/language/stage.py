"""The stager: the program being recorded, and what `T.` functions need to know of where they are called."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import field
from types import TracebackType
from typing import Any

from tilelang.api import user_frames
from tilelang.dtypes import DType
from tilelang.errors import (
    ARRAY_HINT,
    NONE_HINT,
    NOWHERE,
    JITNoBuilderError,
    Loc,
    StagingError,
    StagingTypeError,
    TileLangError,
    UnknownAttribute,
    nearest,
    staging_error_kind,
    warn,
)
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.builder import Builder
from tilelang.ir.expr import Const, Expr, ExprLike, Load, Var, cast, int_const
from tilelang.ir.func import Param
from tilelang.ir.launch import TensorLayout
from tilelang.ir.runtime_value import TEXT_MADE
from tilelang.ir.stmt import Alloc, Bind, PipelineSpec, Stmt, Store
from tilelang.ir.vector import pack, packed_lanes
from tilelang.ir.visit import loads_of
from tilelang.isa.catalogue import INTRINSICS
from tilelang.ops.reduce import ReduceOp
from tilelang.records import record


@record(frozen=False)
class Hints:
    """The record of a kernel while it is staged; becomes a `Launch`."""

    layouts: dict[Buffer, object] = field(default_factory=dict)
    tensor_layouts: dict[Buffer, TensorLayout] = field(default_factory=dict)
    safe_values: dict[Buffer, Expr] = field(default_factory=dict)
    swizzle: tuple[int, str] | None = None
    l2_hit_ratios: dict[Buffer, float] = field(default_factory=dict)
    min_blocks_per_sm: int | None = None
    block_vars: tuple[Var, ...] = ()
    grid: tuple[Expr, ...] = ()
    axes: dict[str, tuple[Var, Expr]] | None = None  # of a kernel that is opened one dimension at a time
    threads: tuple[int, int, int] = (1, 1, 1)
    cluster: tuple[int, int, int] = (1, 1, 1)
    sources: list[str] = field(default_factory=list)
    thread: Var | None = None  # once a statement has asked for it
    barriers: Buffer | None = None  # of T.create_list_of_mbarrier
    move_registers: bool = True  # between warpgroups, if the compiler wants to
    body: list[Stmt] = field(default_factory=list)  # the block of the kernel itself
    numbers: object | None = None  # the state of T.rng_init, once a statement has asked for it
    reducer: object | None = None  # of the innermost T.attr(T.comm_reducer(...), "reduce_scope", ...)


class OpenScope(abc.ABC):
    """The context manager that a `with` opens; assigned to a name instead, it is open for the rest of the function."""

    @abc.abstractmethod
    def __enter__(self) -> Expr:
        """Opens it and gives what the name means."""

    @abc.abstractmethod
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Closes it."""


class Stager(Builder):
    """A `Builder` with the user's line, the names being assigned, and the kernel being staged.

    Attributes:
        targets: The names on the left of the statement being evaluated, or of the part of it.
        coming: The names of what is allocated there one after another, where it is a list or a tuple.
        unpacks: Whether that is a `with` that unpacks what it is given into a tuple of names.
        hints: Of the innermost `T.Kernel`, or None outside of one.
        attrs: What `T.func_attr` said.
        pending_pipeline: What `with T.pipeline(...)` asked of the next loop, until a loop takes it.
        call_site: Where the macro being inlined was called from.
        active_macros: The calls of macros that are being inlined, outermost first.
        params: The function's parameters by name, in order.
        loops: The kinds of the staged loops that are open, outermost first, as in `T.Parallel`.
        opened_loops: Those of them that a `with` opened, each with its place.
        branches: The `T.If`, the sides of them, and the `T.sblock` that are open, outermost first.
        env_threads: The dimensions that variables of `T.env_thread` stand for.
        assumptions: Conditions that hold whenever the function runs, of `T.assume` and of other names of memory.
        frames: Of the rewritten functions that are running, outermost first.
        reducers: The operators of what `T.alloc_reducer` allocated.
        reducer_steps: The statements that `T.reducer_init` and its kin made: which of them did, for which reducer.
        definitions: What names that are fixed stand for, where that reads no memory.
        outputs: The tensors made by `T.empty`, in order.
        scopes: What is open for the rest of the function, outermost first.
        extern_results: The C++ functions that values come from.
    """

    def __init__(self, loc: Loc = NOWHERE) -> None:
        super().__init__(loc)
        self.targets: tuple[str, ...] = ()
        self.coming: Iterator[str] | None = None
        self.unpacks = False
        self.hints: Hints | None = None
        self.attrs: dict[str, object] = {}
        self.pending_pipeline: PipelineSpec | None = None
        self.call_site: Loc | None = None
        self.active_macros: list[object] = []
        self.params: dict[str, Param] = {}
        self.loops: list[str] = []
        self.opened_loops: list[Any] = []
        self.branches: list[object] = []
        self.env_threads: dict[Var, str] = {}
        self.assumptions: list[Expr] = []
        self.frames: list[object] = []
        self.reducers: dict[Buffer, ReduceOp] = {}
        self.reducer_steps: dict[Stmt, tuple[str, Buffer]] = {}
        self.definitions: dict[Var, Expr] = {}
        self.outputs: list[Buffer] = []
        self.scopes: list[OpenScope] = []
        self.extern_results: dict[Var, str] = {}
        self._names: dict[str, int] = {}
        self._declaring_blocks: dict[Buffer | Var, list[Stmt]] = {}
        self._references: dict[int, Load] = {}  # by identity

    def begin_kernel(self) -> None:
        """A `T.Kernel` is reached."""

    def emit(self, stmt: Stmt) -> None:
        """Appends a statement to the innermost open block."""
        self.emit_into(self.statements, stmt)

    def emit_into(self, block: list[Stmt], stmt: Stmt) -> None:
        """Appends a statement to an open block further out."""
        if stmt.loc is NOWHERE:
            stmt = dataclasses.replace(stmt, loc=self.loc)
        if isinstance(stmt, Alloc):
            self._declaring_blocks[stmt.buffer] = block
        elif isinstance(stmt, Bind):
            self._declaring_blocks[stmt.var] = block
        block.append(stmt)

    def in_scope(self, buffer: Buffer) -> bool:
        """Whether the block that allocated a buffer is still open; parameters have none and stay."""
        return self._is_open(buffer)

    def has_ended(self, value: object) -> bool:
        """Whether a value is a mutable scalar, or a variable, of a kernel, loop or branch that has ended."""
        if isinstance(value, Load):
            return is_mutable(value) and not self._is_open(value.buffer)
        return isinstance(value, Var) and not self._is_open(value)

    def _is_open(self, declared: Buffer | Var) -> bool:
        declaring = self._declaring_blocks.get(declared)
        return declaring is None or any(block is declaring for block in self.open_blocks)

    @property
    def target(self) -> str:
        """The single name being assigned, or ""."""
        return self.targets[0] if len(self.targets) == 1 else ""

    def unique(self, name: str) -> str:
        """`name`, or `name_1`, `name_2`, ... if it was given out before."""
        count = self._names.get(name, 0)
        self._names[name] = count + 1
        return name if count == 0 else self.unique(f"{name}_{count}")

    def suggest(self, default: str) -> str:
        """A unique name for something about to be assigned: the user's if there is one."""
        coming = next(self.coming, "") if self.coming is not None else ""
        return self.unique(coming or self.target or default)

    def bind(self, name: str, value: Expr) -> Expr:
        """Fixes a value under a name, so that later changes of memory do not change it.

        Literals and variables are fixed already, and of a packed vector each lane is fixed by itself. Outside of a
        kernel nothing changes memory, so the value itself serves.
        """
        if isinstance(value, Const | Var):
            return value
        lanes = packed_lanes(value)
        if lanes is not None:
            return pack([self.bind(name, lane) for lane in lanes])
        if self.hints is None and self.depth == 1 and not reads_memory(value):
            return value
        var = Var(self.unique(name), value.dtype, value.is_index)
        self.emit(Bind(var, value))
        if value.dtype.is_int and not reads_memory(value):
            self.definitions[var] = value
        return var

    def mutable(
        self,
        name: str,
        dtype: DType,
        init: ExprLike | None,
        block: list[Stmt] | None = None,
        *,
        sequential: bool = False,
    ) -> Load:
        """A new mutable scalar, allocated in an open block (the innermost); reading it is the returned expression."""
        buffer = Buffer(self.unique(name), (), dtype, Scope.VAR, loc=self.loc, sequential=sequential)
        alloc = Alloc(buffer, None if init is None else cast(init, dtype))
        self.emit_into(self.statements if block is None else block, alloc)
        return Load(buffer, (), dtype)

    def assign_mutable(self, target: Load, value: Expr) -> None:
        """Stores into a mutable scalar, or an element that a name refers to."""
        self.emit(Store(target.buffer, target.indices, self.converted(value, target.buffer)))

    def converted(self, value: Expr, buffer: Buffer) -> Expr:
        """A value as a buffer holds it; warns of a number that its integers do not have, and that would wrap around.

        -1 means all bits of an unsigned dtype, and a number with the highest bit of 32 or 64 set means these bits.
        """
        dtype = buffer.dtype
        stored = cast(value, dtype)
        if isinstance(value, Const) and dtype.is_int and dtype.lanes == 1 and isinstance(value.value, int):
            low, high = dtype.limits
            bits = -1 if low == 0 else 2 * high + 1 if dtype.bits >= 32 else high
            if not (low <= value.value <= max(high, bits) or value.value == bits):
                warn(
                    f"{value.value} is stored into '{buffer.name}', whose {dtype!s} goes from {low} to {high}, as "
                    f"{int_const(stored)}",
                    self.loc,
                    hint="write a number that it has, or allocate it with a wider dtype",
                )
        return stored

    def refer(self, element: Load) -> Load:
        """An element as something that a name refers to: assigning the name stores there. Its indices stay fixed."""
        indices = tuple(self.bind("at", index) if reads_memory(index) else index for index in element.indices)
        reference = Load(element.buffer, indices, element.dtype)
        self._references[id(reference)] = reference
        return reference

    def warn_of_text(self, value: object) -> None:
        """Warns that the kernel makes a text of a value not known yet; indices and sizes have names that say enough."""
        if self.hints is not None and isinstance(value, Expr) and not isinstance(value, Const) and not value.is_index:
            warn(
                f"{value!r} is formatted as text while the kernel is staged, when it has no value yet",
                self.loc,
                hint=f'write T.print({value!r}, "text"), which prints the value when the kernel runs',
            )

    def is_reference(self, element: Load) -> bool:
        """Whether `refer` made it."""
        return id(element) in self._references


def is_mutable(value: object) -> bool:
    """Whether a value is the reading of a mutable scalar, or of an element that a macro was given by reference."""
    if not isinstance(value, Load):
        return False
    stager = _CURRENT.get()
    return value.buffer.scope is Scope.VAR or stager is not None and stager.is_reference(value)


def reads_memory(value: Expr) -> bool:
    """Whether an expression loads from any buffer."""
    return bool(loads_of(value))


_CURRENT: ContextVar[Stager | None] = ContextVar("stager", default=None)


def current_if_any() -> Stager | None:
    """The stager of the kernel being staged, or None in plain Python."""
    return _CURRENT.get()


def current(what: str) -> Stager:
    """The stager of the kernel being staged.

    Raises:
        JITNoBuilderError: No kernel is being staged; `what` (such as "T.copy") was called from plain Python.
    """
    stager = _CURRENT.get()
    if stager is None:
        raise JITNoBuilderError(
            f"{what}: may only be used inside a kernel",
            hint="call it in the body of a function marked @T.prim_func, @T.macro or (eager style) @tilelang.jit",
        )
    return stager


def definition(var: Var) -> Expr | None:
    """Return the value of a name of the kernel being staged, if it is fixed and reads no memory."""
    stager = _CURRENT.get()
    return None if stager is None else stager.definitions.get(var)


@contextmanager
def staging(stager: Stager) -> Iterator[Stager]:
    """Makes a stager current; whatever goes wrong inside leaves as one of our errors, at the user's line."""
    stager_token, text_token = _CURRENT.set(stager), TEXT_MADE.set(stager.warn_of_text)
    try:
        yield stager
    except TileLangError as error:
        if error.loc is None:
            error.loc = stager.loc
        raise
    except NameError as error:
        raise _unbound(error, stager.loc) from None
    except RecursionError:
        raise StagingError("the kernel's Python code recurses without end", loc=stager.loc) from None
    except Exception as error:
        for text, found, hint in _OF_PYTHON:
            if text in str(error):
                message = f"{found} a value known only when the kernel runs"
                raise StagingTypeError(message, loc=stager.loc, hint=hint) from None
        if isinstance(error, KeyError) and any(isinstance(key, Expr) for key in error.args):
            message = "a dict is indexed by a value known only when the kernel runs"
            raise StagingTypeError(message, loc=stager.loc, hint=ARRAY_HINT) from None
        if isinstance(error, AttributeError) and isinstance(error.obj, Expr):
            raise _no_attribute(error, stager.loc) from None
        kind = staging_error_kind(error)
        error.__traceback__ = user_frames(error.__traceback__)
        hint = next((hint for text, hint in _OF_OPERANDS if isinstance(error, TypeError) and text in str(error)), "")
        raise kind(f"{type(error).__name__} while the kernel was staged: {error}", loc=stager.loc, hint=hint) from error
    finally:
        _CURRENT.reset(stager_token)
        TEXT_MADE.reset(text_token)


# what Python, NumPy and torch say where they are given values of a kernel: what that means, and what to write instead
_OF_PYTHON = (
    (
        "__array_ufunc__",
        "a function of NumPy is given",
        "write T.exp(x) in place of numpy.exp(x), and likewise for similar functions",
    ),
    ("only integers, slices", "an array from outside the kernel is indexed by", ARRAY_HINT),
    (
        "must be Tensor, not",
        "a function of torch is given",
        "write T.exp(x) in place of torch.exp(x), and likewise for others",
    ),
    ("define __round__ method", "Python's round is given", "write T.round(x)"),
    ("for divmod()", "Python's divmod is given", "write x // y and x % y"),
    ("for @", "the operator @ is given", "write T.gemm(A, B, C) for tiles, x * y for numbers"),
)


# what Python says of operands that have no value, and what to write instead
_OF_OPERANDS = (("'NoneType'", NONE_HINT), ("'function'", "call the function, as in T.infinity('float32')"))


def _no_attribute(error: AttributeError, loc: Loc) -> UnknownAttribute:
    """The error for an attribute of an expression that is not there: many are functions of the language."""
    function = error.name if error.name in INTRINSICS else None
    return UnknownAttribute(
        f"a value known only when the kernel runs has no attribute '{error.name}'",
        loc=loc,
        hint=f"write T.{function}(x)" if function else "it has dtype; functions of it are T.exp(x), T.sqrt(x), ...",
    )


def _unbound(error: NameError, loc: Loc) -> StagingError:
    name = getattr(error, "name", None) or str(error).partition("'")[2].partition("'")[0]
    if isinstance(error, UnboundLocalError) or "free variable" in str(error):
        return StagingError(
            f"'{name}' is used before it is assigned",
            loc=loc,
            hint=f"assign '{name}' before this line; a name assigned anywhere in a function is local to it",
        )
    import linecache  # noqa: PLC0415  most programs are free of mistakes

    near = nearest(name, _names_at(error))
    hint = f"did you mean '{near}'?" if near else ""
    if not near and "Tensor(" in linecache.getline(loc.file, loc.line):
        hint = f"name the size before: `{name} = T.dynamic({name!r})`, in eager style `{name} = T.const({name!r})`"
    return StagingError(f"the name '{name}' is not defined", loc=loc, hint=hint)


def _names_at(error: NameError) -> list[str]:
    """The names that the code has which raised an error, but for those of rewritten code."""
    frames = error.__traceback__
    assert frames is not None
    while frames.tb_next is not None:
        frames = frames.tb_next
    names = {**frames.tb_frame.f_globals, **frames.tb_frame.f_locals}
    return [name for name in names if not name.startswith("__")]
