import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tunable import double

import tilelang
import tilelang.language as T
from tilelang.errors import ArgumentError, OptionError, StagingError
from tilelang.tune import autotune as module
from tilelang.tune.autotune import TunedFunction, autotune

QUICK: dict[str, Any] = {"warmup": 1, "rep": 5}
ONES = np.ones(64, np.float32)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path))
    return tmp_path


def scaling(configs: Any = None, **options: Any) -> TunedFunction:
    @autotune(configs=configs or {"block": [16, 32]}, **{**QUICK, **options})
    @tilelang.jit(out_idx=[-1], target="cpu")
    def scale(n, block=None):
        """Doubles."""
        return double(n, block)

    made: TunedFunction = scale
    return made


def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of what is tuned from now on."""
    tuned: list[str] = []
    tune = module.tune

    def count(subject: Any, *rest: Any) -> Any:
        tuned.append(subject.name)
        return tune(subject, *rest)

    monkeypatch.setattr(module, "tune", count)
    return tuned


def test_a_call_returns_the_fastest_kernel_with_its_latency(monkeypatch: pytest.MonkeyPatch) -> None:
    tuned = counted(monkeypatch)
    scale = scaling()
    kernel = scale(64)
    assert kernel.config in ({"block": 16}, {"block": 32})
    assert 0 < kernel.latency
    assert None is kernel.ref_latency
    np.testing.assert_array_equal(kernel(ONES), ONES * 2)
    assert kernel is scale(n=64)
    assert kernel is scale.compile(64)
    assert kernel is scale.tune(64).kernel
    assert scale.tune(64).report() == scale.report(64)
    assert kernel.get_kernel_source() == scale.get_kernel_source(64)
    assert ["scale"] == tuned
    assert ("scale", "Doubles.") == (scale.__name__, scale.__doc__)


def test_a_function_without_tunables_is_not_tuned(monkeypatch: pytest.MonkeyPatch) -> None:
    tuned = counted(monkeypatch)
    scale = scaling(lambda tunables: [{"block": 16}] if "block" in tunables else [{}])
    scale(64, block=32)(ONES)
    assert [] == tuned


def test_a_call_that_gives_all_tunables_is_not_tuned(monkeypatch: pytest.MonkeyPatch) -> None:
    tuned = counted(monkeypatch)
    scale = scaling()
    kernel = scale(64, block=8)
    assert (None, None) == (kernel.config, kernel.latency)
    assert kernel is scale.compile(64, 8)
    assert "double" == scale.get_tir(64, block=8).name
    assert [] == tuned


def test_a_call_with_the_fastest_tunables_returns_a_kernel_without_latency() -> None:
    scale = scaling([{"block": 16}])
    before = scale(64, block=16)
    assert {"block": 16} == scale(64).config
    assert [(None, None)] * 2 == [(kernel.config, kernel.latency) for kernel in (before, scale(64, block=16))]


def test_equal_calls_are_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    subjects: list[Any] = []
    original = module.Subject

    def counted_subject(*parts: Any) -> Any:
        subjects.append(parts)
        return original(*parts)

    monkeypatch.setattr(module, "Subject", counted_subject)
    scale = scaling([{"block": 16}], do_not_specialize=["block"])
    given = scale(64, block=8)
    assert given is scale(64, block=8)
    assert 1 == len(subjects)
    assert given is scale(n=64, block=8)
    assert (None, 2) == (given.latency, len(subjects))
    tuned = scale(64)
    assert scale(64, block=8).latency == tuned.latency  # which counts as the same call
    assert scale(64, block=8) is scale(64, block=8)
    assert tuned is scale(64)
    assert 4 == len(subjects)
    with pytest.raises(ArgumentError, match="unexpected keyword argument 'blok'"):
        scale(64, blok=8)


def test_pass_configs_are_tuned() -> None:
    on = {"block": 16, "pass_configs": {"tl.enable_fast_math": True}}
    kernel = scaling([on])(64)
    assert on == kernel.config
    assert (("tl.enable_fast_math", True),) == kernel.options.pass_configs


def test_an_eager_function_runs_with_the_fastest(monkeypatch: pytest.MonkeyPatch) -> None:
    tuned = counted(monkeypatch)

    @tilelang.autotune(configs={"block": [8, 16]}, ref_prog=lambda a, by: a * by, **QUICK)
    @tilelang.jit(target="cpu")
    def scale(A, by: T.float32, block: int = None):
        N = T.const("N")
        A: T.Tensor((N,), T.float32)
        B = T.empty((N,), T.float32)
        with T.Kernel(T.ceildiv(N, block)) as bx:
            for i in T.Parallel(block):
                B[bx * block + i] = A[bx * block + i] * by
        return B

    np.testing.assert_array_equal(scale(ONES, 3.0), ONES * 3)
    np.testing.assert_array_equal(scale(ONES * 2, 5.0), ONES * 10)
    assert ["scale"] == tuned
    assert scale.compile(ONES, 1.0).config == scale.tune(ONES, 1.0).config
    np.testing.assert_array_equal(scale(ONES[:32], 3.0), ONES[:32] * 3)
    assert ["scale", "scale"] == tuned
    np.testing.assert_array_equal(scale(ONES, 3.0, block=4), ONES * 3)


def test_concurrent_calls_tune_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tuned = counted(monkeypatch)
    scale = scaling()
    kernels: list[Any] = []
    threads = [threading.Thread(target=lambda: kernels.append(scale(64))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ["scale"] == tuned
    assert 1 == len(set(map(id, kernels)))


def test_gemms_are_tuned_without_configurations() -> None:
    @tilelang.autotune
    @tilelang.jit(target="cpu")
    def product(M, N, block_M=None, block_N=None):
        raise NotImplementedError

    with pytest.raises(tilelang.TuningError, match="none of 8 configurations of 'product' can be used"):
        product(300, 300)


def test_functions_without_jit_are_refused() -> None:
    with pytest.raises(StagingError) as caught:
        autotune(configs=[])(lambda block: None)
    assert isinstance(caught.value, AssertionError)
    with pytest.raises(ValueError, match="needs a function marked @tilelang.jit"):
        autotune(lambda block: None)
    assert (
        "@tilelang.autotune needs a function marked @tilelang.jit, got function\n"
        "hint: write @tilelang.autotune(...) above @tilelang.jit"
    ) == str(caught.value)


def test_invalid_options_are_refused_immediately() -> None:
    with pytest.raises(OptionError) as caught:
        autotune(budget=-3)
    assert "autotune: budget must be a positive number of seconds, got -3" == str(caught.value)


def test_other_tunables_need_configurations() -> None:
    @tilelang.autotune
    @tilelang.jit(target="cpu")
    def scale(n, block=None):
        raise NotImplementedError

    with pytest.raises(OptionError, match="'scale' has no configurations, and none are known for its tunables block"):
        scale(64)


def scaling_in_two(do_not_specialize: Any = None) -> TunedFunction:
    @autotune(configs={"block": [16, 32], "unused": [1]}, do_not_specialize=do_not_specialize, **QUICK)
    @tilelang.jit(out_idx=[-1], target="cpu")
    def scale(n, block=8, unused=1):
        return double(n, block)

    made: TunedFunction = scale
    return made


def test_a_call_that_gives_one_tunable_is_not_tuned_if_the_others_have_values(monkeypatch: pytest.MonkeyPatch) -> None:
    tuned = counted(monkeypatch)
    scale = scaling_in_two()
    for kernel in (scale(64, 4), scale(64, unused=3), scale.compile(n=64, block=16)):
        assert (None, None) == (kernel.config, kernel.latency)
    assert [] == tuned
    assert scale(64).config["block"] in (16, 32)
    assert ["scale"] == tuned


def test_a_call_that_leaves_a_tunable_without_a_value_tunes_that_one() -> None:
    @autotune(configs={"block": [16, 32], "unused": [1, 2]}, **QUICK)
    @tilelang.jit(out_idx=[-1], target="cpu")
    def scale(n, block=None, unused=1):
        return double(n, block)

    assert 2 == scale(64, unused=2).config["unused"]


def test_do_not_specialize_shares_results(monkeypatch: pytest.MonkeyPatch) -> None:
    tuned = counted(monkeypatch)
    scale = scaling_in_two(["n"])
    first, other = scale(64), scale(n=96)
    assert ["scale"] == tuned
    assert (first.config, first.latency) == (other.config, other.latency)
    assert first is scale(64)
    more = np.ones(96, np.float32)
    np.testing.assert_array_equal(other(more), more * 2)
    np.testing.assert_array_equal(scale.compile(96)(more), more * 2)


def test_a_kernel_that_takes_scalars_needs_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    @autotune(configs={"block": [16, 32]}, **QUICK)
    @tilelang.jit(target="cpu")
    def scale(n, block=None):
        @T.prim_func
        def scale(A: T.Tensor((n,), "float32"), by: T.float32):
            with T.Kernel(T.ceildiv(n, block)) as bx:
                for i in T.Parallel(block):
                    A[bx * block + i] *= by

        return scale

    with pytest.raises(ValueError, match="set_autotune_inputs"):
        scale(64)
    with tilelang.autotuner.set_autotune_inputs(ONES.copy(), 3.0):
        kernel = scale(64)
    mine = ONES.copy()
    kernel(mine, 3.0)
    np.testing.assert_array_equal(mine, ONES * 3)
