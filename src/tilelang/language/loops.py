"""The loops of the language: what `T.serial`, `T.Parallel` and the others give a `for` to iterate over.

Each returns a `LoopSpec`; a `for` statement of a kernel opens it, records the body once, and closes it into loop
statements. Used anywhere else (a comprehension, plain Python) a `LoopSpec` is an error.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tilelang.dtypes import INT32, INT64, DType
from tilelang.errors import ProgramError, ProgramTypeError, ProgramValueError, StagingError
from tilelang.ir.builder import as_body
from tilelang.ir.expr import Const, Expr, ExprLike, Var, as_expr, binary, int_const, select
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.stmt import Bind, For, ForKind, If, ParallelLoop, PipelineSpec, Stmt
from tilelang.language.api import api
from tilelang.language.extents import folded
from tilelang.language.stage import Stager, current, reads_memory
from tilelang.layout.fragment import Fragment as UserFragment
from tilelang.layout.thread_values import Fragment
from tilelang.records import record

__all__ = [
    "Parallel",
    "Persistent",
    "Pipelined",
    "Serial",
    "Unroll",
    "Vectorized",
    "grid",
    "parallel",
    "persistent",
    "pipeline",
    "pipelined",
    "serial",
    "unroll",
    "vectorized",
]

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

    def __iter__(self) -> Iterator[Any]:
        raise StagingError(
            f"T.{self.kind} can only be the iterable of a `for` statement in a kernel",
            hint="in comprehensions and plain Python write `range(n)` over plain integers",
        )

    def pipelined_by(self, pipeline: PipelineSpec) -> LoopSpec:
        """The same loop under `with T.pipeline(...)`."""
        if self.kind not in ("serial", "Pipelined"):
            raise ProgramError(f"T.pipeline: cannot pipeline a T.{self.kind} loop", hint="use range or T.serial inside")
        return dataclasses.replace(self, kind="Pipelined", pipeline=pipeline)

    def open(self, stager: Stager, targets: Sequence[str]) -> OpenedLoop:
        """Starts the loop: fixes its bounds and makes its variables, named after the `for` targets."""
        if self.persistent is not None:
            return _open_persistent(self, stager, targets)
        rank = len(self.ranges)
        if len(targets) not in (rank, 1, 0):
            raise StagingError(f"T.{self.kind} has {rank} loop variables, but the `for` names {len(targets)}")
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
            return OpenedLoop(variables, value, (), lambda body: ParallelLoop(variables, extents, body, width, layout))
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
    if (known := int_const(extent)) is not None:
        extent = as_expr(max(known, 0))
    return OpenedLoop((var,), var, (bind,), lambda body: ParallelLoop((count,), (extent,), body))


def _default_names(spec: LoopSpec, targets: Sequence[str]) -> list[str]:
    base = targets[0] if targets else "i"
    return [base] if len(spec.ranges) == 1 else [f"{base}{d}" for d in range(len(spec.ranges))]


def _fixed(stager: Stager, bound: Expr) -> Expr:
    """A bound as it is on entry: memory may change while the loop runs."""
    return stager.bind("n", bound) if reads_memory(bound) else bound


def _index_dtype(start: Expr, stop: Expr) -> DType:
    return INT64 if INT64 in (start.dtype, stop.dtype) else INT32


def _bound(what: str, value: ExprLike) -> Expr:
    if isinstance(value, float) or isinstance(value, Expr) and not value.dtype.is_int:
        raise ProgramError(
            f"{what}: bounds must be integers, got {value if isinstance(value, float) else value.dtype!s}",
            hint="divide with // or T.ceildiv, or convert with T.int32(...)",
        )
    return folded(as_expr(value))


def _range(what: str, first: ExprLike, second: ExprLike | None, third: ExprLike | None) -> tuple[Expr, Expr, int]:
    bounds = [_bound(what, a) for a in (first, second) if a is not None]
    if not bounds:
        raise ProgramTypeError(f"{what}: the number of iterations is missing", hint=f"write {what}(n)")
    start, stop = (Const(0, INT32, weak=True), bounds[0]) if len(bounds) == 1 else (bounds[0], bounds[1])
    step = 1 if third is None else int_const(_bound(what, third))
    if step is None:
        raise ProgramError(
            f"{what}: the step must be a constant", hint="loop over a count and compute `start + i * step` inside"
        )
    if step == 0:
        raise ProgramValueError(f"{what}: the step must not be 0", hint="leave it out, or count down with -1")
    return start, stop, step


@api
def serial(
    start: ExprLike, stop: ExprLike | None = None, step: ExprLike | None = None, *, annotations: object = None
) -> LoopSpec:
    """A plain loop: `for i in T.serial(stop)`, `(start, stop)` or `(start, stop, step)`.

    `range` in the header of a `for` means the same. Negative steps count down, as in Python.

    Args:
        start: The first index, or the end of the range if `stop` is absent.
        stop: The end of the range, which is not reached.
        step: A constant other than 0.
        annotations: Accepted for older programs.

    Raises:
        ProgramError: Bounds that are not integers, or a step that is not constant.
        ProgramValueError: The step is 0.
    """
    del annotations
    return LoopSpec("serial", (_range("T.serial", start, stop, step),))


@api
def unroll(
    start: ExprLike,
    stop: ExprLike | None = None,
    step: ExprLike | None = None,
    *,
    explicit: bool = False,
    unroll_factor: int | None = None,
    annotations: object = None,
) -> LoopSpec:
    """A loop that the compiler shall unroll; bounds and errors of `T.serial`.

    Args:
        start: As for `T.serial`.
        stop: As for `T.serial`.
        step: As for `T.serial`.
        explicit: Asks for the body to be written out as often; not together with `unroll_factor`.
        unroll_factor: How many iterations become one; all without it.
        annotations: Accepted for older programs.

    Raises:
        ProgramValueError: Both `explicit` and `unroll_factor` are given.
    """
    del annotations
    if explicit and unroll_factor is not None:
        raise ProgramValueError(
            "T.unroll: explicit=True writes out all iterations, so that unroll_factor has no meaning",
            hint="leave one of them out",
        )
    return LoopSpec("unroll", (_range("T.unroll", start, stop, step),), unroll_factor=unroll_factor)


@api
def vectorized(start: ExprLike, stop: ExprLike | None = None, *, annotations: object = None) -> LoopSpec:
    """A loop over neighboring elements that shall become vector instructions; bounds and errors of `T.serial`."""
    del annotations
    return LoopSpec("vectorized", (_range("T.vectorized", start, stop, None),))


@api
def parallel(start: ExprLike, stop: ExprLike | None = None, *, annotations: object = None) -> LoopSpec:
    """One loop whose iterations run side by side, as those of `T.Parallel`: `for i in T.parallel(4, 12)`.

    Raises:
        ProgramError: Bounds that are not integers; when the kernel is compiled, an iteration that depends on another.
    """
    del annotations
    return LoopSpec("Parallel", (_range("T.parallel", start, stop, None),))


@api
def Parallel(
    *extents: ExprLike,
    coalesced_width: int | None = None,
    loop_layout: object = None,
    prefer_async: bool | None = None,
    annotations: Mapping[str, object] | None = None,
) -> LoopSpec:
    """An elementwise nest: `for i, j in T.Parallel(M, N)`.

    Iterations must not depend on each other, but for associative updates such as `acc += x` and
    `m[0] = T.max(m[0], x)`, which become reductions.

    Args:
        extents: One per loop variable.
        coalesced_width: Elements per vector access, a wish for GPU targets.
        loop_layout: The `Fragment` that says which thread runs which iterations, a wish for GPU targets.
        prefer_async: Accepted for older programs; which copies are asynchronous is the compiler's choice.
        annotations: The same by other names, which count before the keywords: "coalesced_width" and
            "parallel_loop_layout"; others are ignored.

    Raises:
        ProgramError: No extents, extents that are not integers, or options without meaning; when the kernel is
            compiled, an iteration that depends on another one.
    """
    what = "T.Parallel"
    del prefer_async
    said = annotations or {}
    coalesced_width = said.get("coalesced_width", coalesced_width)  # type: ignore[assignment]
    loop_layout = said.get("parallel_loop_layout", loop_layout)
    if not extents:
        raise ProgramError(f"{what}: needs at least one extent")
    layout = loop_fragment(what, loop_layout)
    if layout is not None and len(layout.shape) != len(extents):
        raise ProgramError(f"{what}: loop_layout has {len(layout.shape)} dimensions, but the loop has {len(extents)}")
    zero = Const(0, INT32, weak=True)
    return LoopSpec(
        "Parallel",
        tuple((zero, _bound(what, e), 1) for e in extents),
        coalesced_width=access_width(what, coalesced_width),
        layout=layout,
    )


def access_width(what: str, value: object) -> int | None:
    """The checked option `coalesced_width`."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 1 or value & (value - 1):
        raise ProgramError(f"{what}: coalesced_width is {value!r:.40}", hint="write a power of two, such as 4 or 8")
    return value


