"""Blocks of older programs: `T.sblock` with its axes, and grids and threads that are opened one dimension at a time.

Invariant: a block adds no meaning but what `T.where` and `T.init` say; a grid that is opened by dimensions is the
launch that `T.Kernel` would make.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, NoReturn

from tilelang.dtypes import INT32
from tilelang.errors import ProgramError, ProgramTypeError, ProgramValueError
from tilelang.ir.builder import as_body
from tilelang.ir.expr import Const, Expr, ExprLike, Var, as_bool, as_expr, conjunction, int_const
from tilelang.ir.stmt import Bind, If
from tilelang.ir.visit import uses
from tilelang.language.api import api
from tilelang.language.kernel import emit_launch
from tilelang.language.math import if_then_else
from tilelang.language.stage import Hints, OpenScope, Stager, current, current_if_any
from tilelang.language.threads import along, thread_index

__all__ = [
    "axis",
    "env_thread",
    "init",
    "launch_thread",
    "reads",
    "sblock",
    "sblock_attr",
    "thread_binding",
    "where",
    "writes",
]

_TAGS = tuple(f"{head}Idx.{dim}" for head in ("block", "thread") for dim in "xyz")


class sblock:
    """`with T.sblock("name"):` is a block of an older program, whose statements mean what they mean without it.

    Inside, `T.where(c)` guards what follows, `T.axis` names indices, and `T.init` runs where reduction begins.
    """

    @api
    def __init__(self, name: str = "", no_realize: bool = False) -> None:
        del name, no_realize
        self._stager = current("T.sblock")
        self.guards: list[Expr] = []
        self.beginnings: list[Expr] = []  # conditions under which the reduction begins

    def __enter__(self) -> None:
        self._loc = self._stager.loc
        self._stager.branches.append(self)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._stager.branches.pop()
        for guard in reversed(self.guards):
            body = self._stager.close_block()
            if kind is None:
                self._stager.emit(If(guard, as_body(body, self._loc), loc=self._loc))

    def guard(self, condition: Expr) -> None:
        """Guards what follows in the block."""
        self.guards.append(condition)
        self._stager.open_block()


def _block_around() -> sblock | None:
    stager = current_if_any()
    found = stager.branches[-1] if stager is not None and stager.branches else None
    return found if isinstance(found, sblock) else None


@api
def where(condition: ExprLike, a: ExprLike | None = None, b: ExprLike | None = None) -> ExprLike:
    """`a` if the condition holds, else `b`: `T.if_then_else` under NumPy's name.

    With the condition alone it is the condition, which guards what follows in the `T.sblock` around, if there is one.

    Raises:
        ProgramError: Only one of `a` and `b` is given.
    """
    if a is None and b is None:
        block = _block_around()
        if block is not None:
            block.guard(as_bool(condition))
        return condition
    if a is None or b is None:
        raise ProgramError("T.where: needs a value for either case", hint="write T.where(condition, a, b)")
    return if_then_else(condition, a, b)  # type: ignore[no-any-return]


class init:
    """`with T.init():` in a `T.sblock` runs its body where all axes of `T.axis.reduce` are at their beginning."""

    @api
    def __init__(self) -> None:
        self._stager = current("T.init")
        block = _block_around()
        self._condition = None if block is None or not block.beginnings else conjunction(block.beginnings)

    def __enter__(self) -> None:
        self._loc = self._stager.loc
        if self._condition is not None:
            self._stager.open_block()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._condition is not None:
            body = self._stager.close_block()
            if kind is None:
                self._stager.emit(If(self._condition, as_body(body, self._loc), loc=self._loc))


@api
def reads(*regions: object) -> None:
    """The reads of a `T.sblock`, which the compiler finds itself."""


@api
def writes(*regions: object) -> None:
    """The writes of a `T.sblock`, which the compiler finds itself."""


@api
def sblock_attr(attrs: Mapping[str, object]) -> None:
    """Attributes of a `T.sblock`; none has a meaning here."""


@api
class _Axes:
    """`T.axis`: names for indices of a `T.sblock`."""

    def __call__(self, *arguments: object, **keywords: object) -> NoReturn:
        """Refuses a call of `T.axis` itself.

        Raises:
            ProgramTypeError: Always.
        """
        raise ProgramTypeError(
            "T.axis: is no function", hint="write T.axis.spatial(extent, index), T.axis.reduce or T.axis.remap"
        )

    def spatial(self, dom: object, binding: ExprLike, dtype: str = "int32") -> ExprLike:
        """The index itself; `dom` is its extent."""
        del dom, dtype
        return binding

    def reduce(self, dom: Any, binding: ExprLike, dtype: str = "int32") -> ExprLike:
        """The index itself; where it is 0, or at the beginning of `dom`, the reduction begins."""
        del dtype
        begin = dom[0] if isinstance(dom, Sequence) else 0
        block = _block_around()
        if block is not None:
            block.beginnings.append(as_expr(binding) == begin)
        return binding

    def remap(self, kinds: str, bindings: Sequence[ExprLike], dtype: str = "int32") -> list[ExprLike] | ExprLike:
        """The indices themselves; "S" in `kinds` stands for a spatial one and "R" for a reduction.

        Raises:
            ProgramValueError: There is another letter, or not one for each index.
        """
        del dtype
        if len(kinds) != len(bindings) or set(kinds) - set("SR"):
            raise ProgramValueError(f"T.axis.remap: {kinds!r:.40} does not say 'S' or 'R' of {len(bindings)} indices")
        variables = [self.reduce(0, b) if kind == "R" else b for kind, b in zip(kinds, bindings, strict=True)]
        return variables[0] if len(variables) == 1 else variables

    S = scan = opaque = spatial
    R = reduce


axis = _Axes()


class launch_thread(OpenScope):
    """`with T.launch_thread("blockIdx.x", n) as bx:` opens a dimension of the grid, or of the threads of a block.

    `bx = T.launch_thread("blockIdx.x", n)` opens it for the rest of the function. The outermost one opens the kernel.
    Inside of `T.Kernel` a thread's dimension is the one that the kernel has.

    Args:
        thread: "blockIdx.x", "threadIdx.x" or another such name, or what `T.env_thread` gives for one.
        extent: How many blocks or threads there are; of threads a constant.

    Raises:
        ProgramError: The dimension is unknown, open already, or differs from that of the kernel around.
    """

    @api
    def __init__(self, thread: str | Var, extent: ExprLike) -> None:
        self._stager = current("T.launch_thread")
        tag = self._stager.env_threads.get(thread, "") if isinstance(thread, Var) else thread
        if tag not in _TAGS:
            raise ProgramError(
                f"T.launch_thread: {thread!r:.40} names no dimension", hint=f"write one of {', '.join(_TAGS)}"
            )
        self._tag, self._extent = tag, as_expr(extent)
        self._given = thread if isinstance(thread, Var) else None
        self._opens = False

    def __enter__(self) -> Expr:
        stager, hints = self._stager, self._stager.hints
        if hints is not None and hints.axes is None:
            found = thread_index(stager, hints, "T.launch_thread", self._tag, self._extent)
            if self._given is not None:
                stager.emit(Bind(self._given, found))
            return found if self._given is None else self._given
        if hints is None:
            if stager.depth != 1:
                raise ProgramError("T.launch_thread: a kernel cannot stand inside a staged loop or branch")
            self._opens, self._loc = True, stager.loc
            hints = stager.hints = Hints(axes={})
            stager.open_block()
        assert hints.axes is not None
        if self._tag in hints.axes:
            raise ProgramError(f"T.launch_thread: {self._tag} is open already", hint="name another dimension")
        name = stager.target or f"{self._tag[0]}{self._tag[-1]}"
        var = self._given if self._given is not None else Var(stager.unique(name), INT32, index=True)
        hints.axes[self._tag] = var, self._extent
        if self._tag.startswith("thread"):
            count = int_const(self._extent)
            if count is None or count < 1:
                raise ProgramValueError(f"T.launch_thread: {self._tag} needs a positive constant extent")
            threads = list(hints.threads)
            threads["xyz".index(self._tag[-1])] = count
            hints.threads = threads[0], threads[1], threads[2]
        return var

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if not self._opens:
            return
        stager, hints = self._stager, self._stager.hints
        assert hints is not None
        assert hints.axes is not None
        body = stager.close_block()
        if kind is None:
            inside = as_body(body, self._loc)
            binds = [
                Bind(var, along("xyz".index(tag[-1]), stager, hints), loc=self._loc)
                for tag, (var, _) in hints.axes.items()
                if tag.startswith("thread") and uses(inside, var)
            ]
            grid = {"xyz".index(tag[-1]): axis for tag, axis in hints.axes.items() if tag.startswith("block")}
            for dim in range(max(grid, default=0) + 1):
                grid.setdefault(dim, (Var(stager.unique(f"b{'xyz'[dim]}"), INT32, index=True), Const(1, INT32)))
            hints.block_vars, hints.grid = zip(*(grid[dim] for dim in sorted(grid)), strict=True)
            stager.hints = None
            emit_launch(stager, hints, as_body([*binds, *body], self._loc), self._loc)
        stager.hints = None


@api
def env_thread(thread_tag: str, dtype: str = "int32") -> Var:
    """The index of a block or thread along a dimension, to which `T.launch_thread` then gives its extent.

    Raises:
        ProgramError: The dimension is unknown.
    """
    del dtype
    stager = current("T.env_thread")
    if thread_tag not in _TAGS:
        raise ProgramError(
            f"T.env_thread: {thread_tag!r:.40} names no dimension", hint=f"write one of {', '.join(_TAGS)}"
        )
    var = Var(stager.suggest("thread"), INT32, index=True)
    stager.env_threads[var] = thread_tag
    return var


class _Dimension:
    """The iterable of `for tx in T.thread_binding(...)`: the one index of a dimension that it opens."""

    def __init__(self, tag: str, start: ExprLike, extent: ExprLike) -> None:
        self._tag, self._start, self._extent = tag, start, extent

    def __iter__(self) -> Iterator[Expr]:
        with launch_thread(self._tag, self._extent) as index:
            yield index if int_const(as_expr(self._start)) == 0 else index + self._start

    def __enter__(self) -> Expr:
        """Opens the dimension."""
        self._frame = launch_thread(self._tag, self._extent)
        return self._frame.__enter__()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._frame.__exit__(kind, error, tb)


@api
def thread_binding(
    start: ExprLike | str,
    stop: ExprLike | str | None = None,
    thread: str | None = None,
    *,
    annotations: Mapping[str, object] | None = None,
) -> Any:
    """A dimension of the grid, or of the threads of a block, as older programs write it.

    In a `T.Kernel` it is the index of the executing thread: `tx = T.thread_binding(128, "threadIdx.x")`. Elsewhere it
    opens the dimension: `for bx in T.thread_binding(4, thread="blockIdx.x"):`.

    Args:
        start: The extent, or the first index if `stop` follows.
        stop: The end of the range.
        thread: "threadIdx.x", "blockIdx.x" or another such name; it may stand in the place of `stop`.
        annotations: Accepted for older programs.

    Raises:
        ProgramError: The name means no dimension, or the extent is not that of the kernel.
    """
    del annotations
    what = "T.thread_binding"
    if isinstance(stop, str):
        stop, thread = None, stop
    if isinstance(start, str):
        raise ProgramError(f"{what}: {start!r:.40} is no extent", hint='write T.thread_binding(128, "threadIdx.x")')
    first, extent = (0, as_expr(start)) if stop is None else (start, as_expr(stop) - start)
    tag = thread or "threadIdx.x"
    if tag not in _TAGS:
        raise ProgramError(f"{what}: {tag!r:.40} names no dimension", hint="write thread='threadIdx.x'")
    stager: Stager = current(what)
    if stager.hints is None or stager.hints.axes is not None:
        return _Dimension(tag, first, extent)
    return thread_index(stager, stager.hints, what, tag, extent)
