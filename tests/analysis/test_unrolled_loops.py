import pytest

import tilelang.language as T
from tilelang.analysis.unrolled_loops import MAX_STATEMENTS, is_unrolled, subscripting, unrolled_variables, values
from tilelang.dtypes import INT32
from tilelang.ir.expr import Var, as_expr
from tilelang.ir.func import PrimFunc
from tilelang.ir.stmt import For, ForKind, Launch, Seq
from tilelang.ir.visit import walk

K, N = Var("k", INT32, index=True), Var("n", INT32, index=True)


def loop(start, stop, step=1, kind=ForKind.SERIAL, factor=None):
    return For(K, as_expr(start), as_expr(stop), step, kind, Seq(()), unroll_factor=factor)


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (loop(0, 4), range(4)),
        (loop(2, 9, 3), range(2, 9, 3)),
        (loop(4, 0, -2), range(4, 0, -2)),
        (loop(4, 4), None),
        (loop(0, N), None),
        (loop(N, 8), None),
    ],
)
def test_values_are_those_of_constant_loops(node, expected):
    assert expected == values(node)


def test_a_loop_is_unrolled_if_it_is_as_a_whole():
    assert is_unrolled(loop(0, 4, kind=ForKind.UNROLLED))
    assert not is_unrolled(loop(0, 4))
    assert not is_unrolled(loop(0, N, kind=ForKind.UNROLLED))
    assert not is_unrolled(loop(0, 4, kind=ForKind.UNROLLED, factor=2))


def launch_of(func: PrimFunc) -> Launch:
    return next(stmt for stmt in walk(func.body) if isinstance(stmt, Launch))


def subscripted(func: PrimFunc) -> dict[str, list[str]]:
    found = subscripting(launch_of(func))
    return {loop.var.name: sorted(tile.name for tile in tiles) for loop, tiles in found.items()}


def test_loops_that_choose_registers_are_found():
    @T.prim_func
    def f(A: T.Tensor((4, 64), T.float32), n: T.int32):
        with T.Kernel(1, threads=32):
            x = T.alloc_fragment((4, 64), T.float32)
            y = T.alloc_fragment((4, 64), T.float32)
            z = T.alloc_shared((4, 64), T.float32)
            for a in T.serial(4):
                for b in T.serial(2):
                    for j in T.Parallel(64):
                        x[a, j] = y[a, j] + b
            for c in T.serial(4):
                for j in T.Parallel(64):
                    z[c, j] = x[0, j]
            for d in T.serial(n):
                for j in T.Parallel(64):
                    x[d, j] = 0
            for e in T.unroll(4):
                for j in T.Parallel(64):
                    x[e, j] = 0

    assert {"a": ["x", "y"]} == subscripted(f)
    assert {"e": range(4)} == {var.name: taken for var, taken in unrolled_variables(launch_of(f)).items()}


def test_loops_that_are_left_early_or_grow_too_long_stay():
    def of(trips: int, width: int) -> PrimFunc:
        @T.prim_func
        def f(A: T.Tensor((trips, width), T.float32)):
            with T.Kernel(1, threads=32):
                x = T.alloc_fragment((trips, width), T.float32)
                for k in T.serial(trips):
                    for j in T.Parallel(width):
                        x[k, j] = 0
                for e in T.serial(trips):
                    for j in T.Parallel(width):
                        x[e, j] = 0
                    if A[e, 0] > 0:
                        break

        return f

    assert {"k": ["x"]} == subscripted(of(MAX_STATEMENTS, 32))
    assert {"k": ["x"]} == subscripted(of(MAX_STATEMENTS // 4, 100))
    assert {} == subscripted(of(MAX_STATEMENTS + 1, 32))


def test_operators_and_loops_within_count():
    def of(inner: int, width: int) -> PrimFunc:
        @T.prim_func
        def f(A: T.Tensor((16, width), T.float32)):
            with T.Kernel(1, threads=32):
                x = T.alloc_fragment((16, width), T.float32)
                y = T.alloc_shared((width,), T.float32)
                for k in T.serial(16):
                    T.copy(A[k, 0], y)
                    for j in T.Parallel(width):
                        for _ in T.serial(inner):
                            x[k, j] += y[j]

        return f

    assert {"k": ["x"]} == subscripted(of(8, 32))
    assert {} == subscripted(of(64, 32))
    assert {} == subscripted(of(8, 320))
