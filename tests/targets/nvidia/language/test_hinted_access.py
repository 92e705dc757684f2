import pytest

import tilelang.language as T
from tilelang.errors import ProgramError
from tilelang.ir.expr import int_const
from tilelang.ir.stmt import CallStmt
from tilelang.ir.visit import walk


def calls(kernel):
    return [s for s in walk(kernel.body) if isinstance(s, CallStmt)]


def test_wide_loads_and_stores_take_neighbors():
    @T.prim_func
    def kernel(A: T.Tensor((128, 8), "float16"), B: T.Tensor((128, 8), "float16")):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            T.stg128(B[tx, 0], T.ldg128(A[tx, 0]))
            T.stg(B[tx, 0], T.ldg(A[tx, 0], hint="evict_first"), hint="streaming")

    load, store, small, single = calls(kernel)
    assert "float16x8" == load.result.dtype
    assert 8 == int_const(load.reads[0].extent[-1])
    assert 8 == int_const(store.writes[0].extent[-1])
    assert "float16" == small.result.dtype


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda A, S: T.ldg(A[0], hint="often"), "T.ldg: 'often' is no hint for a cache"),
        (lambda A, S: T.ldg(A[0], dtype="float16x8"),
         "T.ldg: 'A' holds float32, not neighbors that make a float16x8"),
    ],
)  # fmt: skip
def test_addresses_that_do_not_fit_are_refused(call, message):
    with pytest.raises(ProgramError) as caught:

        @T.prim_func
        def kernel(A: T.Tensor((128,), "float32")):
            with T.Kernel(1, threads=128):
                S = T.alloc_shared((128,), "float32")
                call(A, S)

    assert message == caught.value.message
