from collections.abc import Iterator

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.codegen import postprocess
from tilelang.engine.callback import (
    register_c_postproc,
    register_c_postproc_callback,
    register_cuda_postproc,
    register_cuda_postproc_callback,
    register_hip_postproc_callback,
)
from tilelang.errors import ProgramTypeError
from tilelang.targets.target import Target


@T.prim_func
def double(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
    with T.Kernel(1, threads=8):
        for i in T.Parallel(8):
            B[i] = A[i] * T.float32(2)


@pytest.fixture(autouse=True)
def nothing_registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(postprocess, "_REGISTERED", {})
    yield


def run() -> np.ndarray:
    kernel = tilelang.compile(double, out_idx=[1], target="cpu", execution_backend="cc")
    result: np.ndarray = kernel(np.ones(8, np.float32))
    return result


def test_what_is_compiled_is_what_the_function_returns() -> None:
    before = run()

    def triple(code: str, target: Target) -> str:
        assert "c" == target.kind.name
        return code.replace("2.0f", "3.0f").replace("2.f", "3.f")

    register_c_postproc(triple)
    changed = run()
    register_c_postproc(lambda code, target: code)
    assert [2.0, 3.0, 2.0] == [float(result[0]) for result in (before, changed, run())]


def test_the_source_of_a_gpu_is_changed_and_compiled() -> None:
    seen = []

    @register_cuda_postproc_callback
    def note(code: str, target: Target) -> str:
        seen.append(target.arch)
        return f"// changed\n{code}"

    kernel = tilelang.compile(double, target={"kind": "cuda", "arch": "sm_80"})
    assert kernel.get_kernel_source().startswith("// changed\n")
    assert {"sm_80"} == set(seen)
    assert str(tilelang.lower(double, target="cuda")).startswith("// changed\n")

    register_cuda_postproc(lambda code, target: code.replace(";", "@", 1))
    with pytest.raises(RuntimeError, match="rejected"):
        tilelang.compile(double, target={"kind": "cuda", "arch": "sm_80"})


def test_functions_are_registered_bare_and_with_parentheses() -> None:
    def same(code: str, target: Target) -> str:
        return code

    assert same is register_cuda_postproc_callback(same)
    assert same is register_c_postproc_callback()(same)
    assert same is register_hip_postproc_callback(override=False)(same)
    assert {"cuda": same, "cpu": same, "hip": same} == postprocess._REGISTERED


def test_a_second_function_needs_to_say_that_it_replaces_the_first() -> None:
    register_cuda_postproc(lambda code, target: code)
    with pytest.raises(ValueError, match="register_cuda_postproc: a function is registered already") as caught:
        register_cuda_postproc(lambda code, target: code, override=False)
    assert isinstance(caught.value, RuntimeError)
    assert "pass override=True to replace it" == caught.value.hint


def test_what_is_no_function_or_gives_no_text_is_told() -> None:
    with pytest.raises(ProgramTypeError, match="expected a function of the source and the target, got 3"):
        register_cuda_postproc(3)
    register_c_postproc(lambda code, target: None)
    with pytest.raises(ProgramTypeError, match="register_c_postproc: the function has to return the source"):
        run()
