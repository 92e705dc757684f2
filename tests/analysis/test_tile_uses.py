import tilelang.language as T
from tilelang.analysis.tile_uses import TileUses, static_extents, tile_uses
from tilelang.arith.prove import proves
from tilelang.ir.buffer import Scope
from tilelang.ir.func import PrimFunc
from tilelang.ir.stmt import Launch
from tilelang.ir.visit import walk


def uses_of(func: PrimFunc) -> TileUses:
    launch = next(stmt for stmt in walk(func.body) if isinstance(stmt, Launch))
    return tile_uses(func, launch, (Scope.FRAGMENT, Scope.SHARED))


def test_uses_are_told_apart() -> None:
    @T.prim_func
    def f(A: T.Tensor((64, T.dyn["n"]), T.float32)):
        with T.Kernel(2, threads=64):
            x = T.alloc_fragment((64, 4), T.float32)
            y = T.alloc_shared((64,), T.float32)
            T.clear(x)
            for i in T.Parallel(64):
                own = T.alloc_fragment((2,), T.float32)
                own[0] = A[i, 0]
                for j in T.serial(4):
                    x[i, j] = own[0]
                y[i] = x[i, T.int32(y[i])]
            for i in T.Parallel(A.shape[1]):
                y[i] = 0
            if y[3] > x[0, 0]:
                y[0] = 1

    uses = uses_of(f)
    assert ["x", "y"] == [buffer.name for buffer in uses.of]
    x, y = uses.of.values()
    assert (1, 2, 1) == (len(x.operators), len(x.nests), len(x.scalar))
    assert [1, None] == [use.map and use.map.free for use in x.nests]
    assert [True, False] == [use.access.write for use in x.nests]
    assert 2 == len(y.scalar)
    assert [(64,), None] == [static_extents(nest) for nest in uses.nests]
    nest, domain = next(iter(uses.nests.items()))
    assert proves(nest.vars[0] < 64, domain)


def test_variables_from_outside_of_a_nest_are_walked_where_they_are_unrolled() -> None:
    @T.prim_func
    def f(A: T.Tensor((4, 8), T.float32)):
        with T.Kernel(1, threads=32):
            x = T.alloc_fragment((4, 8), T.float32)
            for k in T.serial(4):
                for j in T.Parallel(8):
                    x[k, j] = A[k, j]
            for k in T.unroll(1, 4):
                for j in T.Parallel(8):
                    x[k, j] = A[k, j]

    (x,) = uses_of(f).of.values()
    assert [None, 1] == [use.map and use.map.free for use in x.nests]
