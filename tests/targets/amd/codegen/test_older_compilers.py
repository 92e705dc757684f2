"""What is printed compiles under the older compilers that are on the PATH, each where it knows the machine."""

import shutil

import pytest
from amd_programs import attention, gemm
from hip_text import GENERATIONS, printed

from tilelang.targets.amd.runtime.toolchain import OLDEST, Clang

_NEWEST = 21  # others compile with newer ones
_FIRST = {"gfx950": 20}  # that knows a machine
_FLAGS = ("-std=c++17", "-O3", "-fno-strict-aliasing", "-Werror", "-Wno-parentheses")


@pytest.mark.slow(every=8)
@pytest.mark.parametrize("arch", GENERATIONS)
@pytest.mark.parametrize("version", range(OLDEST, _NEWEST + 1))
def test_programs_compile(version: int, arch: str) -> None:
    clang, linker = shutil.which(f"clang-{version}"), shutil.which(f"ld.lld-{version}")
    if clang is None or linker is None:
        pytest.skip(f"no clang-{version} and ld.lld-{version} on the PATH")
    if version < _FIRST.get(arch, OLDEST):
        pytest.skip(f"clang {version} does not know {arch}")
    for func in (gemm(160, rows=200), gemm(192, stages=3), attention(128)):
        made = Clang((clang,), (linker,), f"{version}").compile(printed(func, arch).text, arch, _FLAGS)
        assert made.code is not None, made.log[:2000]
