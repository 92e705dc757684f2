import pytest

import tilelang.language as T
from tilelang.arith.simplify import simplify
from tilelang.errors import ProgramError
from tilelang.ir.expr import int_const
from tilelang.ir.stmt import CallStmt
from tilelang.ir.visit import walk


def calls(kernel):
    return [s for s in walk(kernel.body) if isinstance(s, CallStmt)]


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


def test_other_things_are_no_place_in_memory():
    with pytest.raises(ProgramError, match="T.address_of: expected a place in memory, got 3"):
        T.address_of(3)
