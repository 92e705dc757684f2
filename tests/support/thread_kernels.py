"""Thread-level programs for a GPU, built by hand, for tests of what follows the passes."""

from collections.abc import Sequence
from typing import Any

from tilelang.dtypes import INT32, as_dtype
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import Cast, Const, Load, Select, Var, as_expr, cast
from tilelang.ir.func import Level, PrimFunc, TensorParam
from tilelang.ir.launch import LaunchPlan
from tilelang.ir.stmt import Alloc, CallStmt, For, ForKind, If, Launch, LaunchHints, Seq, Stmt, Store
from tilelang.ir.verify import verify
from tilelang.targets.gpu.isa.sync import SYNC_THREADS
from tilelang.targets.nvidia.isa.cp_async import CP_ASYNC_COMMIT, CP_ASYNC_WAIT, cp_async


def index(name: str) -> Var:
    """A loop variable or the like."""
    return Var(name, INT32, index=True)


def buffer(name: str, shape: Sequence[Any], dtype: str, scope: Scope = Scope.GLOBAL, **more: Any) -> Buffer:
    """A buffer of numbers or variables as extents."""
    return Buffer(name, tuple(as_expr(e) for e in shape), as_dtype(dtype), scope, **more)


def kernel(
    name: str,
    params: Sequence[Buffer],
    body: Sequence[Stmt],
    *,
    block_vars: Sequence[Var] = (),
    grid: Sequence[Any] = (1,),
    threads: tuple[int, int, int] = (128, 1, 1),
    thread: Var | None = None,
    symbols: Sequence[Var] = (),
    plan: LaunchPlan = LaunchPlan(),
    hints: LaunchHints = LaunchHints(),
) -> PrimFunc:
    """A verified function of one launch."""
    variables = tuple(block_vars) or (index("bx"),)
    launch = Launch(
        variables, tuple(as_expr(e) for e in grid), threads, Seq(tuple(body)), thread=thread, plan=plan, hints=hints
    )
    parameters = tuple(TensorParam(b) for b in params)
    func = PrimFunc(name, parameters, Seq((launch,)), level=Level.THREAD, symbols=tuple(symbols))
    verify(func)
    return func


def staged_copy(asynchronous: bool = True) -> PrimFunc:
    """Rows of half precision through shared memory, 16 bytes at a time, guarded and doubled on the way.

    With `asynchronous` the way into shared memory is `cp.async`, in three stages.
    """
    rows, half8 = index("M"), as_dtype("float16x8")
    a, b = buffer("A", (rows, 256), "float16"), buffer("B", (rows, 256), "float16")
    tile = buffer("A_s", (3 * 2048,), "float16", Scope.SHARED)
    piece, wide = buffer("piece", (8,), "float16", Scope.LOCAL), buffer("wide", (8,), "float32", Scope.LOCAL)
    bx, thread, k, i = index("bx"), index("thread"), index("k"), index("i")
    row, column = bx * 64 + thread // 4, k * 32 + thread % 4 * 8
    inside = row < rows
    slot = k % 3 * 2048 + thread * 8
    zeros = Const(0, half8)
    if asynchronous:
        read = Region(a, (row, column), (as_expr(1), as_expr(8)))
        fill: list[Stmt] = [
            CallStmt(cp_async(16), (Region(tile, (slot,), (as_expr(8),)), read, inside)),
            CallStmt(CP_ASYNC_COMMIT, ()),
            CallStmt(CP_ASYNC_WAIT, (as_expr(0),)),
        ]
    else:
        fill = [Store(tile, (slot,), Select(inside, Load(a, (row, column), half8), zeros, half8))]
    double = Store(wide, (i,), cast(Load(piece, (i,), piece.dtype), as_dtype("float32")) * 2.0)
    narrow = Cast(Load(wide, (as_expr(0),), as_dtype("float32x8")), half8)
    step: list[Stmt] = [
        *fill,
        CallStmt(SYNC_THREADS, ()),
        Store(piece, (as_expr(0),), Load(tile, (slot,), half8)),
        For(i, as_expr(0), as_expr(8), 1, ForKind.UNROLLED, double),
        If(inside, Store(b, (row, column), narrow)),
    ]
    body = [Alloc(tile), Alloc(piece), Alloc(wide), For(k, as_expr(0), as_expr(8), 1, ForKind.SERIAL, Seq(tuple(step)))]
    return kernel(
        "staged",
        (a, b),
        body,
        block_vars=(bx,),
        grid=(-(-rows // 64),),
        threads=(256, 1, 1),
        thread=thread,
        symbols=(rows,),
        plan=LaunchPlan(shared_offsets=((tile, 0),), shared_bytes=3 * 4096),
        hints=LaunchHints(min_blocks_per_sm=2),
    )
