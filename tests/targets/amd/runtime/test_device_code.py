import resource
from pathlib import Path

import pytest
from hip_kernels import ARCHES, GEMM, PRELUDE, REVERSE, SPILLING, needs_clang, needs_hiprtc, source

from tilelang.errors import CompilerBug, OptionError, ToolchainError
from tilelang.options import CompileOptions
from tilelang.targets.amd.isa.save_registers import REMATERIALIZE
from tilelang.targets.amd.runtime import device_code, hiprtc
from tilelang.targets.amd.runtime.device_code import HipCode, build, identity

pytestmark = needs_clang
SOURCE = source(REVERSE, "reverse")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def forbid_compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_code, "_built", None)


def test_the_figures_count_what_the_launch_adds() -> None:
    code = build(source(REVERSE, "reverse", shared_bytes=4096), "gfx942", "clang")
    used = code.resources["reverse"]
    assert used.registers > 0
    assert (5120, 0, 0, 0) == (used.shared_bytes, used.spill_bytes, used.local_bytes, used.accumulators)
    assert () == code.warnings


@pytest.mark.parametrize("arch", ARCHES)
def test_every_architecture_is_compiled_for(arch: str) -> None:
    code = build(SOURCE, arch, "clang")
    assert code.binary.startswith(b"\x7fELF")
    assert f'"amdgcn-amd-amdhsa--{arch}"' in code.assembly()


def test_spills_are_counted() -> None:
    used = build(source(SPILLING, "spilling", threads=1024), "gfx942", "clang").resources["spilling"]
    assert 128 == used.registers
    assert 400 < used.spill_bytes <= used.local_bytes


