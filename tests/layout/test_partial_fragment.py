"""`T.PartialFragment`: the layout of a reducer while threads hold parts of its totals."""

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.errors import ProgramValueError
from tilelang.layout import PartialFragment, make_fully_replicated_partial_fragment


def test_it_is_a_fragment_whose_copies_are_parts():
    parts = PartialFragment((8,), lambda i, rep: (i * 4 + rep, 0), replicate=4, combine=2)
    assert (4, 2, (8,)) == (parts.replicate_size, parts.combine, parts.shape)
    assert [[4 * i + r for r in range(4)] for i in range(8)] == parts.thread_table.tolist()
    assert not isinstance(parts.as_post_collective(), PartialFragment)
    assert parts.as_post_collective().is_equal(T.Fragment((8,), lambda i, rep: (i * 4 + rep, 0), replicate=4))
    again = PartialFragment.from_fragment(parts.as_post_collective())
    assert (4, True) == (again.combine, np.array_equal(parts.thread_table, again.thread_table))


def test_all_threads_may_hold_a_part_of_everything():
    parts = make_fully_replicated_partial_fragment((2, 3), 32)
    assert (32, 32) == (parts.replicate_size, parts.combine)
    assert [0, 1, 2, 3, 4, 5] == parts.table.reshape(-1).tolist()
    assert (np.arange(32) == parts.thread_table).all()


def test_the_parts_have_to_divide_the_copies():
    with pytest.raises(ProgramValueError, match=r"combine \(3\) must evenly divide replicate \(4\)"):
        PartialFragment((8,), lambda i, rep: (rep, i), replicate=4, combine=3)


def test_it_says_nothing_of_results():
    @T.prim_func
    def f(A: T.Tensor((32, 8), "float32"), B: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=32):
            total, out = T.alloc_reducer((32,), "float32"), T.alloc_fragment((32,), "float32")
            T.annotate_layout({total: make_fully_replicated_partial_fragment((32,), 32)})
            T.reducer_init(total)
            for i, j in T.Parallel(32, 8):
                T.reducer_update(total[i], A[i, j])
            T.finalize_reducer(total, out)
            T.copy(out, B)

    a, b = np.arange(256, dtype=np.float32).reshape(32, 8), np.zeros(32, np.float32)
    tilelang.compile(f, execution_backend="simulator", target={"kind": "cuda", "arch": "sm_80"})(a, b)
    np.testing.assert_array_equal(a.sum(axis=1), b)


def test_only_reducers_have_it():
    message = "T.annotate_layout: 'tile' holds no parts of totals, so a PartialFragment says nothing of it"
    with pytest.raises(ProgramValueError, match=message):

        @T.prim_func
        def f(A: T.Tensor((32,), "float32")):
            with T.Kernel(1, threads=32):
                tile = T.alloc_fragment((32,), "float32")
                T.annotate_layout({tile: make_fully_replicated_partial_fragment((32,), 32)})
                T.copy(A, tile)
