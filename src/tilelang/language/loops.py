"""The loops of the language: what `T.serial`, `T.Parallel` and the others give a `for` to iterate over.

Each returns a `LoopSpec`, which a `for` statement or a `with` block of a kernel opens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilelang.dtypes import INT32
from tilelang.errors import ProgramError, ProgramTypeError, ProgramValueError
from tilelang.ir.expr import Const, Expr, ExprLike, as_expr, int_const
from tilelang.ir.stmt import PipelineSpec
from tilelang.language.api import api
from tilelang.language.extents import folded
from tilelang.language.loop_spec import LoopSpec
from tilelang.language.stage import current
from tilelang.layout.fragment import Fragment as UserFragment
from tilelang.layout.thread_values import Fragment
from tilelang.powers import is_power_of_two

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
        coalesced_width: Elements per vector access, a hint for GPU targets.
        loop_layout: The `Fragment` that says which thread runs which iterations, a hint for GPU targets.
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
    if isinstance(value, bool) or not isinstance(value, int) or not is_power_of_two(value):
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
    if not isinstance(num_stages, int) or isinstance(num_stages, bool) or num_stages < 0:
        raise ProgramError(
            f"T.Pipelined: num_stages must be an integer >= 0, got {num_stages!r}", hint="write num_stages=2"
        )
    for name, entries in (("order", order), ("stage", stage)):
        if any(not isinstance(each, int) or isinstance(each, bool) for each in entries or ()):
            raise ProgramError(
                f"T.Pipelined: {name} must have an integer for each statement, got {list(entries or ())!r:.60}",
                hint="write order=[0, 1, 2], stage=[0, 0, 1] for a loop of three statements",
            )
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


pipelined = Pipelined
persistent = Persistent
Serial = serial
Unroll = unroll
Vectorized = vectorized
