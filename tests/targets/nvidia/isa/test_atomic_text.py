import itertools

import pytest
from device_text import compile_cuda, cuda_source, needs_cuda_compiler

from tilelang.dtypes import SCALARS, as_dtype
from tilelang.targets.nvidia.isa.atomic import OPERATIONS, atomic
from tilelang.targets.nvidia.isa.atomic_text import ORDERS, SCOPES, operation_text, suffix, vector_text
from tilelang.targets.nvidia.isa.types import cuda_type


def text(op, dtype, order="relaxed", scope="gpu"):
    return operation_text(op, as_dtype(dtype), order, scope)


def test_what_the_compilers_have_is_called_by_its_name():
    assert "atomicAdd({0}, {1})" == text("add", "float32").text
    assert "atomicMax_block({0}, {1})" == text("max", "int32", scope="block").text
    assert "(int64_t)atomicAdd((unsigned long long*)({0}), (unsigned long long)({1}))" == text("add", "int64").text


def test_what_they_lack_is_a_loop_around_compare_and_swap():
    for op, dtype in (("max", "float32"), ("add", "int8"), ("min", "float16"), ("add", "float8_e4m3fn")):
        assert "tl_atomic_update_gpu" in text(op, dtype).helper.text
    assert "atom.relaxed.gpu.add.noftz.f16" in text("add", "float16").helper.text


def test_orders_are_fences_of_the_scope():
    assert "__threadfence_system()" in text("add", "int32", "release", "system").helper.text
    assert "fence.sc.gpu" in text("add", "int32", "seq_cst").helper.text
    assert "ld.acquire.cta" in text("load", "int32", "acquire", "block").helper.needs[0].text
    assert ("", "_acq_rel", "_system", "_release_block") == (
        suffix("relaxed", "gpu"),
        suffix("acq_rel", "gpu"),
        suffix("relaxed", "system"),
        suffix("release", "block"),
    )


def test_vectors_are_one_instruction_where_the_gpu_has_it():
    assert "red.relaxed.gpu.global.add.v4.f32" in vector_text(as_dtype("float32x4"), "relaxed", "gpu").helper.text
    assert "red.relaxed.gpu.global.add.noftz.f16x2" in vector_text(as_dtype("float16x2"), "relaxed", "gpu").helper.text


@needs_cuda_compiler
@pytest.mark.parametrize("architecture", ["sm_75", "sm_90a"])  # where texts differ
def test_every_operation_compiles(architecture):
    helpers, functions = [], []
    rows = [(op, dtype, "relaxed", "gpu") for op in OPERATIONS for dtype in SCALARS.values()]
    rows += [
        (op, as_dtype(name), order, scope)
        for (op, name), (order, scope) in itertools.product(
            [("add", "int32"), ("max", "float16"), ("cas", "float64"), ("load", "uint8"), ("store", "float16")],
            itertools.product(ORDERS, SCOPES),
        )
    ]
    for op, dtype, order, scope in rows:
        if op in ("and", "or", "xor") and not dtype.is_int:
            continue
        record, kind = atomic(op, dtype, order, scope), cuda_type(dtype)
        operands = "" if op == "load" else f", {kind.value} x"
        call = record.texts["cuda"].format("p", "x", "x")
        head = f"{kind.value if record.result else 'void'} f{len(functions)}({kind.name}* p{operands})"
        functions.append(f"__device__ {head} {{ {'return ' if record.result else ''}{call}; }}")
        helpers += [record.helpers.get("cuda"), kind.helper]
    assert compile_cuda(cuda_source(helpers, functions), architecture)
