"""A loop before it has started: what `T.serial`, `T.Parallel` and the others return.

Takes kinds and ranges. A `for` statement of a kernel, or `with T.serial(n) as i:`, opens a `LoopSpec`, records the body
once, and closes it into loop statements. Used anywhere else (a comprehension, plain Python) a `LoopSpec` is an error.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any

from tilelang.dtypes import INT32, INT64, DType
from tilelang.errors import ProgramError, StagingError
from tilelang.ir.builder import as_body
from tilelang.ir.expr import Const, Expr, Var, as_expr, binary, int_const, select
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.stmt import Bind, For, ForKind, If, ParallelLoop, PipelineSpec, Stmt
from tilelang.language.api import api
from tilelang.language.barriers_in_loops import around_barriers
from tilelang.language.extents import folded
from tilelang.language.stage import Stager, current, reads_memory
from tilelang.layout.thread_values import Fragment
from tilelang.records import record

_KINDS = {
    "serial": ForKind.SERIAL,
    "unroll": ForKind.UNROLLED,
    "vectorized": ForKind.VECTORIZED,
    "Pipelined": ForKind.PIPELINED,
    "grid": ForKind.SERIAL,
    "Persistent": ForKind.SERIAL,
}


@record(slots=True)
class OpenedLoop:
    """A loop whose body is being recorded.

    Attributes:
        vars: Its variables, which the body must not assign.
        value: What the `for` target is bound to.
        prologue: Statements at the start of the body.
        close: Makes the loop around the recorded body.
    """

    vars: tuple[Var, ...]
    value: Any
    prologue: tuple[Stmt, ...]
    close: Callable[[Stmt], Stmt]


@record(slots=True)
class LoopSpec:
    """A loop that has not started yet.

    Attributes:
        kind: The user's name for it, as in `T.Parallel`.
        ranges: (start, stop, step) per dimension.
        pipeline: Of `T.Pipelined`.
        unroll_factor: Of `T.unroll`.
        persistent: Of `T.Persistent`.
        coalesced_width: Of `T.Parallel`.
        layout: Of `T.Parallel`.
    """

    kind: str
    ranges: tuple[tuple[Expr, Expr, int], ...]
    pipeline: PipelineSpec | None = None
    unroll_factor: int | None = None
    persistent: tuple[Expr, Expr, int] | None = None
    coalesced_width: int | None = None
    layout: Fragment | None = None

    @api
    def __iter__(self) -> Iterator[Any]:
        current(f"T.{self.kind}")
        raise StagingError(
            f"T.{self.kind} can only be the iterable of a `for` statement in a kernel",
            hint="in comprehensions and plain Python write `range(n)` over plain integers",
        )

    def pipelined_by(self, pipeline: PipelineSpec) -> LoopSpec:
        """The same loop under `with T.pipeline(...)`."""
        if self.kind not in ("serial", "Pipelined"):
            raise ProgramError(f"T.pipeline: cannot pipeline a T.{self.kind} loop", hint="use range or T.serial inside")
        return dataclasses.replace(self, kind="Pipelined", pipeline=pipeline)

    def __enter__(self) -> Any:
        stager = current(f"T.{self.kind}")
        opened = self.open(stager, stager.targets)
        stager.open_block()
        stager.loops.append(self.kind)
        stager.opened_loops.append((opened, stager.loc))
        for prologue in opened.prologue:
            stager.emit(prologue)
        return opened.value

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        stager = current(f"T.{self.kind}")
        opened, loc = stager.opened_loops.pop()
        stager.loops.pop()
        body = stager.close_block()
        if kind is None:
            stager.loc = loc
            stager.emit(opened.close(as_body(body, loc)))

    def open(self, stager: Stager, targets: Sequence[str]) -> OpenedLoop:
        """Starts the loop: fixes its bounds and makes its variables, named after the `for` targets."""
        if self.persistent is not None:
            return _open_persistent(self, stager, targets)
        rank = len(self.ranges)
        _check_names(self.kind, rank, len(targets) or 1)
        names = targets if len(targets) == rank else _default_names(self, targets)
        ranges = [(_fixed(stager, a), _fixed(stager, b), c) for a, b, c in self.ranges]
        variables = tuple(
            Var(stager.unique(name), _index_dtype(start, stop), index=True)
            for name, (start, stop, _) in zip(names, ranges, strict=True)
        )
        value: Any = variables if rank > 1 else variables[0]
        if self.kind == "Parallel":
            if int_const(ranges[0][0]) != 0:
                return _open_shifted(stager, variables[0], ranges[0])
            extents = tuple(stop for _, stop, _ in ranges)
            width, layout = self.coalesced_width, self.layout
            return OpenedLoop(variables, value, (), _parallel(variables, extents, width, layout))
        return OpenedLoop(variables, value, (), lambda body: self._nest(variables, ranges, body))

    def _nest(self, variables: Sequence[Var], ranges: Sequence[tuple[Expr, Expr, int]], body: Stmt) -> Stmt:
        for var, (start, stop, step) in zip(reversed(variables), reversed(ranges), strict=True):
            body = For(
                var, start, stop, step, _KINDS[self.kind], body,
                pipeline=self.pipeline, unroll_factor=self.unroll_factor, loc=body.loc,
            )  # fmt: skip
        return body


def _open_shifted(stager: Stager, var: Var, bounds: tuple[Expr, Expr, int]) -> OpenedLoop:
    """A parallel loop that does not begin at 0: its index is that of the iteration and the start."""
    start, stop, _ = bounds
    count = Var(stager.unique("count"), var.dtype, index=True)
    bind = Bind(var, start + count, loc=stager.loc)
    extent = folded(stop - start)
    if (constant := int_const(extent)) is not None:
        extent = as_expr(max(constant, 0))
    return OpenedLoop((var,), var, (bind,), _parallel((count,), (extent,)))


def _parallel(variables: tuple[Var, ...], extents: tuple[Expr, ...], *how: Any) -> Callable[[Stmt], Stmt]:
    """Return the function that makes the loop of a body."""
    return lambda body: around_barriers(body, lambda part: ParallelLoop(variables, extents, part, *how))


def _check_names(kind: str, rank: int, names: int) -> None:
    if names not in (rank, 1):
        raise StagingError(
            f"T.{kind} has {rank} loop variable{'s' * (rank != 1)}, but the `for` names {names}",
            hint=f"write `for {', '.join('ijklmn'[d % 6] for d in range(rank))} in ...`"
            + (f", or give T.{kind} {names} extents" if names > rank > 0 else ""),
        )


def _default_names(spec: LoopSpec, targets: Sequence[str]) -> list[str]:
    base = targets[0] if targets else "i"
    return [base] if len(spec.ranges) == 1 else [f"{base}{d}" for d in range(len(spec.ranges))]


def _fixed(stager: Stager, bound: Expr) -> Expr:
    """A bound as it is on entry: memory may change while the loop runs."""
    return stager.bind("n", bound) if reads_memory(bound) else bound


def _index_dtype(start: Expr, stop: Expr) -> DType:
    return INT64 if INT64 in (start.dtype, stop.dtype) else INT32


def _open_persistent(spec: LoopSpec, stager: Stager, targets: Sequence[str]) -> OpenedLoop:
    assert spec.persistent is not None
    wave_size, index, group_size = spec.persistent
    extents = [stop for _, stop, _ in spec.ranges]
    _check_names("Persistent", len(extents), len(targets))
    total: Expr = Const(1, INT32, weak=True)
    for extent in extents:
        total = total * extent
    wave, tile = (Var(stager.unique(name), total.dtype, index=True) for name in ("wave", "tile"))
    coordinates = _grouped(tile, extents, group_size)
    names = targets if len(targets) == len(extents) else _default_names(spec, targets)
    variables = tuple(Var(stager.unique(n), c.dtype, index=True) for n, c in zip(names, coordinates, strict=True))
    binds = [Bind(v, c, loc=stager.loc) for v, c in zip(variables, coordinates, strict=True)]
    zero = Const(0, INT32, weak=True)
    waves = (total + wave_size - 1) // wave_size

    def close(body: Stmt) -> Stmt:
        guarded = If(tile < total, as_body([*binds, body], body.loc), loc=body.loc)
        bound = as_body([Bind(tile, index + wave * wave_size, loc=body.loc), guarded], body.loc)
        return For(wave, zero, waves, 1, ForKind.SERIAL, bound, loc=body.loc)

    return OpenedLoop(variables, variables if len(variables) > 1 else variables[0], (), close)


def _grouped(tile: Expr, extents: Sequence[Expr], group_size: int) -> list[Expr]:
    """The coordinates of a tile number: groups of rows of the first dimension, walked column by column."""
    if len(extents) == 1:
        return [tile]
    rest: Expr = Const(1, INT32, weak=True)
    for extent in extents[1:]:
        rest = rest * extent
    per_group = rest * group_size
    first_row = tile // per_group * group_size
    remaining = extents[0] - first_row
    rows = select(binary(BinaryOp.LT, remaining, group_size), remaining, group_size)
    within = tile % per_group
    coordinates = [first_row + within % rows]
    flat = within // rows
    tail: list[Expr] = []
    for extent in reversed(extents[1:]):
        tail.append(flat % extent)
        flat = flat // extent
    return coordinates + tail[::-1]
