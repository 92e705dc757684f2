import pytest

from tilelang.dtypes import as_dtype
from tilelang.isa.intrinsic import ordered_helpers
from tilelang.targets.cpu.isa.gemm import GemmShape, gemm_routine, rounded_operands

SHAPE = GemmShape(2, 3, 4, 4, 3, 3)


def routine(a, b, c, shape=SHAPE):
    return gemm_routine(as_dtype(a), as_dtype(b), as_dtype(c), shape)


def test_template_arguments_are_sizes_strides_and_transposes():
    assert "2, 3, 4, 2, 4, 3, true, true" == GemmShape(2, 3, 4, 2, 4, 3, True, True).arguments()


def test_a_routine_has_a_call_and_its_helpers():
    found = routine("float32", "float32", "float32")
    load = "tl::load_single<float, float, float>"
    call = found.texts["cpp"].format("a", "b", "c", "clear")
    sizes = "2, 3, 4, 4, 3, 3, false, false"
    assert f"tl::gemm<tl::multiply_add<float>, {load}, {load}, {sizes}>(a, b, c, clear)" == call
    names = [helper.name for helper in ordered_helpers([found.helpers["cpp"]])]
    assert "gemm" in names
    assert "bfloat16" not in names


@pytest.mark.parametrize(
    "dtypes",
    [
        ("int8", "float16", "float32"),
        ("int8", "int8", "int8"),
        ("int64", "int64", "int32"),
        ("float64", "float64", "float32"),
        ("float16", "float16", "float8_e5m2"),
        ("float16x2", "float16x2", "float32"),
    ],
)
def test_dtypes_without_a_micro_kernel_have_no_routine(dtypes):
    assert routine(*dtypes) is None


def test_a_float32_operand_takes_the_dtype_of_a_16_bit_one():
    single, half = as_dtype("float32"), as_dtype("float16")
    assert (half, half) == rounded_operands(single, half) == rounded_operands(half, single)
    assert (single, single) == rounded_operands(single, single)
    assert (half, as_dtype("bfloat16")) == rounded_operands(half, as_dtype("bfloat16"))
