"""`T.PersistentTileScheduler`: which tiles a block that stays works on, one after the other.

Takes numbers of tiles and workers, gives coordinates. Invariant: every tile belongs to exactly one worker.
"""

from __future__ import annotations

from importlib import import_module

from tilelang.dtypes import INT32
from tilelang.errors import ProgramError, ProgramValueError
from tilelang.ir.expr import Expr, ExprLike, Load, as_expr
from tilelang.language.api import api
from tilelang.language.arithmetic import cdiv
from tilelang.language.math import max as larger
from tilelang.language.math import min as smaller
from tilelang.language.stage import current

__all__ = [
    "PersistentTileScheduler",
]

_DEVICE = "tilelang.carver.arch.driver"  # public module whose functions query the driver


@api
class PersistentTileScheduler:
    """The tiles that one of some workers works on: `s.init(bx)`, then `while s.valid(): ... s.next_tile()`.

    Worker w works on tiles w, w + num_workers, ... Tiles are numbered so that `swizzle_size` columns of tiles are
    walked together, row by row.

    Args:
        num_m_tiles: Tiles along m, an int or an expression.
        num_n_tiles: Tiles along n.
        num_workers: How many blocks, or clusters, share the tiles; without it as many clusters as the device has
            multiprocessors for.
        swizzle_size: How many tiles of the second dimension are walked together.
        column_major: Whether m is the dimension that is walked first; else n.
        cluster_size: Blocks of a cluster, which share a tile of as many rows of tiles.
        stateful: Whether the present tile is kept in variables; without it there is only `coord`.
        name: What the variables are called.

    Attributes:
        m_idx: The present tile's index along m, in clusters.
        n_idx: The present tile's index along n.
        linear_idx: The present tile's number.
        current_iter: How many tiles were worked on before.
        num_workers: As given, or found.

    Raises:
        ProgramError: It is made outside of a function that is being staged.
        ProgramValueError: A size that is a plain number is below 1.

    Example:
        `s = T.PersistentTileScheduler(m_tiles, n_tiles, num_workers=132)`
    """

    def __init__(
        self,
        num_m_tiles: ExprLike,
        num_n_tiles: ExprLike,
        num_workers: ExprLike | None = None,
        swizzle_size: int = 1,
        column_major: bool = True,
        cluster_size: int = 1,
        stateful: bool = True,
        name: str | None = None,
    ) -> None:
        what = "T.PersistentTileScheduler"
        stager = current(what)
        sizes = {"swizzle_size": swizzle_size, "cluster_size": cluster_size, "num_workers": num_workers}
        for role, size in sizes.items():
            if isinstance(size, int) and size < 1:
                raise ProgramValueError(f"{what}: {role} is {size}", hint="write a number of at least 1")
        if num_workers is None:
            num_workers = import_module(_DEVICE).get_num_sms() // cluster_size
        rows = cdiv(num_m_tiles, cluster_size)
        extents: tuple[ExprLike, ExprLike] = (rows, num_n_tiles) if column_major else (num_n_tiles, rows)
        self._first, self._second = extents
        self._column_major, self._width = bool(column_major), swizzle_size
        self.num_workers = num_workers
        self._state: dict[str, Load] = {}
        if stateful:
            prefix = name or stager.target or "scheduler"
            fields = ("m_idx", "n_idx", "linear_idx", "current_iter")
            self._state = {field: stager.mutable(f"{prefix}_{field}", INT32, 0) for field in fields}

    @property
    def m_idx(self) -> Load:
        """The present tile's index along m."""
        return self._field("m_idx")

    @property
    def n_idx(self) -> Load:
        """The present tile's index along n."""
        return self._field("n_idx")

    @property
    def linear_idx(self) -> Load:
        """The present tile's number."""
        return self._field("linear_idx")

    @property
    def current_iter(self) -> Load:
        """The number of tiles before the current one."""
        return self._field("current_iter")

    def init(self, worker_id: ExprLike) -> None:
        """Goes to the first tile of a worker."""
        self._assign("current_iter", 0)
        self._go(as_expr(worker_id))

    def next_tile(self) -> None:
        """Goes to the next tile of the same worker."""
        self._assign("current_iter", self.current_iter + 1)
        self._go(self.linear_idx + self.num_workers)

    def valid(self) -> Expr:
        """Whether there is a present tile; after the last one there is none."""
        return self.linear_idx < as_expr(self._first) * self._second

    def coord(self, linear_idx: ExprLike) -> tuple[Expr, Expr]:
        """The indices along m and n of the tile of a number."""
        tile = as_expr(linear_idx)
        group_size = as_expr(self._first) * self._width
        group = tile // group_size
        width = larger(1, smaller(self._width, as_expr(self._second) - group * self._width))
        within = tile - group * group_size
        first, second = within // width, group * self._width + within % width
        return (first, second) if self._column_major else (second, first)

    def _go(self, tile: Expr) -> None:
        stager = current("T.PersistentTileScheduler")
        self._assign("linear_idx", tile)
        m, n = self.coord(stager.bind("tile", self.linear_idx))
        self._assign("m_idx", m)
        self._assign("n_idx", n)

    def _assign(self, field: str, value: ExprLike) -> None:
        current("T.PersistentTileScheduler").assign_mutable(self._field(field), as_expr(value))

    def _field(self, field: str) -> Load:
        if not self._state:
            raise ProgramError(
                f"T.PersistentTileScheduler: made with stateful=False, it has no {field}",
                hint="leave stateful out, or compute coordinates by .coord(tile)",
            )
        return self._state[field]
