"""Each mistake in compiling and calling that programs catch: as which exception, and with which words.

The texts are regular expressions that published programs and tests search for.
"""

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from refusals import refusal

import tilelang
import tilelang.language as T
from tilelang.backend.target import determine_target

n = T.dynamic("n")
HERE = {"target": "cpu", "execution_backend": "reference"}  # nothing is compiled


@T.prim_func
def double(A: T.Tensor((n, 4), "float32"), O: T.Tensor((n, 4), "float32")):
    with T.Kernel(n, threads=32) as bx:
        for i in T.Parallel(4):
            O[bx, i] = A[bx, i] * 2


@T.prim_func
def assuming(A: T.Tensor((n,), "float32")):
    with T.Kernel(1, threads=32):
        T.assume(n % 4 == 0)
        A[0] = 1


@T.prim_func
def optional(A: T.Tensor((n,), "float32"), B: T.Tensor((n, 2), "float32"), O: T.Tensor((4,), "float32")):
    with T.Kernel(1, threads=32):
        O[0] = n


@T.prim_func
def returning(A: T.Tensor((4,), "float32")):
    O = T.empty((4,), "float32")
    with T.Kernel(1, threads=32):
        O[0] = A[0]
    return O


@tilelang.jit(**HERE)
def factory(size: int, factor=2):
    @T.prim_func
    def main(A: T.Tensor((size,), "float32")):
        with T.Kernel(1, threads=32):
            A[0] = factor

    return main


@tilelang.jit(**HERE)
def eager(A: T.Tensor((4,), "float32"), factor: int = 2):
    with T.Kernel(1, threads=32):
        A[0] = factor


@tilelang.autotune(configs=[{"factor": 1}, {"factor": 2}])
@tilelang.jit(target="cpu")
def tuned(factor=1):
    @T.prim_func
    def main(A: T.Tensor((4,), "float32"), s: T.int32):
        with T.Kernel(1, threads=32):
            A[0] = s * factor

    return main


@pytest.fixture(scope="module")
def kernels() -> dict[str, Any]:
    return {func.name: tilelang.compile(func, **HERE) for func in (double, assuming, optional)}


a = np.ones((2, 4), np.float32)
row = np.ones(4, np.float32)

CALLS: dict[str, tuple[Callable[[dict[str, Any]], object], tuple[type[Exception], ...], str]] = {
    "a wrong dtype": (lambda k: k["double"](a.astype(np.float64), a), (RuntimeError,), "'A'"),
    "a wrong shape": (lambda k: k["double"](a[:, :3], a), (RuntimeError,), "'A'"),
    "a wrong rank": (lambda k: k["double"](a[0], a), (RuntimeError,), "'A'"),
    "wrong strides": (lambda k: k["double"](np.ones((2, 8), np.float32)[:, ::2], a), (RuntimeError,), "'A'"),
    "sizes that disagree": (lambda k: k["double"](a, np.ones((3, 4), np.float32)), (RuntimeError,), "'O'"),
    "no array": (lambda k: k["double"](a, "x"), (RuntimeError,), "'O'"),
    "None for what is read": (lambda k: k["double"](None, a), (RuntimeError,), "'A'"),
    "None for all that have a size": (
        lambda k: k["optional"](None, None, row), (RuntimeError,), "at least one non-null buffer"
    ),
    "too few arguments": (lambda k: k["double"](a), (ValueError,), "expected 2 arguments"),
    "too many arguments": (lambda k: k["double"](a, a, a), (ValueError,), "expected 2 arguments"),
    "an unknown name of an argument": (lambda k: k["double"](a, P=a), (ValueError,), "'P'"),
    "an assumption that does not hold": (
        lambda k: k["assuming"](np.ones(3, np.float32)), (RuntimeError,), "Assume: n % 4 == 0"
    ),
    "a grid without blocks": (lambda k: k["double"](a[:0], a[:0]), (RuntimeError,), "no blocks"),
    "no value for a size": (lambda k: k["double"].get_profiler().do_bench(), (ValueError,), "'n'"),
}

