"""Which thread, warp and block is running: where level 3 begins.

Takes nothing from the program but its kernel, gives index expressions. Invariant: asking for the thread's index gives
the kernel a thread variable; statements that depend on it are executed by every thread that reaches them, as in CUDA.
"""

from __future__ import annotations

from tilelang.dtypes import INT32
from tilelang.errors import ProgramError
from tilelang.ir.expr import WARP_SIZE, Const, Expr, Var, as_expr, int_const
from tilelang.language.api import api
from tilelang.language.extents import plain
from tilelang.language.stage import Hints, Stager, current

__all__ = [
    "get_block_binding",
    "get_block_bindings",
    "get_block_extent",
    "get_block_extents",
    "get_lane_idx",
    "get_thread_binding",
    "get_thread_bindings",
    "get_thread_extent",
    "get_thread_extents",
    "get_warp_group_idx",
    "get_warp_idx",
    "get_warp_idx_sync",
]

_DIMS = "xyz"


@api
def get_thread_binding(dim: int = 0) -> Expr:
    """The index of the executing thread in its block, along dimension 0 (x), 1 (y) or 2 (z).

    Raises:
        ProgramError: There is no kernel around, or no such dimension.

    Example:
        `tx = T.get_thread_binding()`
    """
    stager, hints = _kernel("T.get_thread_binding")
    return along(_dimension("T.get_thread_binding", dim), stager, hints)


@api
def get_thread_bindings() -> tuple[Expr, Expr, Expr]:
    """The index of the executing thread along x, y and z."""
    stager, hints = _kernel("T.get_thread_bindings")
    x, y, z = (along(dim, stager, hints) for dim in range(3))
    return x, y, z


@api
def get_block_binding(dim: int = 0) -> Expr:
    """The index of the running block along dimension 0, 1 or 2; 0 along those that the grid does not have."""
    _, hints = _kernel("T.get_block_binding")
    dim = _dimension("T.get_block_binding", dim)
    return hints.block_vars[dim] if dim < len(hints.block_vars) else Const(0, INT32)


@api
def get_block_bindings() -> tuple[Expr, Expr, Expr]:
    """The index of the running block along the three dimensions of the grid."""
    x, y, z = (get_block_binding(dim) for dim in range(3))
    return x, y, z


@api
def get_thread_extent(dim: int = 0) -> int:
    """The number of threads of a block along dimension 0 (x), 1 (y) or 2 (z)."""
    return get_thread_extents()[_dimension("T.get_thread_extent", dim)]


@api
def get_thread_extents() -> list[int]:
    """The numbers of threads of a block along x, y and z."""
    return list(_kernel("T.get_thread_extents")[1].threads)


@api
def get_block_extent(dim: int = 0) -> int | Expr:
    """The number of blocks of the grid along dimension 0, 1 or 2; 1 along those that it does not have."""
    return get_block_extents()[_dimension("T.get_block_extent", dim)]


@api
def get_block_extents() -> list[int | Expr]:
    """The numbers of blocks along the three dimensions of the grid: ints where they are constant."""
    grid = _kernel("T.get_block_extents")[1].grid
    return [*map(plain, grid), 1, 1][:3]


@api
def get_lane_idx(warp_size: int | None = None) -> Expr:
    """The index of the executing thread in its warp, of as many threads as warps of the target have, or `warp_size`."""
    return _linear(*_kernel("T.get_lane_idx")) % (warp_size or WARP_SIZE)


@api
def get_warp_idx(warp_size: int | None = None) -> Expr:
    """The index of the executing thread's warp in its block. As `T.get_lane_idx` otherwise."""
    return _linear(*_kernel("T.get_warp_idx")) // (warp_size or WARP_SIZE)


@api
def get_warp_idx_sync(warp_size: int | None = None) -> Expr:
    """The same as `T.get_warp_idx`; that all threads of a warp have the same one is known to the compiler anyway."""
    return _linear(*_kernel("T.get_warp_idx_sync")) // (warp_size or WARP_SIZE)


@api
def get_warp_group_idx(warp_size: int | None = None, warps_per_group: int | None = None) -> Expr:
    """The index of the executing thread's group of four warps, or of `warps_per_group`, in its block."""
    threads = (warp_size or WARP_SIZE) * (warps_per_group or 4)
    return _linear(*_kernel("T.get_warp_group_idx")) // threads


def thread_index(stager: Stager, hints: Hints, what: str, tag: str, extent: Expr) -> Expr:
    """The index along the dimension of a kernel that a name such as "threadIdx.x" stands for.

    Raises:
        ProgramError: The kernel has another extent there.
    """
    dim = _DIMS.index(tag[-1])
    blocks = tag.startswith("block")
    block_extent = get_block_extents()[dim] if blocks else hints.threads[dim]
    if int_const(extent) is not None and int_const(as_expr(block_extent)) != int_const(extent):
        word = "blocks" if blocks else "threads"
        raise ProgramError(
            f"{what}: {extent!r} {word} along {tag[-1]}, but the kernel has {block_extent}",
            hint=f"write {block_extent}, or change T.Kernel",
        )
    return get_block_binding(dim) if blocks else along(dim, stager, hints)


def linear_thread(what: str) -> Var:
    """The index of the executing thread in its block."""
    return _linear(*_kernel(what))


def _kernel(what: str) -> tuple[Stager, Hints]:
    stager = current(what)
    if stager.hints is None:
        raise ProgramError(
            f"{what}: stands outside of a kernel", hint="write it inside `with T.Kernel(...)`, which has threads"
        )
    return stager, stager.hints


def _dimension(what: str, dim: int) -> int:
    if dim not in (0, 1, 2):
        raise ProgramError(f"{what}: there is no dimension {dim!r}", hint="the dimensions are 0 (x), 1 (y) and 2 (z)")
    return dim


def _linear(stager: Stager, hints: Hints) -> Var:
    if hints.thread is None:
        hints.thread = Var(stager.unique("thread"), INT32, index=True)
    return hints.thread


def along(dim: int, stager: Stager, hints: Hints) -> Expr:
    """The part of the linear index that runs along one dimension; x runs fastest."""
    x, y, z = hints.threads
    extent = hints.threads[dim]
    if extent == 1:
        return Const(0, INT32)
    linear: Expr = _linear(stager, hints)
    below = (1, x, x * y)[dim]
    above = (y * z, z, 1)[dim]
    linear = linear if below == 1 else linear // below
    return linear if above == 1 else linear % extent
