"""`T.Kernel` and `T.block`: the programs that a grid of blocks runs."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType

from tilelang.dtypes import INT32
from tilelang.errors import ProgramError
from tilelang.ir.builder import as_body
from tilelang.ir.expr import Const, Expr, ExprLike, Var, as_expr
from tilelang.ir.stmt import Launch, LaunchHints
from tilelang.language.api import api
from tilelang.language.stage import Hints, Stager, current

__all__ = [
    "Kernel",
    "block",
]


class Kernel:
    """`with T.Kernel(gx, gy, threads=128) as (bx, by):` runs the body once for every point of a grid.

    Several in one function run in order. A grid extent of 0 or less runs nothing.

    Args:
        grid: One to three extents, constants or expressions of dynamic dims.
        threads: Threads per block, a count or (x, y, z); an upper bound on how many share the work on a GPU.
        cluster_dims: Blocks per cluster on GPUs that have clusters.
        is_cpu: Accepted for older programs.
        prelude: C source to put before the kernel; GPU targets only.

    Raises:
        ProgramError: A grid without extents or of more than three, thread counts that are not constants or out of
            range, or a kernel inside of another, of a loop or of a branch.
    """

    @api
    def __init__(
        self,
        *grid: ExprLike,
        threads: int | Sequence[int] | None = None,
        cluster_dims: int | Sequence[int] | None = None,
        is_cpu: bool = False,
        prelude: str | None = None,
    ) -> None:
        del is_cpu
        self._stager = current("T.Kernel")
        if not 1 <= len(grid) <= 3:
            raise ProgramError(f"T.Kernel: a grid has one to three extents, got {len(grid)}")
        self._sources = [] if prelude is None else [prelude]
        self._grid = tuple(_extent(extent) for extent in grid)
        self._threads = _triple("threads", 128 if threads is None else threads)
        if self._threads[0] * self._threads[1] * self._threads[2] > 1024:
            raise ProgramError(
                f"T.Kernel: a block has at most 1024 threads, got {self._threads}", hint="write threads=128 or 256"
            )
        self._cluster = _triple("cluster_dims", 1 if cluster_dims is None else cluster_dims)

    def __enter__(self) -> Var | tuple[Var, ...]:
        stager = self._stager
        if stager.hints is not None:
            raise ProgramError("T.Kernel: a kernel cannot stand inside another kernel", hint="end the first one before")
        if stager.depth != 1:
            raise ProgramError(
                "T.Kernel: a kernel cannot stand inside a staged loop or branch",
                hint="put the loop inside the kernel, or loop over plain Python values: `for i in (0, 1):`",
            )
        if len(stager.targets) > 1 and len(stager.targets) != len(self._grid):
            extents = f"{len(self._grid)} extent{'s' if len(self._grid) > 1 else ''}"
            raise ProgramError(
                f"T.Kernel: the grid has {extents}, but there are {len(stager.targets)} names for a block's indices",
                hint="write one name for each extent, as in `with T.Kernel(gx, gy) as (bx, by):`",
            )
        names = stager.targets if len(stager.targets) == len(self._grid) else ("bx", "by", "bz")[: len(self._grid)]
        self._vars = tuple(Var(stager.unique(name), INT32, index=True) for name in names)
        self._loc = stager.loc
        stager.hints = Hints(
            block_vars=self._vars, threads=self._threads, cluster=self._cluster, sources=list(self._sources)
        )
        stager.open_block()
        return self._vars if len(self._vars) > 1 else self._vars[0]

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        stager = self._stager
        body, hints = stager.close_block(), stager.hints
        stager.hints = None
        if kind is None:
            assert hints is not None
            launch = _freeze(hints, self._cluster)
            program = as_body(body, self._loc)
            thread = hints.thread
            stager.emit(Launch(self._vars, self._grid, self._threads, program, launch, thread, loc=self._loc))


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


def _triple(what: str, value: int | Sequence[int]) -> tuple[int, int, int]:
    given = (value,) if not isinstance(value, list | tuple) else tuple(value)
    numbers = [int(v.value) if isinstance(v, Const) else v for v in given]
    valid = 1 <= len(numbers) <= 3 and all(isinstance(n, int) and not isinstance(n, bool) and n > 0 for n in numbers)
    if not valid:
        raise ProgramError(f"T.Kernel: {what} must be one to three positive integer constants, got {value!r}")
    x, y, z = [*numbers, 1, 1][:3]
    return x, y, z