def loop_fragment(what: str, value: object) -> Fragment | None:
    """The checked option `loop_layout`."""
    if value is None:
        return None
    if isinstance(value, UserFragment):
        return value.thread_values
    raise ProgramError(
        f"{what}: loop_layout is {value!r:.40}, not a Fragment",
        hint="leave it out, or write T.Fragment(extents, lambda i, j: (thread, place))",
    )


@api
def Pipelined(
    start: ExprLike,
    stop: ExprLike | None = None,
    num_stages: int = 0,
    order: Sequence[int] | None = None,
    stage: Sequence[int] | None = None,
    sync: object = None,
    group: object = None,
    annotations: object = None,
) -> LoopSpec:
    """A loop whose loads run ahead of its computation: `for k in T.Pipelined(n, num_stages=3)`. Results never change.

    Args:
        start: First index, or the trip count if `stop` is absent.
        stop: End of the range.
        num_stages: Versions of each buffer in flight.
        order: Position of each effectful statement, placed by hand.
        stage: Stage of each effectful statement, placed by hand; lower runs an iteration earlier.
        sync: Accepted for older programs; synchronization is the compiler's work.
        group: Accepted for older programs, likewise; `order` and `stage` then place groups and are not needed either.
        annotations: Accepted for older programs.

    Raises:
        ProgramError: Bounds that are not integers, a negative `num_stages`; when the kernel is compiled, an `order` or
            `stage` that breaks a dependence.
    """
    del sync, annotations
    if group is not None:
        order = stage = None
    bounds = _range("T.Pipelined", start, stop, None)
    return LoopSpec("Pipelined", (bounds,), pipeline=pipeline_spec(num_stages, order, stage))


