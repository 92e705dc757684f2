import numpy as np
import pytest

import tilelang.language as T
from tilelang.errors import NoLowering
from tilelang.jit.program import lowered
from tilelang.options import CompileOptions
from tilelang.sim.run import simulate
from tilelang.targets.target import Target

TARGET = Target("hip", "gfx942")


def reversed_by(first: int):
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


def test_groups_of_one_wave_share_memory():
    a, b = np.arange(256, dtype=np.float32), np.zeros(256, np.float32)
    simulate(lowered(reversed_by(64), TARGET, CompileOptions()), [a, b], target=TARGET)
    np.testing.assert_array_equal(b, np.concatenate([a[127::-1], a[:127:-1]]))


def test_groups_of_several_waves_are_refused():
    with pytest.raises(NoLowering) as error:
        lowered(reversed_by(128), TARGET, CompileOptions())
    assert (
        "T.ws: a group of 128 threads has no barrier on AMD GPUs, which join all threads of a block or those of one wave"
        == error.value.message
    )
