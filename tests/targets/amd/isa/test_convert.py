import itertools

import pytest
from hip_text import assembly_of, function_of, hip_source, needs_clang

from tilelang.dtypes import SCALARS, DType, as_dtype
from tilelang.errors import NoLowering
from tilelang.targets.amd.isa.convert import CONVERSIONS
from tilelang.targets.amd.isa.types import hip_type

VECTORS = (
    ("float32x4", "float16x4"),
    ("float32x2", "bfloat16x2"),
    ("float32x4", "float8_e4m3fnx4"),
    ("float16x8", "float32x8"),
    ("float8_e4m3fnuzx4", "float32x4"),
    ("float8_e5m2x4", "float16x4"),
    ("int8x4", "float16x4"),
    ("int4x8", "int8x8"),
)


def functions(pairs):
    for number, (source, destination) in enumerate(pairs):
        text, taken, made = CONVERSIONS.cast(source, destination), hip_type(source), hip_type(destination)
        helpers = [text.helper, taken.helper, made.helper]
        yield helpers, function_of(f"f{number}", made.name, [taken.name], text.format("a[i]"))


def compiled(pairs, arch: str) -> str:
    rows = list(functions(pairs))
    return assembly_of(hip_source([h for helpers, _ in rows for h in helpers], [text for _, text in rows]), arch)


@needs_clang
def test_every_cast_compiles() -> None:
    compiled(itertools.product(SCALARS.values(), SCALARS.values()), "gfx942")


@needs_clang
@pytest.mark.parametrize("arch", ["gfx90a", "gfx950", "gfx1100"])
def test_casts_of_short_vectors_compile(arch: str) -> None:
    compiled([(as_dtype(source), as_dtype(destination)) for source, destination in VECTORS], arch)


@needs_clang
@pytest.mark.parametrize(("arch", "one"), [("gfx942", False), ("gfx950", True), ("gfx1201", False)])
def test_a_pair_of_bfloat16_is_one_instruction_where_there_is_one(arch: str, one: bool) -> None:
    text = compiled([(as_dtype("float32x2"), as_dtype("bfloat16x2"))], arch)
    assert one == ("v_cvt_pk_bf16_f32" in text)


def test_lanes_must_agree() -> None:
    with pytest.raises(NoLowering, match="have different numbers of lanes"):
        CONVERSIONS.cast(as_dtype("float16x2"), as_dtype("float32x4"))


def test_a_detour_through_float_is_taken_only_where_nothing_is_lost() -> None:
    assert "tl_half_of({0})" == CONVERSIONS.cast(DType("float64"), DType("float16")).text
    assert "half_t((float)({0}))" == CONVERSIONS.cast(DType("int32"), DType("float16")).text
