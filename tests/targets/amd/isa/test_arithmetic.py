import pytest
from hip_text import GENERATIONS, assembly_of, function_of, hip_source, needs_clang

from tilelang.targets.amd.isa.arithmetic import HELPERS
from tilelang.targets.nvidia.isa.arithmetic import HELPERS as CUDA_HELPERS


def test_every_function_of_the_common_printer_is_defined() -> None:
    assert set(CUDA_HELPERS) == set(HELPERS)


def texts():
    for name in ("max", "min", "truncdiv", "truncmod", "floordiv", "floormod", "shl", "shr"):
        kinds = ["int8_t", "uint8_t", "int32_t", "uint32_t", "int64_t", "uint64_t"]
        for kind in [*kinds, "float", "double"] if name in ("max", "min") else kinds:
            yield function_of(f"{name}_{kind}", kind, [kind, kind], f"tl_{name}<{kind}>(a[i], b[i])")
    for name in ("floordiv_float", "floormod_float", "fmax", "fmin"):
        yield function_of(f"on_floats_{name}", "float", ["float", "float"], f"tl_{name}(a[i], b[i])")
        yield function_of(f"on_doubles_{name}", "double", ["double", "double"], f"tl_{name}(a[i], b[i])")


@pytest.mark.slow(every=8)
@needs_clang
@pytest.mark.parametrize("arch", GENERATIONS)
def test_functions_compile(arch: str) -> None:
    text = assembly_of(hip_source(HELPERS.values(), texts()), arch)
    body = text[text.index("max_float:") :].split("s_endpgm")[0]
    assert ("v_maximum" in body) == (arch in ("gfx950", "gfx1201"))  # an instruction that NaN passes through