JITTED: dict[str, tuple[Callable[[Any, Any], object], str]] = {
    "two values": (lambda f, x: f(x, **{next(iter(f.signature.parameters)): x}), "multiple values"),
    "none": (lambda f, x: f(), "missing a required argument"),
    "too many": (lambda f, x: f(x, 2, 3), "too many positional arguments"),
    "an unknown keyword": (lambda f, x: f(x, no_such=3), "'no_such'"),
    "a value that cannot be a key": (lambda f, x: f.func.parse_args(x, factor=bytearray(b"x")), "unhashable"),
}

COMPILING: dict[str, tuple[Callable[[], object], tuple[type[Exception], ...], str]] = {
    "out_idx beside returned tensors": (
        lambda: tilelang.compile(returning, out_idx=[0], target="cpu"), (ValueError,), "Out index conflict"
    ),
    "out_idx out of range": (lambda: tilelang.compile(double, out_idx=[7], target="cpu"), (ValueError,), "out_idx=7"),
    "out_idx twice": (lambda: tilelang.compile(double, out_idx=[1, 1], target="cpu"), (ValueError,), "twice"),
    "an unknown backend": (
        lambda: tilelang.compile(double, execution_backend="dlpack", target="cpu"),
        (ValueError,),
        "Invalid execution backend",
    ),
    "a backend of another target": (
        lambda: tilelang.compile(double, execution_backend="nvrtc", target="cpu"),
        (ValueError,),
        "Invalid execution backend",
    ),
    "an unknown target": (lambda: determine_target("x"), (AssertionError,), "'x'"),
    "a dict that is no target": (
        lambda: tilelang.compile(double, target={"kinds": "cuda"}), (AssertionError,), "valid target config dict"
    ),
    "options in the text of a target": (
        lambda: tilelang.compile(double, target="cuda -arch=sm_90"),
        (AssertionError,),
        "Pass target options as a dict",
    ),
    "a mistyped keyword of compile": (
        lambda: tilelang.compile(double, outidx=[-1]), (TypeError, ValueError), "did you mean 'out_idx'"
    ),
    "a mistyped keyword of jit": (
        lambda: tilelang.jit(outidx=[-1]), (TypeError, ValueError), "did you mean 'out_idx'"
    ),
    "no kernel": (lambda: tilelang.compile(3), (ValueError,), "expected a kernel, got int"),
    "scalars that nobody can make up": (lambda: tuned(), (ValueError,), "set_autotune_inputs"),
    "an absent name": (lambda: tilelang.no_such_name, (AttributeError,), "no_such_name"),
    "an absent name of the language": (lambda: T.no_such_name, (AttributeError,), "no_such_name"),
    "an absent module": (lambda: importlib.import_module("tilelang.no_such"), (ImportError,), "no_such"),
}


@pytest.mark.parametrize("mistake", CALLS)
def test_a_mistake_in_a_call_is_caught_as_programs_catch_it(mistake: str, kernels: dict[str, Any]) -> None:
    call, kinds, text = CALLS[mistake]
    refusal(lambda: call(kernels), kinds, text)


@pytest.mark.parametrize("mistake", JITTED)
def test_arguments_of_jitted_functions_are_refused_as_python_does(mistake: str) -> None:
    call, text = JITTED[mistake]
    refusal(lambda: call(factory, 4), (TypeError,), text)
    refusal(lambda: call(eager, row), (TypeError,), text)


@pytest.mark.parametrize("mistake", COMPILING)
def test_a_mistake_in_compiling_is_caught_as_programs_catch_it(mistake: str, calling_line: None) -> None:
    call, kinds, text = COMPILING[mistake]
    error = refusal(call, kinds, text)
    place = error.loc or error._calling_line
    assert place is not None
    assert place.file.endswith(("test_mistakes_in_calls.py", "importlib/__init__.py"))


def test_a_target_that_nothing_fits_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilelang.targets.nvidia.present_device.present_arch", lambda: None)
    monkeypatch.setenv("TILELANG_DEFAULT_TARGET", "{x")
    refusal(lambda: tilelang.compile(double), (ValueError,), "Use JSON syntax")


def test_a_compiler_that_fails_is_a_runtime_error(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path))
    flags = "--no-such-flag-of-any-compiler"
    refusal(lambda: tilelang.compile(assuming, target="cpu", compile_flags=flags), (RuntimeError,), "no-such-flag")
