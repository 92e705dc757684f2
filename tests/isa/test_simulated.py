import numpy as np

from tilelang.dtypes import INT32, DType
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import const
from tilelang.isa.simulated import Pointer, Wait


def test_a_pointer_moves_by_elements_for_all_lanes_or_for_each():
    buffer = Buffer("S", (const(64, INT32),), DType("float16"), Scope.SHARED)
    pointer = Pointer(buffer, np.arange(64))
    np.testing.assert_array_equal(np.arange(64) + 8, (pointer + 8).offset)
    np.testing.assert_array_equal(2 * np.arange(64), (pointer + np.arange(64)).offset)
    assert buffer is (pointer + 8).buffer


def test_a_wait_ends_when_its_condition_is_true():
    arrived = []
    wait = Wait("barrier 0", lambda: len(arrived) == 2)
    assert not wait.ready()
    arrived += [0, 1]
    assert wait.ready()
