from pathlib import Path

import pytest
from fake_cuda import needs_nvrtc

import tilelang
import tilelang.language as T
from tilelang.codegen.source import Source
from tilelang.errors import ToolchainError
from tilelang.targets.nvidia.runtime import cuda_headers
from tilelang.targets.nvidia.runtime.cuda_headers import find_headers, include_flags


def source(text: str, *, has_user_code: bool = True) -> Source:
    return Source("cuda", text, "main_kernel", {}, (), has_user_code=has_user_code)


def install(monkeypatch: pytest.MonkeyPatch, *folders: Path) -> None:
    """A machine on which only these folders hold headers."""
    for folder in folders:
        folder.mkdir(parents=True)
        (folder / "cuda_fp16.h").write_text("")
    monkeypatch.setattr(cuda_headers, "_ROOTS", ())
    monkeypatch.setattr(cuda_headers, "find_nvrtc", lambda: "libnvrtc.so")
    monkeypatch.setattr("sys.path", [])
    monkeypatch.setattr("sys.prefix", "/nowhere")
    for name in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    find_headers.cache_clear()
    monkeypatch.setattr(cuda_headers, "find_headers", find_headers.__wrapped__)


def test_headers_are_found_beside_nvrtc_then_in_wheels_then_in_a_toolkit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    beside, wheel = tmp_path / "cu" / "include", tmp_path / "site" / "nvidia" / "cuda_runtime" / "include"
    toolkit = tmp_path / "cuda" / "targets" / "x86_64-linux" / "include"
    install(monkeypatch, beside, wheel, toolkit)
    (beside / "cccl").mkdir()
    text = source("#include <cuda_fp16.h>\n")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
    assert (f"-I{toolkit}",) == include_flags(text)
    monkeypatch.setattr("sys.path", [str(tmp_path / "site")])
    assert (f"-I{wheel}",) == include_flags(text)
    assert (f"-I{wheel}",) == include_flags(source("", has_user_code=False), given=True)
    monkeypatch.setattr(cuda_headers, "find_nvrtc", lambda: str(tmp_path / "cu" / "lib" / "libnvrtc.so.13"))
    assert (f"-I{beside}", f"-I{beside / 'cccl'}") == include_flags(text)


def test_headers_that_are_nowhere_are_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)
    with pytest.raises(ToolchainError) as caught:
        include_flags(source("#include <cuda_bf16.h>\n#include <mine.h>\n"))
    assert (
        "kernel 'main_kernel' uses cuda_bf16.h, and the headers of CUDA are nowhere: neither in a package of this "
        "Python, nor below CUDA_HOME, nor in /usr/local/cuda",
        "pip install nvidia-cuda-runtime (`nvidia-cuda-runtime-cu12` for drivers of CUDA 12), or set CUDA_HOME to a "
        "CUDA toolkit",
    ) == (caught.value.message, caught.value.hint)
    assert () == include_flags(source('#include "mine.h"\n'))


def test_nothing_is_looked_for_unless_something_is_included(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(cuda_headers, "find_headers")
    assert () == include_flags(source("__device__ float f();"))
    assert () == include_flags(source("#include <stdint.h>\n", has_user_code=False))


ROUND_DOWN = """
__device__ __forceinline__ unsigned short round_down(float x) { return __half_as_ushort(__float2half_rd(x)); }
__device__ __forceinline__ float fp8(float x) { return float(__nv_fp8_e5m2(x)) + __bfloat162float(__nv_bfloat16(x)); }
"""


@needs_nvrtc
@pytest.mark.skipif(find_headers() is None, reason="needs the headers of CUDA")
def test_functions_of_cuda_s_headers_can_be_used_in_imported_source() -> None:
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "uint16"), C: T.Tensor((64,), "float16")):
        with T.Kernel(1, threads=64) as _:
            T.import_source(ROUND_DOWN)
            for i in T.Parallel(64):
                B[i] = T.call_extern("uint16", "round_down", A[i])
                C[i] = T.call_extern("float16", "__float2half_rz", A[i] * T.call_extern("float32", "fp8", A[i]))

    kernel = tilelang.compile(main, target="sm_90a")
    heads = "".join(f"#include <cuda_{name}.h>\n" for name in ("fp16", "bf16", "fp8"))
    assert kernel.kernel_source.startswith(heads)
    assert "cvt.rz.f16.f32" in kernel.get_ptx()


@needs_nvrtc
@pytest.mark.skipif(find_headers() is None, reason="needs the headers of CUDA")
def test_a_file_that_flags_include_may_include_headers_and_call_what_nvcc_has(tmp_path: Path) -> None:
    (tmp_path / "mine.h").write_text(
        "#include <cstring>\n#include <cuda_fp16.h>\nstruct Pair { short a, b; };\n"
        "__device__ __forceinline__ unsigned short bits(float x) { __half h = __float2half_rz(x); unsigned short u;"
        " __builtin_memcpy(&u, &h, 2); std::memset(&h, 0, 2); return u + offsetof(Pair, b) + __builtin_popcount(3); }\n"
    )
    (tmp_path / "mine.h").write_text("#include <cstddef>\n" + (tmp_path / "mine.h").read_text())

    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "uint16")):
        with T.Kernel(1, threads=64) as _:
            for i in T.Parallel(64):
                B[i] = T.call_extern("uint16", "bits", A[i])

    kernel = tilelang.compile(main, target="sm_90a", compile_flags=["-include", str(tmp_path / "mine.h")])
    assert "cvt.rz.f16.f32" in kernel.get_ptx()
