"""Every public function besides those of the language, called wrongly: one error of the tree, without our frames.

What is called is read from the modules, so that a new name is tried as soon as it exists.
"""

import importlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from refusals import refusal

import tilelang
import tilelang.language as T
from tilelang.paths import PATHS

MODULES = (
    "tilelang tilelang.profiler tilelang.autotuner tilelang.autotuner.param tilelang.layout tilelang.carver "
    "tilelang.carver.arch tilelang.carver.arch.driver tilelang.carver.roller.rasterization tilelang.utils "
    "tilelang.utils.device tilelang.utils.language tilelang.utils.target tilelang.utils.tensor tilelang.engine "
    "tilelang.engine.callback tilelang.engine.lower tilelang.contrib.nvcc tilelang.testing tilelang.tools tilelang.jit "
    "tilelang.transform tilelang.cache tilelang.math tilelang.backend.target tilelang.quantize tilelang.language.fp8 "
    "tilelang.cuda.intrinsics tilelang.cuda.intrinsics.sparse_layout"
).split()

# what is no function of its own, or takes whatever it is given, and why
LEFT_OUT = {
    "CompileOptions": "a record that compiling makes",
    "Feature": "an enumeration",
    "Hint": "a record that templates make",
    "KernelParam": "a record that kernels make",
    "Lowered": "a record that tilelang.lower makes",
    "Measurement": "a record that a search makes",
    "PassConfigKey": "an enumeration",
    "Rejection": "a record that a search makes",
    "SwizzleMode": "an enumeration",
    "Target": "a record that determine_target makes",
    "TensorSupplyType": "an enumeration",
    "AnalysisResult": "a record that Analyzer makes",
    "AutotuneResult": "a record that a search makes",
    "TuningResult": "a record that a search makes",
}


# functions that take anything, and why
ANYTHING = {
    **dict.fromkeys(("is_equal", "is_float8_dtype", "has_mma_support"), "a question, whose answer is no"),
    **dict.fromkeys(
        (f"is_{kind}_arch" for kind in "ada ampere cdna cpu cuda hopper metal rdna volta".split()),
        "a question, whose answer is no",
    ),
    "simplify_prim_func": "gives back what it is given",
}


def public_functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    seen: set[int] = set()
    language = {*dir(T)}  # a name that is not there is answered by a search for similar ones
    for path in MODULES:
        module = importlib.import_module(path)
        names = [name for name in dir(module) if not name.startswith("_")]
        for name in getattr(module, "__all__", names):
            found = getattr(module, name)
            if "__all__" not in vars(module) and path not in PATHS and getattr(found, "__module__", "") != path:
                continue
            if not callable(found) or inspect.ismodule(found) or name in LEFT_OUT or id(found) in seen:
                continue
            in_language = name in language and getattr(T, name) is found
            is_ours = getattr(found, "__module__", "").startswith("tilelang") and not in_language
            if is_ours and not (isinstance(found, type) and issubclass(found, BaseException)):
                seen.add(id(found))
                yield f"{path}.{name}", found


FUNCTIONS = dict(public_functions())


def bound_methods() -> Iterator[tuple[str, Callable[..., Any]]]:
    @T.prim_func
    def copy(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1):
            T.copy(A, B)

    @tilelang.jit(target="cpu", execution_backend="reference")
    def make(size: int):
        return copy

    kernel = tilelang.compile(copy, target="cpu", execution_backend="reference")
    layout = T.Layout((8,), lambda i: i)
    objects = {
        "kernel": kernel,
        "profiler": kernel.get_profiler(),
        "layout": layout,
        "fragment": T.Fragment((32,), lambda i: (i, 0)),
        "jitted": make,
        "tuned": tilelang.autotune(configs=[{"size": 8}])(make),
        "tuner": tilelang.autotuner.AutoTuner.from_kernel(make, configs=[{"size": 8}]),
        "template": tilelang.carver.MatmulTemplate(64, 64, 64),
    }
    for kind, thing in objects.items():
        for name in dir(type(thing)):
            method = inspect.getattr_static(type(thing), name)
            if not name.startswith("_") and inspect.isfunction(method):
                yield f"{kind}.{name}", getattr(thing, name)


METHODS = dict(bound_methods())
NAMED = FUNCTIONS | METHODS


@pytest.mark.parametrize("name", NAMED)
def test_wrong_calls_are_refused(name: str) -> None:
    function = NAMED[name]
    parameters = inspect.signature(function).parameters.values()
    kinds = [parameter.kind for parameter in parameters]
    if inspect.Parameter.VAR_KEYWORD not in kinds:
        refusal(lambda: function(no_such_keyword=3), (TypeError,), "unexpected keyword|missing a required")
    if inspect.Parameter.VAR_POSITIONAL not in kinds:
        refusal(lambda: function(*range(40)), (TypeError,), "too many positional arguments")
    plain = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    required = [p for p in parameters if p.kind in plain and p.default is p.empty]
    if required and name.rpartition(".")[2] not in ANYTHING:
        refusal(lambda: function(*(object() for _ in required)), ())
