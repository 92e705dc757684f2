import dataclasses
import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tunable import double

import tilelang
import tilelang.language as T
from tilelang.errors import ArgumentError, OptionError, StagingError, TuningError
from tilelang.tune import tuner
from tilelang.tune.autotune import autotune
from tilelang.tune.inputs import set_autotune_inputs
from tilelang.tune.settings import Settings
from tilelang.tune.tuner import AutoTuner

QUICK: dict[str, Any] = {"warmup": 1, "rep": 5}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path))
    return tmp_path


def scale(block=None, n=64):
    return double(n, block)


def tuned(function: Any = scale, configs: Any = None, **profile: Any) -> AutoTuner:
    made = AutoTuner.from_kernel(kernel=function, configs=configs or [{"block": 16}, {"block": 32}])
    return made.set_compile_args(out_idx=[-1], target="cpu").set_profile_args(**{**QUICK, **profile})


def test_a_plain_function_is_tuned_step_by_step() -> None:
    mine = tuned(ref_prog=lambda a: a * 2)
    result = mine.run(warmup=1, rep=5)
    assert result.config in ({"block": 16}, {"block": 32})
    assert 0 < result.latency
    assert 0 < (result.ref_latency or 0)
    assert not result.reloaded
    kernel = result.kernel
    assert kernel is not None
    assert (result.config, result.latency, result.ref_latency) == (kernel.config, kernel.latency, kernel.ref_latency)
    assert result.func is kernel.prim_func
    assert mine.report() == result.report()
    np.testing.assert_array_equal(kernel(np.ones(64, np.float32)), np.full(64, 2))


def test_stored_results_are_loaded_by_the_next_tuner(monkeypatch: pytest.MonkeyPatch) -> None:
    first = tuned().run()

    def search(*args: Any) -> None:
        raise AssertionError("searched again")

    monkeypatch.setattr(tuner, "search", search)
    again = tuned().run()
    assert again.reloaded
    assert first.measured == again.measured
    assert (first.config, first.report()) == (again.config, again.report())
    assert again.kernel is not None
    assert first.config == again.kernel.config


def test_a_jit_function_is_tuned_with_its_options() -> None:
    @tilelang.jit(out_idx=[1], target="cpu")
    def made(n, block=None):
        return double(n, block)

    result = AutoTuner(made, {"block": [16]}).set_profile_args(**QUICK).set_kernel_parameters(48).run()
    assert result.kernel is not None
    assert [1] == result.kernel.out_idx
    assert (48,) == result.kernel(np.ones(48, np.float32)).shape


def test_an_eager_function_is_tuned_with_the_inputs_that_are_set() -> None:
    @tilelang.jit(target="cpu")
    def triple(A, block: int = None):
        N = T.const("N")
        A: T.Tensor((N,), T.float32)
        B = T.empty((N,), T.float32)
        with T.Kernel(T.ceildiv(N, block)) as bx:
            for i in T.Parallel(block):
                B[bx * block + i] = A[bx * block + i] * 3
        return B

    with set_autotune_inputs(np.ones(32, np.float32)):
        result = AutoTuner(triple, {"block": [8, 16]}).set_profile_args(**QUICK, ref_prog=lambda a: a * 3).run()
    assert 2 == len(result.measured) + len(result.rejected)
    assert "the reference '<lambda>'" == result.compared


# -- mistakes ------------------------------------------------------------------------------------------------
def test_what_is_no_function_is_refused() -> None:
    with pytest.raises(StagingError) as caught:
        AutoTuner.from_kernel(double(8), [])
    assert (
        "AutoTuner needs a function that makes kernels, got PrimFunc\n"
        "hint: pass a function marked @tilelang.jit, or one that returns a prim_func"
    ) == str(caught.value)


def test_a_report_needs_a_run() -> None:
    with pytest.raises(OptionError) as caught:
        tuned().report()
    assert "AutoTuner.report: nothing has been tuned yet\nhint: call run() first" == str(caught.value)


def test_the_options_of_a_run_are_those_of_the_decorator_by_name_or_in_their_order() -> None:
    mine = AutoTuner(scale, [{"block": 16}]).set_compile_args(out_idx=[-1], target="cpu")
    result = mine.set_profile_args(1, 5, ref_prog=lambda a: a * 2).run()
    assert 0 < (result.ref_latency or 0)
    options = [name for name in inspect.signature(autotune).parameters if name != "do_not_specialize"][2:]
    assert options == [field.name for field in dataclasses.fields(Settings)]


def test_an_option_that_a_run_does_not_have_is_refused_with_those_there_are() -> None:
    with pytest.raises(OptionError, match="set_profile_args: no option 'repeat'\nhint: there are warmup, rep, timeout, "):
        tuned(repeat=3)


def test_missing_arguments_are_errors_of_the_call() -> None:
    with pytest.raises(ArgumentError, match="needs_n: missing a required argument: 'n'"):
        tuned(lambda_with_n()).run()


def lambda_with_n() -> Any:
    def needs_n(n, block=None):
        return double(n, block)

    return needs_n


def test_simulated_kernels_have_no_times() -> None:
    mine = AutoTuner(scale, [{"block": 16}]).set_compile_args(target="sm_80", execution_backend="simulator")
    with pytest.raises(OptionError, match="autotune: 'scale' cannot be tuned with execution_backend 'simulator'"):
        mine.run()


def test_kernels_that_cannot_be_compiled_are_reported_with_our_errors() -> None:
    def wrong(block=None):
        @T.prim_func
        def wrong(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
            with T.Kernel(1):
                S = T.alloc_shared((block, 2), "float32")
                T.copy(A, S)

        return wrong

    with pytest.raises(TuningError) as caught:
        tuned(wrong).run()
    lines = str(caught.value).splitlines()
    assert "autotune: none of 2 configurations of 'wrong' can be used" == lines[0]
    assert lines[1].startswith("note: 1 failed to compile: T.copy: ")
    assert "hint: call the function with one of these configurations to see the whole error" == lines[-1]


def test_a_run_takes_the_published_arguments() -> None:
    mine = AutoTuner.from_kernel(kernel=scale, configs=[{"block": 16}, {"block": 32}])
    mine.set_compile_args([-1], "cpu", "auto", None, False, {"tl.disable_tma_lower": True})
    mine.set_profile_args(backend="event", cache_input_tensors=True)
    result = mine.run(1, 3, 60, True, True, 2, [0], False, True, 1.5)
    assert mine().config == result.config
    assert result.kernel is not None
    assert (result.kernel.prim_func, result.kernel.kernel_source) == (result.func, result.libcode)
    with pytest.raises(OptionError, match="early_stop_factor must be a number of at least 1, got 0"):
        mine.run(early_stop_factor=0)
