import numpy as np
import pytest
from harness import run_reference_on_copies
from lazy_copies import expanded, planned, run_lazily

import tilelang.language as T
from tilelang.dtypes import INT32, SCALARS
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Var, const
from tilelang.ir.func import PrimFunc
from tilelang.ir.pipeline import Acquire, Commit, OrderBarrier, OrderWait, Pipeline, Release, Wait
from tilelang.ir.stmt import For, ForKind, Group, Seq
from tilelang.ir.verify import verify
from tilelang.ir.visit import walk
from tilelang.lowering.regions import whole
from tilelang.ops.copy import Copy
from tilelang.ops.fill import Fill
from tilelang.targets.nvidia.isa.cp_async import CP_ASYNC_WAIT
from tilelang.targets.nvidia.passes.hoist_async_copies import hoist_async_copies

TILE, TRIPS = 8, 3


def kernel(case):
    """Fills tiles of A and B in a loop and sums them; `case` puts something before the second copy."""

    @T.prim_func
    def main(
        A: T.Tensor((TILE, TILE * 4), "int32"), B: T.Tensor((TILE, TILE * 4), "int32"), C: T.Tensor((TILE, TILE), "int32")
    ):
        with T.Kernel(1, threads=32):
            A_s = T.alloc_shared((TILE, TILE), "int32")
            B_s = T.alloc_shared((TILE, TILE), "int32")
            total = T.alloc_fragment((TILE, TILE), "int32")
            T.clear(total)
            T.clear(B_s)
            for k in T.serial(TRIPS):
                T.copy(A[0, k * TILE], A_s)
                for i, j in T.Parallel(TILE, TILE):
                    total[i, j] += 1
                for i, j in T.Parallel(TILE, TILE):
                    total[i, j] += A_s[i, j]
                if case == "reads the tile":
                    for i, j in T.Parallel(TILE, TILE):
                        total[i, j] += B_s[i, j]
                elif case == "writes the source":
                    for i, j in T.Parallel(TILE, TILE):
                        B[i, k * TILE + j] = total[i, j]
                elif case == "is a branch":
                    if A[0, 0] > 100:
                        B_s[0, 0] = 1
                start = A[0, 0] % 2 + k if case == "names where" else k
                T.copy(B[0, start * TILE], B_s)
                for i, j in T.Parallel(TILE, TILE):
                    total[i, j] += B_s[i, j] * 2
            T.copy(total, C)

    return main


def order(func: PrimFunc) -> str:
    """The loop's statements that read or fill the tiles, by a letter each: a, b for copies, p for loops, i for ifs."""
    loop = next(s for s in walk(expanded(func).body) if isinstance(s, For))
    assert isinstance(loop.body, Seq)
    letters = ""
    for stmt in loop.body.body:
        text = type(stmt).__name__
        letters += {"Copy": "c", "ParallelLoop": "p", "If": "i"}.get(text, "")
    return letters


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("", "cpcpp"),
        ("reads the tile", "cpppcp"),
        ("writes the source", "cpppcp"),
        ("is a branch", "cppicp"),
        ("names where", "cppcp"),
    ],
)
def test_copies_pass_what_leaves_them_alone(case, expected):
    func = kernel(case)
    assert expected == order(func)
    rng = np.random.default_rng(0)
    arguments = (*rng.integers(-9, 9, (2, TILE, TILE * 4), np.int32), np.zeros((TILE, TILE), np.int32))
    wanted = run_reference_on_copies(func, arguments)
    actual, _ = run_lazily(expanded(func), arguments)
    for want, got in zip(wanted, actual, strict=True):
        np.testing.assert_array_equal(want, got)


def test_copies_stay_where_tiles_might_not_fit_side_by_side():
    body = planned(kernel("")).body
    assert body is not hoist_async_copies(body, frozenset(), 2 * TILE * TILE * 4, 32)
    assert body is hoist_async_copies(body, frozenset(), 2 * TILE * TILE * 4 - 1, 32)


