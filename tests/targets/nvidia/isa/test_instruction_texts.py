"""The texts compile with those of all other instructions in test_catalogue."""

from tilelang.dtypes import as_dtype
from tilelang.isa.intrinsic import Template
from tilelang.targets.gpu.isa.extern import call_extern
from tilelang.targets.gpu.isa.warp import redux, shuffle
from tilelang.targets.nvidia.codegen.cuda_dialect import CUDA
from tilelang.targets.nvidia.isa.instruction_texts import TEXTS


def test_functions_of_the_user_are_called_by_name():
    assert "mine::f<int>(x, y)" == CUDA.call(call_extern(None, "mine::f<int>", 2)).format("x", "y")
    assert "(float)(g())" == CUDA.call(call_extern(as_dtype("float16"), "g", 0)).format()


def test_texts_depend_on_the_dtype():
    text = CUDA.call(shuffle("xor", as_dtype("float16"))).format("mask", "x", "1", "32")
    assert "(float)__shfl_xor_sync(mask, x, 1, 32)" == text
    assert "(int32_t)__reduce_or_sync(m, (uint32_t)(x))" == CUDA.call(redux("or", as_dtype("int32"))).format("m", "x")


def test_helpers_define_what_the_texts_call():
    for text in TEXTS.values():
        if isinstance(text, Template) and text.helper is not None:
            assert text.text.startswith(text.helper.name)
            assert f" {text.helper.name}(" in text.helper.text
