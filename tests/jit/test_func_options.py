import pytest

import tilelang
import tilelang.language as T
from tilelang.errors import OptionError
from tilelang.ir.func import PrimFunc
from tilelang.jit.func_options import options_of

FAST, TMA = "tl.enable_fast_math", "tl.disable_tma_lower"


def annotated() -> PrimFunc:
    @T.prim_func
    def main(A: T.Tensor((8,), "float32")) -> None:
        T.annotate_pass_configs({tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True, TMA: True})
        T.annotate_compile_flags("-DONE=1")
        T.annotate_compile_flags(["-DTWO=2"])
        with T.Kernel(1, threads=32):
            T.clear(A)

    return main


def test_the_function_may_annotate_options() -> None:
    options = options_of(annotated())
    assert ((TMA, True), (FAST, True)) == options.pass_configs
    assert ("-DONE=1", "-DTWO=2") == options.compile_flags


def test_options_of_the_caller_take_precedence() -> None:
    options = options_of(annotated(), {FAST: False}, "-O1", verbose=True)
    assert ((TMA, True), (FAST, False)) == options.pass_configs
    assert ("-DONE=1", "-DTWO=2", "-O1") == options.compile_flags
    assert options.verbose


def test_kernels_are_compiled_with_them() -> None:
    kernel = tilelang.compile(annotated(), target="cpu", pass_configs={TMA: False})
    assert kernel.options.fast_math
    assert ("-DONE=1", "-DTWO=2") == kernel.options.compile_flags


def test_invalid_options_of_the_caller_are_errors() -> None:
    with pytest.raises(OptionError, match="pass_configs"):
        options_of(annotated(), {"tl.no_such_switch": True})