def fetching(case):
    """Multiplies tiles of A by a row of B that each thread loads to registers."""

    @T.prim_func
    def main(
        A: T.Tensor((TILE, TILE * 4), "int32"), B: T.Tensor((TILE, TILE * 4), "int32"), C: T.Tensor((TILE, TILE), "int32")
    ):
        with T.Kernel(1, threads=32):
            A_s = T.alloc_shared((TILE, TILE), "int32")
            B_f = T.alloc_fragment((TILE, TILE), "int32")
            total = T.alloc_fragment((TILE, TILE), "int32")
            T.clear(total)
            T.clear(B_f)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[0, k * TILE], A_s)
                if case == "reads the registers":
                    for i, j in T.Parallel(TILE, TILE):
                        total[i, j] += B_f[i, j]
                for i, j in T.Parallel(TILE, TILE):
                    total[i, j] += A_s[i, j]
                T.copy(B[0, (A_s[0, 0] % 4 if case == "reads the place" else k) * TILE], B_f)
                if case == "writes the source":
                    for i, j in T.Parallel(TILE, TILE):
                        B[i, k * TILE + j] = 0
                for i, j in T.Parallel(TILE, TILE):
                    total[i, j] += A_s[i, j] * B_f[i, j]
            T.copy(total, C)

    return main


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("", "cwipp"),
        ("reads the registers", "wipcpp"),
        ("writes the source", "wipcpp"),
        ("reads the place", "wipcp"),  # from a tile that is awaited
    ],
)
def test_what_is_loaded_to_registers_is_asked_for_before_tiles_and_waits(case, expected):
    func = fetching(case)
    made = expanded(func)
    loop = next(s for s in walk(made.body) if isinstance(s, For))
    letters = {"Copy": "c", "ParallelLoop": "p", "If": "i"}
    found = ["w" if getattr(s, "routine", None) is CP_ASYNC_WAIT else letters.get(type(s).__name__, "") for s in loop.body.body]
    assert expected == "".join(found)
    rng = np.random.default_rng(0)
    arguments = (*rng.integers(-9, 9, (2, TILE, TILE * 4), np.int32), np.zeros((TILE, TILE), np.int32))
    wanted = run_reference_on_copies(func, arguments)
    for want, got in zip(wanted, run_lazily(made, arguments)[0], strict=True):
        np.testing.assert_array_equal(want, got)


@pytest.mark.parametrize(("kind", "moves"), [(Acquire, True), (Wait, True), (OrderWait, True), (Release, False), (Commit, False)])
def test_what_is_loaded_to_registers_passes_waits_of_pipelines_and_nothing_that_others_wait_for(kind, moves):
    count, zero = (const(1, INT32),), const(0, INT32)
    full, empty = (Buffer(name, count, SCALARS["uint64"], Scope.BARRIER) for name in ("full", "empty"))
    tile, own = Buffer("A_s", count, INT32, Scope.SHARED), Buffer("B_f", count, INT32, Scope.FRAGMENT)
    pipeline = Pipeline("A_s", (tile,), 1, full, empty, Group(32, 32), Group(0, 32), 32)
    state = {"index": zero} if kind in (Release, Commit) else {"index": zero, "phase": zero}
    stmt = OrderWait(OrderBarrier("gemms", 2, 32)) if kind is OrderWait else kind(pipeline, **state)
    copy = Copy(whole(Buffer("B", count, INT32, Scope.GLOBAL)), whole(own))
    loop = For(Var("k", INT32), zero, const(4, INT32), 1, ForKind.SERIAL, Seq((Fill(whole(tile), zero), stmt, copy)))
    made = hoist_async_copies(loop, frozenset(), 1024, 32)
    assert moves == (made.body.body.index(copy) == 0)


@pytest.mark.parametrize(("used", "expected"), [(False, "acppp"), (True, "appcp")])
def test_allocations_go_along_with_what_is_loaded_to_registers_unless_it_is_used_before(used, expected):
    @T.prim_func
    def main(B: T.Tensor((TILE, TILE), "int32"), C: T.Tensor((TILE, TILE), "int32")):
        with T.Kernel(1, threads=32):
            total = T.alloc_fragment((TILE, TILE), "int32")
            T.clear(total)
            for _ in T.serial(3):
                if not used:
                    for i, j in T.Parallel(TILE, TILE):
                        total[i, j] += 1
                B_f = T.alloc_fragment((TILE, TILE), "int32")
                if used:
                    for i, j in T.Parallel(TILE, TILE):
                        B_f[i, j] = 1
                for i, j in T.Parallel(TILE, TILE):
                    total[i, j] += B_f[i, j] if used else 2
                T.copy(B, B_f)
                for i, j in T.Parallel(TILE, TILE):
                    total[i, j] += B_f[i, j]
            T.copy(total, C)

    made = expanded(main)
    verify(made)
    loop = next(s for s in walk(made.body) if isinstance(s, For))
    letters = {"Alloc": "a", "Copy": "c", "ParallelLoop": "p"}
    assert expected == "".join(letters[type(s).__name__] for s in loop.body.body)
    arguments = (np.arange(TILE * TILE, dtype=np.int32).reshape(TILE, TILE), np.zeros((TILE, TILE), np.int32))
    wanted = run_reference_on_copies(main, arguments)
    for want, got in zip(wanted, run_lazily(made, arguments)[0], strict=True):
        np.testing.assert_array_equal(want, got)
