import pytest
from hip_text import GENERATIONS, needs_clang

from tilelang.targets.amd.isa.save_registers import FLAGS, REMATERIALIZE
from tilelang.targets.amd.isa.types import PRELUDE
from tilelang.targets.amd.runtime.toolchain import find_clang


@needs_clang
@pytest.mark.parametrize("arch", GENERATIONS)
def test_the_compiler_takes_flags_and_text(arch: str) -> None:
    text = PRELUDE + REMATERIALIZE.text + (
        'extern "C" __global__ void kernel(int* x) { int i = x[0]; TL_REMATERIALIZE(i); x[1] = i; }'
    )  # fmt: skip
    made = find_clang().compile(text, arch, FLAGS)
    assert made.code is not None
    assert made.log == ""
