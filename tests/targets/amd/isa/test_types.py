import pytest
from hip_text import GENERATIONS, assembly_of, function_of, hip_source, needs_clang

from tilelang.dtypes import SCALARS, DType, as_dtype
from tilelang.errors import NoLowering
from tilelang.targets.amd.isa.types import HIP_TYPES, hip_type


def test_every_scalar_has_a_type() -> None:
    assert set(SCALARS) == set(HIP_TYPES)
    assert {"half_t", "bfloat16_t"} == {hip_type(DType(name)).name for name in ("float16", "bfloat16")}
    assert all(kind.is_packed == (kind.value in ("float", "int32_t") and kind.name != kind.value) for kind in HIP_TYPES.values())


def test_short_vectors_are_words() -> None:
    names = {name: hip_type(as_dtype(name)).name for name in ("float16x2", "float32x2", "int8x16", "float32x8", "int8x2")}
    assert ["uint32_t", "uint32x2_t", "uint32x4_t", "tl_words<2>", "uint16_t"] == list(names.values())
    with pytest.raises(NoLowering, match="HIP: no type of 12 bytes for short vectors"):
        hip_type(as_dtype("float32x3"))


def sizes():
    """Kernels that only compile if each type has the size of its dtype."""
    for name, dtype in SCALARS.items():
        kind = hip_type(dtype)
        yield kind.helper, f"static_assert(sizeof({kind.name}) == {dtype.storage_bytes}, \"{name}\");"
        text = f"({kind.value})a[i]" if kind.is_packed else "a[i]"
        yield None, function_of(f"from_{name}", kind.value, [kind.name], text)
        yield None, function_of(f"to_{name}", kind.name, [kind.value], f"{kind.name}(a[i])")
    for size in (8, 16, 32):
        kind = hip_type(as_dtype(f"int8x{size}"))
        yield kind.helper, f"static_assert(sizeof({kind.name}) == {size} && alignof({kind.name}) == {min(size, 16)}, \"\");"


@needs_clang
@pytest.mark.parametrize("arch", GENERATIONS)
def test_types_have_the_size_of_their_dtypes(arch: str) -> None:
    rows = list(sizes())
    text = assembly_of(hip_source([helper for helper, _ in rows], [text for _, text in rows]), arch)
    one = "v_cvt_f32_fp8" in text
    assert one == (arch not in ("gfx90a", "gfx1100"))  # of the kind that the machine has, in one instruction
