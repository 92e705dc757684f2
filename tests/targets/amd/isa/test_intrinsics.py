import pytest
from hip_text import assembly_of, function_of, hip_source, needs_clang

from tilelang.dtypes import as_dtype
from tilelang.isa.catalogue import INTRINSICS
from tilelang.targets.amd.isa.intrinsics import templates
from tilelang.targets.amd.isa.types import hip_type
from tilelang.targets.nvidia.isa.intrinsics import templates as cuda_templates


def test_every_intrinsic_has_the_texts_that_other_gpus_have() -> None:
    for name in INTRINSICS:
        assert set(cuda_templates(name)) <= set(templates(name)), name
    assert {} == templates("frobnicate")


def functions():
    for name, record in INTRINSICS.items():
        for dtype, text in templates(name).items():
            row = as_dtype(dtype)
            result = record.result((row,) * record.arity)
            kind, made = hip_type(row).value, hip_type(result if result in ("bool", "int32") else row).value
            body = text.format(*(f"{each}[i]" for each in "abc"[: record.arity]))
            yield [text.helper, hip_type(row).helper], function_of(f"f{name}_{dtype}", made, [kind] * record.arity, body)


@pytest.mark.slow(every=8)
@needs_clang
@pytest.mark.parametrize("arch", ["gfx90a", "gfx950", "gfx1201"])
def test_every_function_compiles_without_a_library(arch: str) -> None:
    rows = list(functions())
    assert assembly_of(hip_source([h for helpers, _ in rows for h in helpers], [text for _, text in rows]), arch)
