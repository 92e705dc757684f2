"""The dependences between the statements of a loop's body."""

import tilelang.language as T
from tilelang.ir.stmt import For
from tilelang.ir.visit import walk
from tilelang.schedule.loop_body import LoopBody
from tilelang.schedule.loop_graph import NO_VERSIONS, Edge, LoopGraph, Work, loop_graph, reordering_refusal


def body_of(func):
    return LoopBody(next(s for s in walk(func.body) if isinstance(s, For)))


def graph_of(func, versions=NO_VERSIONS):
    return loop_graph(body_of(func), lambda stmt: Work(1), versions)


def test_conflicting_statements_have_an_edge_each_way_and_readers_of_one_tile_have_none():
    @T.prim_func
    def main(A: T.Tensor((64, 8), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            X = T.alloc_fragment((8,), "float32")
            Y = T.alloc_fragment((8,), "float32")
            Z = T.alloc_fragment((8,), "float32")
            T.clear(Z)
            for k in T.serial(64):
                T.copy(A[k, 0], X)  # 0
                for i in T.Parallel(8):  # 1
                    Y[i] = X[i] * 2.0
                for i in T.Parallel(8):  # 2
                    Z[i] += X[i]
            T.copy(Z, B)

    graph = graph_of(main)
    pairs = {(0, 1), (0, 2)}
    assert {Edge(n, m, 0) for n, m in pairs} | {Edge(m, n, 1) for n, m in pairs} == set(graph.edges)


def test_a_tile_with_versions_may_be_filled_again_as_many_iterations_later():
    @T.prim_func
    def main(A: T.Tensor((64, 8), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            X = T.alloc_shared((8,), "float32")
            Y = T.alloc_fragment((8,), "float32")
            for k in T.serial(64):
                T.copy(A[k, 0], X)
                T.copy(X, Y)
            T.copy(Y, B)

    (tile,) = [b for b in body_of(main).storages if b.name == "X"]
    assert {Edge(0, 1, 0), Edge(1, 0, 1)} == set(graph_of(main).edges)
    assert {Edge(0, 1, 0), Edge(1, 0, 3)} == set(graph_of(main, {tile: 3}).edges)


def test_loops_that_print_or_end_early_are_refused():
    @T.prim_func
    def plain(A: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=32):
            for k in T.serial(64):
                A[k] = 1.0

    @T.prim_func
    def prints(A: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=32):
            for k in T.serial(64):
                T.print(A[k])

    @T.prim_func
    def ends(A: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=32):
            for k in T.serial(64):
                A[k] = 1.0
                if A[k] > 0.0:
                    T.loop_break()

    assert "" == reordering_refusal(body_of(plain))
    assert "it calls instructions or prints" == reordering_refusal(body_of(prints))
    assert "it is left or continued in the middle of an iteration" == reordering_refusal(body_of(ends))


def test_the_lower_bound_is_the_busier_unit():
    work = (Work(300, asynchronous=True), Work(100), Work(150))
    assert 300 == LoopGraph(work, ()).lower_bound
    assert 350 == LoopGraph((*work, Work(100)), ()).lower_bound
