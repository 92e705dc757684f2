"""Index bindings vanish; bindings of data stay."""

import numpy as np
from harness import run_everywhere

import tilelang.language as T
from tilelang.ir.stmt import Bind, Store
from tilelang.ir.visit import walk
from tilelang.passes.runner import run_passes
from tilelang.passes.tile.inline_bindings import PASS


def bindings(func):
    return [s.var.name for s in walk(run_passes(func, (PASS,)).body) if isinstance(s, Bind)]


def test_index_bindings_are_replaced_by_their_values():
    @T.prim_func
    def main(A: T.Tensor((32,), "float32")):
        with T.Kernel(4) as bx:
            for i in T.Parallel(8):
                at = bx * 8 + i
                again = at + 1
                A[again - 1] = 1.0

    assert [] == bindings(main)
    store = next(s for s in walk(run_passes(main, (PASS,)).body) if isinstance(s, Store))
    assert 1 == len(store.indices)


def test_values_that_depend_on_memory_stay_where_they_were_computed():
    @T.prim_func
    def main(A: T.Tensor((8,), "int32"), I: T.Tensor((2,), "int32")):
        with T.Kernel(1):
            at = I[0]
            I[0] = 5
            A[at] = 1
            x = A[0] + 1
            A[0] = 9
            A[1] = x

    assert {"at", "x"} == set(bindings(main))
    run_everywhere(main, np.zeros(8, np.int32), np.array([3, 4], np.int32), compile_flags="-O1")
