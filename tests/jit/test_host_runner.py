from collections.abc import Callable

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.errors import ArgumentError, DeviceAssertError, OptionError
from tilelang.ir.func import PrimFunc

Make = Callable[..., PrimFunc]


def test_a_call_runs_and_is_done_when_it_returns(vector_add: Make) -> None:
    kernel = tilelang.compile(vector_add(100), out_idx=-1, target="cpu")
    a = np.arange(100, dtype=np.float32)
    np.testing.assert_array_equal(2 * a, kernel(a, a))
    kernel.synchronize()
    with pytest.raises(ArgumentError):
        kernel(a)


def test_a_failed_assertion_has_its_message_and_line_of_the_user() -> None:
    @T.prim_func
    def positive(A: T.Tensor((4,), "float32")):
        with T.Kernel(4) as bx:
            T.device_assert(A[bx] > 0, "not positive")

    kernel = tilelang.compile(positive, target="cpu")
    kernel(np.ones(4, np.float32))
    with pytest.raises(DeviceAssertError, match="not positive") as caught:
        kernel(np.zeros(4, np.float32))
    assert caught.value.loc is not None


def test_what_only_gpus_have_is_refused_on_the_cpu(vector_add: Make) -> None:
    kernel = tilelang.compile(vector_add(8), target="cpu")
    for asked, attempt in {
        "get_ptx": kernel.get_ptx,
        "get_sass": kernel.get_sass,
        "get_cubin": kernel.get_cubin,
        "resources": lambda: kernel.resources,
        "warnings": lambda: kernel.warnings,
    }.items():
        with pytest.raises(OptionError) as caught:
            attempt()
        assert (
            f"{asked}: the kernel is not compiled for a GPU: target 'cpu', execution_backend 'cc'"
        ) == caught.value.message
