import re
from pathlib import Path

import pytest
from fake_cuda import needs_nvrtc

from tilelang.codegen.source import Source
from tilelang.errors import CompilerBug, Loc, TileLangError, ToolchainError
from tilelang.options import CompileOptions
from tilelang.targets.gpu.runtime.compile_log import Compilation
from tilelang.targets.nvidia.runtime.compile_log import rejection
from tilelang.targets.nvidia.runtime.device_code import build

USER = Loc("user.py", 12, 4)
OTHER = Loc("user.py", 13, 4)

INLINE = """\
__device__ __forceinline__ void tl_inline_0(float* x) {
  asm volatile("foo.bar.f32 %0;\\n\\tok;" :: "l"(x));
}
extern "C" __global__ void k(float* x, int n) {
  x[1] = 2.0f;
  for (int i = 0; i < n; ++i) {
    tl_inline_0(x);
  }
}
"""


def source(text: str, *, has_user_code: bool = False) -> Source:
    return Source("cuda", text, "k", {5: USER, 7: OTHER}, has_user_code=has_user_code)


def rejected(source: Source, options: CompileOptions = CompileOptions()) -> TileLangError:
    with pytest.raises(TileLangError) as caught:
        build(source, "sm_90a", "nvrtc", options)
    return caught.value


@needs_nvrtc
def test_inline_ptx_that_does_not_assemble_shows_the_template_and_its_line() -> None:
    error = rejected(source(INLINE, has_user_code=True))
    assert isinstance(error, ToolchainError)
    assert (
        "inline PTX of kernel 'k' does not assemble: Unknown modifier '.bar'; Not a name of any "
        "known instruction: 'foo'; Not a name of any known instruction: 'ok'\n    foo.bar.f32 %rd1;\n    ok;"
    ) == error.message
    assert OTHER == error.loc
    assert (
        "check the template of T.inline_ptx against the PTX ISA; the compiler put registers for its operands"
    ) == error.hint


@needs_nvrtc
def test_ptx_of_our_own_that_does_not_assemble_is_our_fault() -> None:
    error = rejected(source(INLINE))
    assert isinstance(error, CompilerBug)
    assert error.message.startswith("ptxas: rejected the code generated for kernel 'k', which is a bug in tilelang:")
    assert OTHER == error.loc


@needs_nvrtc
def test_text_of_our_own_that_does_not_compile_is_our_fault() -> None:
    error = rejected(source(INLINE.replace("x[1] = 2.0f", "x[1] = y")))
    assert isinstance(error, CompilerBug)
    assert (
        "nvrtc: rejected the code generated for kernel 'k', which is a bug in tilelang: "
        'generated line 5: identifier "y" is undefined\n    x[1] = y;'
    ) == error.message
    assert USER == error.loc
    kept = re.search(r"the generated source is (\S+);", error.notes[0].text)
    assert kept is not None
    assert "x[1] = y" in Path(kept[1]).read_text()


@needs_nvrtc
def test_code_of_the_users_own_that_does_not_compile_is_theirs() -> None:
    error = rejected(source(INLINE.replace("x[1] = 2.0f", "missing(x)"), has_user_code=True))
    assert isinstance(error, ToolchainError)
    assert "nvrtc: rejected kernel 'k', which uses code of your own: generated line 5: identifier" in error.message
    assert USER == error.loc


@needs_nvrtc
def test_flags_that_break_our_text_are_blamed() -> None:
    error = rejected(source('extern "C" __global__ void k(float* datum) {\n}\n'), CompileOptions(compile_flags=("-Ddatum=3",)))
    assert isinstance(error, ToolchainError)
    assert error.message.startswith("nvrtc: rejected kernel 'k' compiled with ['-Ddatum=3']: generated line 1:")
    assert "leave compile_flags out, or correct them" == error.hint


@needs_nvrtc
def test_unknown_flags_are_blamed() -> None:
    error = rejected(source(""), CompileOptions(compile_flags=("--foo",)))
    assert isinstance(error, ToolchainError)
    assert "unrecognized option --foo found" in error.message
    assert "check compile_flags=['--foo']" == error.hint


def test_a_log_without_places_is_shown_in_short() -> None:
    log = "\n".join(f"line {n}" for n in range(30))
    error = rejection(source(""), Compilation(None, log, "nvcc kernel.cu"), CompileOptions())
    assert isinstance(error, ToolchainError)
    assert error.message.startswith("nvcc: failed while compiling kernel 'k'\nline 0\n")
    assert error.message.endswith("line 19\n... and 10 more lines")
