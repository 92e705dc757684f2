"""Threads fence what they wrote before asynchronous hardware may be told of it, and only then."""

from thread_kernels import buffer, index, kernel

from tilelang.dtypes import INT32
from tilelang.ir.buffer import Region, Scope
from tilelang.ir.expr import Const, as_expr, const
from tilelang.ir.launch import LaunchPlan
from tilelang.ir.stmt import Alloc, CallStmt, For, ForKind, If, Seq, Store
from tilelang.ir.visit import walk
from tilelang.options import CompileOptions
from tilelang.passes.base import PassContext
from tilelang.targets.gpu.isa.sync import SYNC_THREADS
from tilelang.targets.nvidia.isa.cp_async import CP_ASYNC_COMMIT, CP_ASYNC_WAIT, cp_async
from tilelang.targets.nvidia.isa.fence import FENCE_PROXY_ASYNC
from tilelang.targets.nvidia.isa.tma import TMA_STORE_COMMIT, bulk_store, tma_store_wait
from tilelang.targets.nvidia.passes import insert_proxy_fences
from tilelang.targets.target import Target

THREAD, K = index("thread"), index("k")
A = buffer("A", (512,), "int32")
TILE, OTHER = buffer("tile", (128,), "int32", Scope.SHARED), buffer("other", (128,), "int32", Scope.SHARED)
ZERO, ALL = const(0, INT32), const(128, INT32)


def sync():
    """All threads meet."""
    return CallStmt(SYNC_THREADS, ())


def write(tile):
    """Every thread writes an element."""
    return Store(tile, (THREAD,), as_expr(1))


def leaves():
    """One thread lets the copy engine store the tile, and awaits it."""
    source, target = Region(TILE, (ZERO,), (ALL,)), Region(A, (ZERO,), (ALL,))
    call = CallStmt(bulk_store(), (target, source, const(512, INT32)), (source,), (target,))
    return If(THREAD == 0, Seq((call, CallStmt(TMA_STORE_COMMIT, ()), CallStmt(tma_store_wait(0), ()))))


def fenced(*body, offsets=(0, 512)):
    """What the launch does, in words: barriers, fences, and the names of other calls and of stored tiles."""
    plan = LaunchPlan(shared_offsets=tuple(zip((TILE, OTHER), offsets, strict=True)), shared_bytes=1024)
    func = kernel("main", [A], [Alloc(TILE), Alloc(OTHER), *body], thread=THREAD, plan=plan)
    made = insert_proxy_fences.PASS.run(func, PassContext(CompileOptions(), Target("cuda", "sm_90a")))
    words = {SYNC_THREADS.name: "sync", FENCE_PROXY_ASYNC.name: "fence"}
    found = [s for s in walk(made.body) if isinstance(s, Store | CallStmt)]
    names = [f"store {s.buffer.name}" if isinstance(s, Store) else s.routine.name for s in found]
    return [words.get(name, name) for name in names if name not in (TMA_STORE_COMMIT.name, tma_store_wait(0).name)]


def test_writers_fence_before_the_barrier_behind_which_the_engine_reads():
    assert fenced(write(TILE), sync(), leaves()) == ["store tile", "fence", "sync", bulk_store().name]


def test_one_fence_is_enough_for_several_writes_and_later_barriers_need_none():
    names = fenced(write(TILE), write(TILE), sync(), leaves(), sync())
    assert names == ["store tile", "store tile", "fence", "sync", bulk_store().name, "sync"]


def test_tiles_that_no_engine_touches_need_none():
    assert fenced(write(OTHER), sync(), leaves()) == ["store other", "sync", bulk_store().name]
    assert fenced(write(TILE), sync()) == ["store tile", "sync"]


def test_tiles_that_share_bytes_with_such_a_tile_count():
    assert fenced(write(OTHER), sync(), leaves(), offsets=(0, 256))[:2] == ["store other", "fence"]


def test_a_thread_that_starts_the_engine_itself_fences_before():
    assert fenced(write(TILE), leaves()) == ["store tile", "fence", bulk_store().name]


def test_what_an_iteration_leaves_behind_meets_the_next_one():
    loop = For(K, ZERO, const(4, INT32), 1, ForKind.SERIAL, Seq((sync(), leaves(), write(TILE))))
    assert fenced(loop) == ["fence", "sync", bulk_store().name, "store tile"]


def test_a_fence_of_the_users_counts():
    mine = CallStmt(FENCE_PROXY_ASYNC, ())
    assert fenced(write(TILE), mine, sync(), leaves()).count("fence") == 1


def test_copies_of_threads_are_written_when_they_are_awaited():
    source, target = Region(A, (THREAD * 4,), (const(4, INT32),)), Region(TILE, (THREAD * 4,), (const(4, INT32),))
    copy = CallStmt(cp_async(16), (target, source, Const(True, as_expr(True).dtype)), (source,), (target,))
    wait = CallStmt(CP_ASYNC_WAIT, (ZERO,))
    names = fenced(copy, CallStmt(CP_ASYNC_COMMIT, ()), sync(), wait, sync(), leaves())
    assert names.index("fence") == len(names) - 3
    assert names.count("fence") == 1


def test_branches_leave_what_either_of_them_wrote():
    branch = If(THREAD < 64, write(TILE), write(OTHER))
    assert fenced(branch, sync(), leaves())[2:4] == ["fence", "sync"]
