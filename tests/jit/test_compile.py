from collections.abc import Callable

import numpy as np
import pytest

import tilelang.language as T
from tilelang.errors import NoLowering, OptionError, ToolchainError
from tilelang.ir.func import PrimFunc
from tilelang.jit.compile import compile, lower, par_compile

Make = Callable[..., PrimFunc]


def test_compile_takes_every_published_option_in_order(vector_add: Make) -> None:
    configs = {"tl.enable_fast_math": True, "tl.disable_tma_lower": True}
    kernel = compile(vector_add(8), [-1], "tvm_ffi", "cpu", "c", False, configs, ["-DNDEBUG"])
    assert ([2], "cc", "cpu", True) == (kernel.out_idx, kernel.execution_backend, str(kernel.target), kernel.options.fast_math)
    assert ("-DNDEBUG",) == kernel.options.compile_flags
    assert [2.0] * 8 == kernel(np.ones(8, np.float32), np.ones(8, np.float32)).tolist()
    (many,) = par_compile([vector_add(8)], [-1], "cython", "cpu", "c", None, configs, "-DNDEBUG", 1, True)
    assert many is not None
    assert (kernel.out_idx, kernel.options) == (many.out_idx, many.options)


@pytest.mark.parametrize("backend", ["dlpack", "torch", "nvrtc", "bogus"])
def test_an_execution_backend_that_is_none_of_the_target_is_refused(vector_add: Make, backend: str) -> None:
    with pytest.raises(ValueError, match=f"Invalid execution backend '{backend}'"):
        compile(vector_add(8), execution_backend=backend, target="cpu")


@pytest.mark.parametrize("out_idx", [3, -4, [0, 0], [2, -1], "C", 1.5])
def test_outputs_that_are_none_are_refused(vector_add: Make, out_idx: object) -> None:
    with pytest.raises(ValueError, match="add: out_idx="):
        compile(vector_add(8), out_idx)  # type: ignore[arg-type]


def test_a_target_that_is_not_there_is_refused_before_anything_is_compiled(vector_add: Make) -> None:
    with pytest.raises(NoLowering, match="target: 'metal' is not available"):
        compile(vector_add(8), target="metal")


def test_an_unknown_key_is_refused(vector_add: Make) -> None:
    with pytest.raises(OptionError, match="unknown key 'tl.enable_fast_maths'"):
        compile(vector_add(8), pass_configs={"tl.enable_fast_maths": True})


def test_a_missing_compiler_is_one_error_with_the_kernel(vector_add: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(ToolchainError, match="CXX=no-such-compiler: no such program"):
        compile(vector_add(8))


def test_the_reference_needs_no_compiler(vector_add: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    one = np.ones(8, np.float32)
    assert [2.0] * 8 == compile(vector_add(8), out_idx=-1, execution_backend="reference")(one, one).tolist()


def test_many_kernels_are_compiled_at_once(vector_add: Make) -> None:
    kernels = par_compile([vector_add(n) for n in range(11, 16)], out_idx=-1, num_workers=3)
    for n, kernel in enumerate(kernels, start=11):
        assert kernel is not None
        assert [2.0] * n == kernel(np.ones(n, np.float32), np.ones(n, np.float32)).tolist()


def test_errors_of_many_are_raised_or_left_out(vector_add: Make) -> None:
    funcs = [vector_add(8), "no kernel"]
    with pytest.raises(OptionError, match="compile: expected a kernel, got str"):
        par_compile(funcs)  # type: ignore[arg-type]
    first, second = par_compile(funcs, ignore_error=True)  # type: ignore[arg-type]
    assert first is not None
    assert None is second


def test_invalid_options_of_par_compile_are_errors(vector_add: Make) -> None:
    with pytest.raises(OptionError, match="num_workers must be a positive integer, got -1"):
        par_compile([vector_add(8)], num_workers=-1)
    with pytest.raises(OptionError, match="num_workers must be a positive integer, got '2'"):
        par_compile([vector_add(8)], num_workers="2")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="expected a list, got PrimFunc"):
        par_compile(vector_add(8))  # type: ignore[arg-type]


def test_lowering_gives_texts_without_a_compiler(vector_add: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    lowered = lower(vector_add(21), "c", "c", False, False, False)
    assert 'extern "C" int32_t add(' in lowered.kernel_source
    assert "# thread level" in lowered.ir
    assert ("cpu", 3) == (str(lowered.target), len(lowered.params))
    assert lowered.kernel_source == str(lowered)
    assert (None, None) == (lowered.host_mod, lowered.device_mod)
    with pytest.raises(OptionError, match="lower: expected a kernel, got str"):
        lower("add")  # type: ignore[arg-type]


def test_lowering_compiles_with_enable_device_compile(vector_add: Make) -> None:
    assert lower(vector_add(21), target="c", enable_device_compile=True).device_mod is not None


def test_fast_math_lets_sums_be_reordered() -> None:
    @T.prim_func
    def total(A: T.Tensor((1000,), "float32"), C: T.Tensor((1,), "float32")):
        with T.Kernel(1):
            acc = T.alloc_var("float32", 0)
            for i in T.serial(1000):
                acc += A[i]
            C[0] = acc

    a = np.random.standard_normal(1000).astype(np.float32)
    fast = compile(total, out_idx=-1, pass_configs={"tl.enable_fast_math": True})
    np.testing.assert_allclose(fast(a), a.sum(dtype=np.float64), rtol=1e-4, atol=1e-4)