def pipeline_spec(
    num_stages: int, order: Sequence[int] | None = None, stage: Sequence[int] | None = None
) -> PipelineSpec:
    """The checked options of a pipelined loop."""
    if not isinstance(num_stages, int) or num_stages < 0:
        raise ProgramError(f"T.Pipelined: num_stages must be an integer >= 0, got {num_stages!r}")
    return PipelineSpec(num_stages, tuple(order) if order else None, tuple(stage) if stage else None)


class pipeline:
    """`with T.pipeline(num_stages=2):` pipelines the loop that follows inside it.

    Raises:
        ProgramError: The block holds no loop over `range` or `T.serial`.
    """

    @api
    def __init__(
        self, num_stages: int = 2, order: Sequence[int] | None = None, stage: Sequence[int] | None = None
    ) -> None:
        self._spec = pipeline_spec(num_stages, order, stage)

    def __enter__(self) -> None:
        self._stager = current("T.pipeline")
        self._loc = self._stager.loc
        self._stager.pending_pipeline = self._spec

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        pending, self._stager.pending_pipeline = self._stager.pending_pipeline, None
        if kind is None and pending is not None:
            raise ProgramError(
                "T.pipeline: there is no loop inside", loc=self._loc, hint="write `for k in range(n):` inside the block"
            )


@api
def grid(*extents: ExprLike) -> LoopSpec:
    """Nested plain loops: `for i, j in T.grid(M, N)`.

    Raises:
        ProgramError: No extents, or extents that are not integers.
    """
    if not extents:
        raise ProgramError("T.grid: needs at least one extent")
    zero = Const(0, INT32, weak=True)
    return LoopSpec("grid", tuple((zero, _bound("T.grid", e), 1) for e in extents))


@api
def Persistent(
    domain: Sequence[ExprLike],
    wave_size: ExprLike,
    index: ExprLike,
    group_size: int | None = 8,
    num_stages: int = 0,
    *,
    annotations: object = None,
) -> LoopSpec:
    """The tiles of `domain` that block `index` of `wave_size` blocks works on.

    `for i, j in T.Persistent([m_tiles, n_tiles], num_blocks, bx):` visits tile number `index + w * wave_size` for
    w = 0, 1, ... until the domain is exhausted. Tiles are numbered so that `group_size` rows of the first dimension
    are walked together, column by column.

    Args:
        domain: How many tiles there are in each dimension.
        wave_size: How many blocks share them.
        index: Which of these blocks this is.
        group_size: Rows of the first dimension that are walked together; 8 if None.
        num_stages: Tiles that the user wants in flight; how tiles overlap is the compiler's choice.
        annotations: Accepted for older programs.

    Raises:
        ProgramError: An empty domain, a group size below 1, or a negative number of stages.
    """
    del annotations
    pipeline_spec(num_stages)
    group_size = 8 if group_size is None else group_size
    if not domain or group_size < 1:
        raise ProgramError("T.Persistent: needs a domain of at least one extent and a group_size >= 1")
    zero = Const(0, INT32, weak=True)
    ranges = tuple((zero, _bound("T.Persistent", e), 1) for e in domain)
    return LoopSpec("Persistent", ranges, persistent=(as_expr(wave_size), as_expr(index), group_size))


def _open_persistent(spec: LoopSpec, stager: Stager, targets: Sequence[str]) -> OpenedLoop:
    assert spec.persistent is not None
    wave_size, index, group_size = spec.persistent
    extents = [stop for _, stop, _ in spec.ranges]
    if len(targets) not in (len(extents), 1):
        raise StagingError(f"T.Persistent has {len(extents)} loop variables, but the `for` names {len(targets)}")
    total: Expr = Const(1, INT32, weak=True)
    for extent in extents:
        total = total * extent
    wave = Var(stager.unique("wave"), INT32, index=True)
    tile = Var(stager.unique("tile"), INT32, index=True)
    coordinates = _grouped(tile, extents, group_size)
    names = targets if len(targets) == len(extents) else _default_names(spec, targets)
    variables = tuple(Var(stager.unique(n), INT32, index=True) for n in names)
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


pipelined = Pipelined
persistent = Persistent
Serial = serial
Unroll = unroll
Vectorized = vectorized
