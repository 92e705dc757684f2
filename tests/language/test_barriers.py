import pytest

import tilelang.language as T
from tilelang.errors import ProgramError
from tilelang.ir.buffer import Scope
from tilelang.language.barriers import barrier_region


def test_a_barrier_is_named_by_element_number_or_alone():
    @T.prim_func
    def kernel(A: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=32):
            bars = T.create_list_of_mbarrier(1, 2)
            one = T.alloc_barrier(1)
            for barrier in (bars[1], 1, one):
                region = barrier_region("T.wait", barrier)
                assert Scope.BARRIER is region.buffer.scope
            with pytest.raises(ProgramError, match="T.wait: 'bars' has several barriers"):
                barrier_region("T.wait", bars)
            with pytest.raises(ProgramError, match="T.wait: expected a barrier, got <A"):
                barrier_region("T.wait", A)


def test_a_number_needs_a_list_of_barriers():
    @T.prim_func
    def kernel(A: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=32):
            with pytest.raises(ProgramError, match="T.wait: there is no list of barriers"):
                barrier_region("T.wait", 0)
