import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.autotuner.param import AutotuneResult, CompileArgs, ProfileArgs


@T.prim_func
def copy(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
    with T.Kernel(1, threads=8):
        T.copy(A, B)


def test_a_program_is_compiled_under_the_arguments() -> None:
    kernel = CompileArgs(out_idx=[-1], target="cpu", execution_backend="reference").compile_program(copy)
    assert [1] == kernel.out_idx
    assert 3.0 == kernel(np.full(8, 3, np.float32))[0]


def test_arguments_are_equal_by_value_and_stay() -> None:
    assert ProfileArgs(rep=50) == ProfileArgs(rep=50, supply_type=tilelang.TensorSupplyType.Auto)
    assert ProfileArgs() != ProfileArgs(rep=50)
    with pytest.raises(AttributeError):
        CompileArgs().verbose = True


def test_the_result_has_what_a_search_found() -> None:
    assert {"latency", "config", "ref_latency", "func", "kernel"} <= {*dir(AutotuneResult), *AutotuneResult.__annotations__}