def test_a_text_is_compiled_once_per_cache_folder(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    first = build(SOURCE, "gfx942", "clang")
    assert 1 == len(list(folder.rglob("*.hsaco")))
    forbid_compiling(monkeypatch)
    assert first == build(SOURCE, "gfx942", "clang")


@pytest.mark.parametrize(
    ("arch", "options"),
    [
        ("gfx950", CompileOptions()),
        ("gfx942", CompileOptions(compile_flags=("-DX",))),
        ("gfx942", CompileOptions.from_user({"tl.enable_fast_math": True})),
    ],
)
def test_all_that_decides_the_code_is_in_the_key(
    arch: str, options: CompileOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(SOURCE, "gfx942", "clang")
    forbid_compiling(monkeypatch)
    with pytest.raises(TypeError):
        build(SOURCE, arch, "clang", options)


def test_a_tiled_gemm_is_compiled_in_half_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a processor: what other programs do meanwhile does not count."""
    monkeypatch.setenv("TILELANG_DISABLE_CACHE", "1")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    code = build(source(GEMM, "gemm"), "gfx942", "clang")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert (16384, 0, 0) == code.resources["gemm"][1:4]
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 0.5


def test_fast_math_approximates_divisions() -> None:
    text = REVERSE.replace("tile[255 - t];", "tile[255 - t] / tile[t];")
    exact = build(source(text, "reverse"), "gfx942", "clang")
    fast = build(source(text, "reverse"), "gfx942", "clang", CompileOptions.from_user({"tl.enable_fast_math": True}))
    assert "v_div_fixup_f32" in exact.assembly()
    assert "v_div_fixup_f32" not in fast.assembly()
    assert "v_rcp_f32" in fast.assembly()


def test_the_users_flags_come_last() -> None:
    text = REVERSE.replace("tile[255 - t];", "tile[WHICH];")
    build(source(text, "reverse"), "gfx942", "clang", CompileOptions(compile_flags=("-DWHICH=t", "-Xptxas", "-v")))


def test_verbose_prints_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    build(SOURCE, "gfx942", "clang", CompileOptions(verbose=True))
    assert "--offload-arch=gfx942" in capsys.readouterr().err


def test_warnings_of_the_compiler_are_kept() -> None:
    code = build(source("#warning look here\n" + REVERSE, "reverse"), "gfx942", "clang")
    assert ("look here [-W#warnings]",) == code.warnings


def test_text_that_is_rejected_is_our_fault() -> None:
    with pytest.raises(CompilerBug, match="use of undeclared identifier 'm'"):
        build(source(REVERSE.replace("255 - t", "m"), "reverse"), "gfx942", "clang")


def test_a_block_with_too_much_declared_shared_memory_is_refused_by_the_compiler() -> None:
    with pytest.raises(ToolchainError, match=r"local memory \(70000\) exceeds limit \(65536\)"):
        build(source(REVERSE.replace("tile[256]", "tile[17500]"), "reverse", has_user_code=True), "gfx942", "clang")


def test_there_is_no_ptx() -> None:
    with pytest.raises(OptionError, match="get_ptx: code for gfx942 is not compiled by way of PTX"):
        build(SOURCE, "gfx942", "clang").ptx()


def test_the_compiler_is_part_of_the_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    first = identity("clang", CompileOptions())
    assert first == identity("clang", CompileOptions())
    monkeypatch.setattr(hiprtc, "identity", lambda: "another")
    assert first != identity("hiprtc", CompileOptions())


@needs_hiprtc
def test_hiprtc_gives_the_same_figures() -> None:
    ours, theirs = (build(SOURCE, "gfx90a", name).resources["reverse"] for name in ("clang", "hiprtc"))
    assert ours[1:] == theirs[1:]


def test_code_of_hiprtc_needs_a_disassembler(monkeypatch: pytest.MonkeyPatch) -> None:
    code = HipCode(SOURCE, "gfx90a", "hiprtc", CompileOptions(), b"", {}, ())
    monkeypatch.setattr(device_code, "find_disassembler", lambda: None)
    with pytest.raises(ToolchainError, match="no disassembler found: llvm-objdump is not beside the clang"):
        code.assembly()


def test_a_disassembler_is_asked_for_all_instructions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "llvm-objdump"
    monkeypatch.setattr(device_code, "find_disassembler", lambda: str(tool))
    code = HipCode(SOURCE, "gfx90a", "hiprtc", CompileOptions(), b"the code", {}, ())
    tool.write_text('#!/bin/sh\necho "$1 of $(cat "$3")"\n')
    tool.chmod(0o755)
    assert "--disassemble of the code\n" == code.assembly()
    tool.write_text("#!/bin/sh\necho broken >&2\nexit 3\n")
    with pytest.raises(ToolchainError, match="llvm-objdump: failed with status 3\nbroken"):
        code.assembly()


# a tile of 64 rows whose addresses, if they are all kept, take more registers than there are
ADDRESSES = (
    PRELUDE
    + REMATERIALIZE.text
    + """\
extern "C" __global__ THREADS(1024) void addresses(float* __restrict__ x, int n) {
  __shared__ float tile[16384];
  int t = __builtin_amdgcn_workitem_id_x();
  float sums[32] = {};
#pragma unroll 1
  for (int k = 0; k < n; ++k) {
    TL_REMATERIALIZE(t);
    tile[t] = x[k * 1024 + t];
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
#pragma unroll
    for (int i = 0; i < 256; ++i) sums[i % 32] += tile[(t * 17 ^ (i * 37)) & 16383];
  }
#pragma unroll
  for (int i = 0; i < 32; ++i) x[i * 1024 + t] = sums[i];
}
"""
)


def test_what_spills_is_compiled_for_fewer_registers() -> None:
    given = source(ADDRESSES, "addresses", threads=1024)
    once = build(source(ADDRESSES.replace("TL_REMATERIALIZE(t);", ""), "addresses", threads=1024), "gfx1100", "clang")
    assert 100 < once.resources["addresses"].spill_bytes
    code = build(given, "gfx1100", "clang")
    assert (0, 0) == (code.resources["addresses"].spill_bytes, code.resources["addresses"].local_bytes)
    assert "vgpr_spill_count: 0" in code.assembly()
