"""Groups of threads on a machine whose only barriers are those of a block and of a wave."""

import numpy as np
import pytest
from invented.isa.matrix import MATRIX_ATOM

import tilelang.language as T
from tilelang.errors import NoLowering
from tilelang.jit.program import lowered
from tilelang.options import CompileOptions
from tilelang.sim.run import simulate
from tilelang.targets.target import Target

TARGET = Target("invented", "wave64")


def reversed_by(first):
    """The threads below `first` turn one half of A around, the others the other half, each in shared memory."""

    @T.prim_func
    def main(A: T.Tensor((256,), "float32"), B: T.Tensor((256,), "float32")):
        with T.Kernel(1, threads=2 * first):
            t = T.get_thread_binding()
            s = T.alloc_shared((128,), "float32")
            u = T.alloc_shared((128,), "float32")
            if t < first:
                for i in T.Parallel(128):
                    s[i] = A[i]
                for i in T.Parallel(128):
                    B[i] = s[127 - i]
            else:
                for i in T.Parallel(128):
                    u[i] = A[128 + i]
                for i in T.Parallel(128):
                    B[128 + i] = u[127 - i]

    return main


def test_waves_wait_for_themselves():
    a, b = np.arange(256, dtype=np.float32), np.zeros(256, np.float32)
    simulate(lowered(reversed_by(64), TARGET, CompileOptions()), [a, b], target=TARGET)
    np.testing.assert_array_equal(b, np.concatenate([a[127::-1], a[:127:-1]]))


def test_groups_of_several_waves_that_would_wait_are_refused():
    with pytest.raises(NoLowering) as error:
        lowered(reversed_by(128), TARGET, CompileOptions())
    assert (
        "T.ws: a group of 128 threads has no barrier on this machine, which joins all threads of a block or 64"
        == error.value.message
    )


def test_lanes_of_the_matrix_instruction_are_those_of_a_wave():
    assert {64} == {layout.threads for layout in (MATRIX_ATOM.a, MATRIX_ATOM.b, MATRIX_ATOM.c)}
    assert (16, 4) == (MATRIX_ATOM.c.values, MATRIX_ATOM.a.values)
    lane, value = 37, 6  # D[8 (v div 4) + 4 (l div 32) + v mod 4, l mod 32] and A[l mod 32, 4 (l div 32) + v]
    assert [14, 5] == MATRIX_ATOM.c.table[lane, value].tolist()
    assert [5, 6] == MATRIX_ATOM.a.table[lane, 2].tolist()
