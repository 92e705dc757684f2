from collections.abc import Callable

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.errors import ProgramError
from tilelang.ir.func import PrimFunc

Make = Callable[..., PrimFunc]


@pytest.mark.parametrize("target", ["cpu", "sm_80"])
def test_the_interpreter_takes_and_gives_host_arrays(vector_add: Make, target: str) -> None:
    kernel = tilelang.compile(vector_add(100), out_idx=-1, target=target, execution_backend="reference")
    a = np.arange(100, dtype=np.float32)
    np.testing.assert_array_equal(2 * a, kernel(a, a))
    kernel.synchronize()
    assert "" == kernel.get_host_source()


def test_it_refuses_what_the_compiler_refuses() -> None:
    @T.prim_func
    def racing(A: T.Tensor((8,), "int32")):
        with T.Kernel(1):
            tile = T.alloc_shared((9,), "int32")
            for i in T.Parallel(8):
                tile[i] = tile[i + 1]

    with pytest.raises(ProgramError):
        tilelang.compile(racing, target="cpu", execution_backend="reference")
