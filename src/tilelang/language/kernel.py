"""`T.Kernel` and `T.block`: the programs that a grid of blocks runs."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from tilelang.dtypes import INT32
from tilelang.errors import Loc, ProgramError, ProgramValueError
from tilelang.ir.builder import as_body
from tilelang.ir.expr import Expr, ExprLike, Var, as_expr, int_const
from tilelang.ir.stmt import Launch, LaunchHints, Stmt
from tilelang.language.api import api
from tilelang.language.reducer_epochs import check_reducers
from tilelang.language.stage import Hints, Stager, current
from tilelang.language.thread_return import without_returns

__all__ = [
    "ClusterKernel",
    "Kernel",
    "block",
]


class Kernel:
    """`with T.Kernel(gx, gy, threads=128) as (bx, by):` runs the body once for every point of a grid.

    Without extents the grid is one block. The target of a grid of one extent may be a name or a tuple of one name.
    Several kernels in one function run in order. A grid extent of 0 or less runs nothing.

    Args:
        blocks: None to three extents, constants or expressions of dynamic dims.
        threads: Threads per block, a count or (x, y, z); 128 without it. An upper bound on how many share the work on
            a GPU.
        prelude: CUDA or C++ source to put before the kernel.
        cluster_dims: Blocks per cluster, a count or (x, y, z), on GPUs that have clusters.
        is_cpu: Accepted for older programs.

    Raises:
        ProgramValueError: A grid of more than three extents, or thread counts that are not constants or out of range.
        ProgramError: A kernel inside of another, of a loop or of a branch.
        JITNoBuilderError: No function is being staged.
    """

    @api
    def __init__(
        self,
        *blocks: ExprLike,
        threads: int | Sequence[int] | None = None,
        prelude: str | None = None,
        cluster_dims: int | Sequence[int] | None = None,
        is_cpu: bool = False,
    ) -> None:
        del is_cpu
        self._stager = current("T.Kernel")
        self._stager.begin_kernel()
        if len(blocks) > 3:
            raise ProgramValueError(
                f"T.Kernel: a grid has at most three extents, got {len(blocks)}",
                hint="multiply two of them, and take the index apart in the kernel: `bx // n` and `bx % n`",
            )
        self._sources = [] if prelude is None else [prelude]
        self._grid = tuple(_extent(extent) for extent in blocks or (1,))
        x, y, z = _normalize_threads(threads)
        self._threads = x, y, z
        self._cluster = _triple("cluster_dims", 1 if cluster_dims is None else cluster_dims)

    def __tilelang_expr__(self) -> Expr:
        raise ProgramError(
            "T.Kernel: the grid is not opened, so there is no block index",
            hint="write `with T.Kernel(...) as bx:`, and the body of the kernel below it",
        )

    def __enter__(self) -> Any:  # a Var for one extent, else a tuple: only the target of `as` says which
        stager = self._stager
        if stager.hints is not None:
            raise ProgramError("T.Kernel: a kernel cannot stand inside another kernel", hint="end the first one before")
        if stager.depth != 1:
            raise ProgramError(
                "T.Kernel: a kernel cannot stand inside a staged loop or branch",
                hint="put the loop inside the kernel, or loop over plain Python values: `for i in (0, 1):`",
            )
        named = len(stager.targets) == len(self._grid)
        if not named and (stager.unpacks or len(stager.targets) > 1):
            extents = f"{len(self._grid)} extent{'s' if len(self._grid) > 1 else ''}"
            given = f"{len(stager.targets)} name{'s' if len(stager.targets) > 1 else ''}"
            raise ProgramValueError(
                f"T.Kernel: the grid has {extents}, but the indices of a block are given {given}",
                hint="write one name for each extent, as in `with T.Kernel(gx, gy) as (bx, by):`",
            )
        names = stager.targets if named else ("bx", "by", "bz")[: len(self._grid)]
        self._vars = tuple(Var(stager.unique(name), INT32, index=True) for name in names)
        self._loc = stager.loc
        stager.hints = Hints(
            block_vars=self._vars,
            grid=self._grid,
            threads=self._threads,
            cluster=self._cluster,
            sources=list(self._sources),
            body=stager.open_block(),
        )
        return self._vars if len(self._vars) > 1 or stager.unpacks else self._vars[0]

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        stager = self._stager
        body, hints = stager.close_block(), stager.hints
        stager.hints = None
        if kind is None:
            assert hints is not None
            emit_launch(stager, hints, as_body(body, self._loc), self._loc)


def emit_launch(stager: Stager, hints: Hints, body: Stmt, loc: Loc) -> None:
    """Emits the launch of a kernel whose block is staged."""
    launch = _freeze(hints, hints.cluster)
    check_reducers(body, stager)
    body = without_returns(body, stager)
    stager.emit(Launch(hints.block_vars, hints.grid, hints.threads, body, launch, hints.thread, loc=loc))


@api
def ClusterKernel(
    *blocks: ExprLike,
    cluster_dims: int | Sequence[int],
    threads: int | Sequence[int] | None = None,
    prelude: str | None = None,
) -> Kernel:
    """`T.Kernel` whose blocks are launched in clusters: `with T.ClusterKernel(8, cluster_dims=2) as bx:`.

    Args:
        blocks: As for `T.Kernel`.
        cluster_dims: Blocks per cluster: n stands for (n, 1, 1), and dimensions that are absent are 1.
        threads: As for `T.Kernel`.
        prelude: As for `T.Kernel`.

    Raises:
        ProgramError: As for `T.Kernel`.
    """
    return Kernel(*blocks, threads=threads, prelude=prelude, cluster_dims=cluster_dims)


class block:
    """`with T.block("root"):` without a kernel around is a grid of one block; inside a kernel it is only a scope."""

    @api
    def __init__(self, name: str = "root") -> None:
        self._stager: Stager = current("T.block")
        self._kernel = Kernel(1) if self._stager.hints is None else None
        del name

    def __enter__(self) -> None:
        if self._kernel is not None:
            self._kernel.__enter__()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._kernel is not None:
            self._kernel.__exit__(kind, error, tb)


def _freeze(hints: Hints, cluster: tuple[int, int, int]) -> LaunchHints:
    return LaunchHints(
        tuple(hints.layouts.items()),
        tuple(hints.tensor_layouts.items()),
        tuple(hints.safe_values.items()),
        hints.swizzle,
        tuple(hints.l2_hit_ratios.items()),
        cluster,
        hints.min_blocks_per_sm,
        tuple(hints.sources),
        hints.move_registers,
    )


def _extent(value: ExprLike) -> Expr:
    expr = as_expr(value)
    if not expr.dtype.is_int:
        raise ProgramError(
            f"T.Kernel: grid extents must be integers, got {expr.dtype!s}", hint="divide with // or T.ceildiv"
        )
    return expr


def _normalize_threads(threads: int | Sequence[int] | None) -> list[int]:
    """Return `T.Kernel(threads=)` as three extents; None is 128 threads.

    Raises:
        ProgramValueError: An extent below 1, more than three, or something that is no integer.
    """
    return list(_triple("threads", 128 if threads is None else threads))


_EXAMPLES = {"threads": 128, "cluster_dims": 2}


def _triple(what: str, value: int | Sequence[int]) -> tuple[int, int, int]:
    given = (value,) if not isinstance(value, list | tuple) else tuple(value)
    numbers = [number for v in given if (number := _plain_integer(v)) is not None]
    hint = f"write {what}={_EXAMPLES[what]}, or one number for each dimension"
    if not 1 <= len(numbers) <= 3 or len(numbers) < len(given):
        raise ProgramValueError(
            f"T.Kernel: {what} must be one to three positive integer constants, got {value!r}", hint=hint
        )
    x, y, z = [*numbers, 1, 1][:3]
    if min(x, y, z) < 1:
        raise ProgramValueError(f"T.Kernel: {what} must be positive, got {value!r}", hint=hint)
    return x, y, z


def _plain_integer(value: object) -> int | None:
    if isinstance(value, Expr):
        return int_const(value)
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        return None
    return operator.index(value)
