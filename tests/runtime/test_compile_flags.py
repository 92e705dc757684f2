import shlex

import pytest
from fake_cuda import needs_nvrtc

from tilelang.runtime.compile_flags import STANDARD, device_flags, host_flags, with_standard
from tilelang.targets.nvidia.runtime.nvrtc import open_nvrtc

# flags as users write them for nvcc, what NVRTC gets, and what a compiler of the host gets
FLAGS = [
    ("-O3", "", "-O3"),
    ("-O1 -DNDEBUG -Wall -Wno-deprecated-declarations", "-DNDEBUG", "-O1 -DNDEBUG -Wall -Wno-deprecated-declarations"),
    ("--expt-relaxed-constexpr --expt-extended-lambda -expt-relaxed-constexpr --extended-lambda", "", ""),
    ("-U__CUDA_NO_HALF_OPERATORS__", "-U__CUDA_NO_HALF_OPERATORS__", "-U__CUDA_NO_HALF_OPERATORS__"),
    ("-D A=1 -U B -I /x --define-macro=C=2", "-DA=1 -UB -I/x -DC=2", "-D A=1 -U B -I /x --define-macro=C=2"),
    ("--ptxas-options=-v,--register-usage-level=10", "--ptxas-options=-v --ptxas-options=--register-usage-level=10", ""),
    ("-Xptxas -O2,-v -Xptxas=-warn-spills", "--ptxas-options=-O2 --ptxas-options=-v --ptxas-options=-warn-spills", ""),
    ("--use_fast_math -use_fast_math", "--use_fast_math -use_fast_math", ""),
    ("-Xcompiler -fPIC,-Wall -Xcompiler=-O2 --compiler-options -g", "", "-fPIC -Wall -O2 -g"),
    ("-gencode arch=compute_90a,code=sm_90a -gencode=arch=compute_80,code=sm_80 -arch=sm_90 -code sm_90", "", ""),
    ("-lineinfo --maxrregcount=64 -maxrregcount 32", "-lineinfo --maxrregcount=64 -maxrregcount 32", ""),
    ("-std=c++20", "--std=c++20", "-std=c++20"),
    ("-lcuda -L/usr/lib -l m --threads 4 -m64 -c -o x -ccbin g++ -default-stream=legacy", "",
     "-lcuda -L/usr/lib -l m -m64 -c -o x"),
    ("--extra-device-vectorization", "--extra-device-vectorization", ""),
    ("--fmad=false --ftz=true -diag-suppress 177", "--fmad=false --ftz=true -diag-suppress 177", ""),
    ("-march=native --some-flag", "-march=native --some-flag", "-march=native --some-flag"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "nvrtc", "host"), FLAGS)
def test_each_compiler_gets_the_flags_that_it_understands(given: str, nvrtc: str, host: str) -> None:
    assert tuple(shlex.split(nvrtc)) == device_flags(shlex.split(given))
    assert tuple(shlex.split(host)) == host_flags(shlex.split(given))


def test_a_missing_value_is_passed_to_the_compiler() -> None:
    assert ("-D",) == device_flags(["-D"])
    assert () == device_flags(["-gencode"])


def test_a_standard_is_named_once() -> None:
    assert (STANDARD, "-O2") == with_standard(["-O2"])
    for flag in ("-std=c++20", "--std=c++20"):
        assert (flag,) == with_standard([flag])


@needs_nvrtc
def test_nvrtc_accepts_the_converted_flags() -> None:
    given = [word for flags, _, _ in FLAGS[:-1] for word in shlex.split(flags)]
    made = open_nvrtc().compile('extern "C" __global__ void k(float* a) { a[0] = A + C; }', "sm_80", device_flags(given))
    assert made.code is not None, made.log
