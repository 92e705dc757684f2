"""Operators that are programs of simpler ones."""

import tilelang.language as T
from tilelang.ir.stmt import Alloc, For, ParallelLoop
from tilelang.ir.visit import walk
from tilelang.ops.arg_reduce import ArgReduce
from tilelang.ops.gather_scatter import GatherRows, ScatterRows
from tilelang.ops.reduce import Reduce
from tilelang.ops.sort import Sort, TopK
from tilelang.passes.base import PassContext
from tilelang.passes.tile import expand_library


@T.prim_func
def kernel(A: T.Tensor((8, 8), "float32"), I: T.Tensor((8,), "int32"), B: T.Tensor((8, 8), "float32")):
    with T.Kernel(1) as _:
        a = T.alloc_shared((8, 8), "float32")
        T.gather(A, I, a)
        T.sort(a)
        T.topk(a, 1, B[:, 0:1])
        T.argmax(a, I)
        T.scatter(a, I, B)


def test_none_of_them_is_left() -> None:
    made = expand_library.PASS.run(kernel, PassContext())
    kinds = [type(s) for s in walk(made.body)]
    assert not {ArgReduce, GatherRows, ScatterRows, Sort, TopK} & set(kinds)
    assert Reduce in kinds
    assert kinds.count(ParallelLoop) >= 8


def test_scratch_tiles_of_pipelined_loops_are_allocated_in_front_of_them() -> None:
    @T.prim_func
    def main(A: T.Tensor((4, 8, 8), "float32")):
        with T.Kernel(1) as _:
            for k in T.Pipelined(4, num_stages=2):
                a = T.alloc_shared((8, 8), "float32")
                best = T.alloc_fragment((8,), "int32")
                T.copy(A[k, 0, 0], a)
                T.argmax(a, best)

    made = expand_library.PASS.run(main, PassContext())
    (loop,) = (s for s in walk(made.body) if isinstance(s, For))
    inside = {s.buffer.name for s in walk(loop) if isinstance(s, Alloc)}
    everywhere = {s.buffer.name for s in walk(made.body) if isinstance(s, Alloc)}
    assert {"a", "best"} == inside
    assert {"best_best", "best_where"} == everywhere - inside


def test_their_loops_stand_in_their_lines() -> None:
    made = expand_library.PASS.run(kernel, PassContext())
    lines = {s.loc.line for s in walk(made.body) if isinstance(s, ParallelLoop)}
    first = kernel.loc.line
    assert all(line > first for line in lines)
    assert 5 == len(lines)
