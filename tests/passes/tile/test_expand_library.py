"""Operators that are programs of simpler ones."""

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.ir.sequences import effectful
from tilelang.ir.stmt import Alloc, For, ParallelLoop
from tilelang.ir.visit import walk
from tilelang.ops.arg_reduce import ArgReduce
from tilelang.ops.gather_scatter import GatherRows, ScatterRows
from tilelang.ops.reduce import Reduce
from tilelang.ops.sort import Sort, TopK
from tilelang.passes.base import PassContext
from tilelang.passes.tile import expand_library
from tilelang.targets.target import Target


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


@pytest.mark.parametrize(
    ("target", "rows", "length", "count", "expected"),
    [
        (("cpu",), 8, 16, 10, "reductions"), (("cpu",), 8, 16, 11, "network"), (("cpu",), 8, 64, 21, "reductions"),
        (("cpu",), 17, 16, 16, "columns"), (("cpu",), 16, 256, 252, "columns"), (("cpu",), 16, 256, 253, "network"),
        (("cuda", "sm_90a"), 17, 16, 3, "reductions"), (("cuda", "sm_90a"), 17, 16, 4, "network"),
        (("cuda", "sm_90a"), 17, 64, 7, "reductions"),
    ],
)  # fmt: skip
def test_the_largest_elements_are_found_in_rounds_where_these_are_cheaper(
    target: tuple[str, ...], rows: int, length: int, count: int, expected: str
) -> None:
    @T.prim_func
    def largest(A: T.Tensor((rows, length), "float32"), B: T.Tensor((rows, count), "float32")):
        with T.Kernel(1) as _:
            a = T.alloc_shared((rows, length), "float32")
            T.copy(A, a)
            T.topk(a, count, B)

    made = expand_library.PASS.run(largest, PassContext(target=Target(*target)))
    shapes = {s.buffer.name: s.buffer.static_shape for s in walk(made.body) if isinstance(s, Alloc)}
    in_rounds = {(rows, length): "reductions", (length, rows): "columns"}
    assert expected == (in_rounds[shapes["a_keys"]] if "a_best" in shapes else "network")


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


def test_what_an_operator_becomes_has_its_place() -> None:
    @T.prim_func
    def main(A: T.Tensor((4, 8, 8), "float32"), O: T.Tensor((8, 8), "float32")):
        with T.Kernel(1, threads=32):
            S, out = T.alloc_fragment((8, 8), "float32"), T.alloc_fragment((8, 8), "float32")
            row_max, row_sum = T.alloc_fragment((8,), "float32"), T.alloc_fragment((8,), "float32")
            for k in T.Pipelined(4, num_stages=2, order=[0, 2, 1], stage=[0, 0, 1]):
                T.copy(A[k, 0, 0], S)
                T.online_softmax(S, out, row_max, row_sum, 1.0)
                T.copy(out, O)

    (loop,) = (s for s in walk(expand_library.PASS.run(main, PassContext()).body) if isinstance(s, For) and s.pipeline is not None)
    steps = len(effectful(loop.body)) - 2
    assert steps > 3
    assert ((0, *range(2, steps + 2), 1), (0,) * (steps + 1) + (1,)) == (loop.pipeline.order, loop.pipeline.stage)


def test_their_loops_stand_in_their_lines() -> None:
    made = expand_library.PASS.run(kernel, PassContext())
    lines = {s.loc.line for s in walk(made.body) if isinstance(s, ParallelLoop)}
    first = kernel.loc.line
    assert all(line > first for line in lines)
    assert 5 == len(lines)


@T.prim_func
def rows_by_iterations(A: T.Tensor((8, 33), "float16"), B: T.Tensor((8, 33), "float32"), C: T.Tensor((33, 2), "float32")):
    with T.Kernel(1, threads=64):
        shared, fragment = T.alloc_shared((8, 33), "float32"), T.alloc_fragment((8, 33), "float32")
        total = T.alloc_shared((33, 2), "float32")
        T.clear(total)
        for i in T.Parallel(8):
            T.copy(A[i, 0:33], shared[7 - i, 0:33])
            T.fill(fragment[i, 0:33], 2.0 * i)
        for i in T.Parallel(8):
            if i > 3:
                T.copy(shared[i, 2:9], fragment[i, 0:7])
            T.transpose(A[i : i + 1, 0:2], total[4 * i : 4 * i + 2, 0:1])
        for i, k in T.Parallel(8, 2):
            T.atomic_add(C[0:33, k], shared[i, 0:33])
        T.copy(fragment, B)
        T.atomic_add(C, total)


@pytest.mark.parametrize(("target", "backend"), [("cpu", "cc"), ("sm_80", "simulator"), ("sm_90a", "simulator")])
def test_operators_by_element_run_in_parallel_iterations(target, backend):
    a = (np.arange(8 * 33) % 11 - 5).reshape(8, 33).astype(np.float16)
    results = []
    for options in ({"execution_backend": "reference"}, {"target": target, "execution_backend": backend}):
        b, c = np.zeros((8, 33), np.float32), np.zeros((33, 2), np.float32)
        tilelang.compile(rows_by_iterations, **options)(a, b, c)
        results.append((b, c))
    for expected, actual in zip(*results, strict=True):
        np.testing.assert_array_equal(expected, actual)
    assert results[0][0].any() and results[0][1].any()
