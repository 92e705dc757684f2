import pytest

import tilelang.language as T
from tilelang.arith.simplify import simplify
from tilelang.errors import ProgramError
from tilelang.ir.expr import int_const
from tilelang.ir.stmt import CallStmt
from tilelang.ir.visit import walk


def calls(kernel):
    return [s for s in walk(kernel.body) if isinstance(s, CallStmt)]


def test_copies_in_the_background_say_what_they_touch():
    @T.prim_func
    def kernel(A: T.Tensor((128, 8), "float16")):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            S = T.alloc_shared((128, 8), "float16")
            T.ptx_cp_async(T.address_of(S[tx, 0]), A[tx, 0], 8)
            T.ptx_cp_async(S.access_ptr("w"), T.access_ptr(A[tx, 4], "r"), 4, predicate=tx < 64)
            T.ptx_commit_group()
            T.ptx_wait_group(0)

    first, second, commit, wait = calls(kernel)
    assert ["cp_async_16", "cp_async_8"] == [first.routine.name, second.routine.name]
    assert ("S", 8) == (first.writes[0].buffer.name, int_const(first.writes[0].extent[-1]))
    assert ("A", 4) == (second.reads[0].buffer.name, int_const(second.reads[0].extent[-1]))
    assert 0 == wait.args[0].value


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
        (lambda A, S: T.ptx_cp_async(A[0], A[1], 16), "T.ptx_cp_async: 'A' is in scope 'global', not shared"),
        (lambda A, S: T.ptx_cp_async(S[0], S[1], 16), "T.ptx_cp_async: 'S' is in scope 'shared.dyn', not global"),
        (lambda A, S: T.ptx_cp_async(S[0], A[1], 3),
         "T.ptx_cp_async: 3 elements of float32 are 12 bytes, but the instruction copies 4, 8 or 16"),
        (lambda A, S: T.ldg(A[0], hint="often"), "T.ldg: 'often' is no hint for a cache"),
        (lambda A, S: T.ldg(A[0], dtype="float16x8"),
         "T.ldg: 'A' holds float32, not neighbors that make a float16x8"),
        (lambda A, S: T.address_of(3), "T.address_of: expected a place in memory, got 3"),
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


@pytest.mark.parametrize(("offset", "expected"), [(0, (2, 3)), (4, (2, 7)), (5, (3, 0)), (-8, (1, 3)), (14, (4, 1))])
def test_offsets_of_pointers_count_elements_in_row_major_order(offset, expected):
    @T.prim_func
    def kernel(A: T.Tensor((5, 8), "float32")):
        with T.Kernel(1, threads=32):
            T.call_extern("handle", "touch", T.access_ptr(A[2, 3], 1, 8, offset=offset, extent=1))

    (region,) = calls(kernel)[0].args
    assert expected == tuple(int_const(simplify(index)) for index in region.start)


def test_modes_of_pointers_have_numbers():
    @T.prim_func
    def kernel(A: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            assert ["r", "w", "rw", "r"] == [
                T.access_ptr(A, 1).mode, T.access_ptr(A, 2).mode, A.access_ptr(3).mode, T.access_ptr(A[0:4]).mode
            ]  # fmt: skip
