import dataclasses
from pathlib import Path

import pytest
from fake_cuda import launch, needs_nvcc, needs_nvrtc

from tilelang.codegen.source import Source
from tilelang.errors import ToolchainError
from tilelang.options import CompileOptions
from tilelang.targets.gpu.isa.save_registers import SAVE_REGISTERS
from tilelang.targets.gpu.runtime.compile_log import Compilation
from tilelang.targets.nvidia.runtime import device_code, nvcc, nvrtc
from tilelang.targets.nvidia.runtime.device_code import build, identity

pytestmark = needs_nvrtc
TEXT = 'extern "C" __global__ void k(float* x, float y) {\n  x[threadIdx.x] = x[threadIdx.x] / y;\n}\n'
SOURCE = Source("cuda", TEXT, "k", launches=(launch(name="k", shared_bytes=4096),))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def forbid_compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_code, "_compile", None)


def test_the_figures_count_what_the_launch_adds() -> None:
    code = build(SOURCE, "sm_90a", "nvrtc")
    resources = code.resources["k"]
    assert resources.registers > 0
    assert (4096, 0, 0) == (resources.shared_bytes, resources.spill_bytes, resources.local_bytes)
    assert () == code.warnings


def test_a_text_is_compiled_once_per_cache_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    first = build(SOURCE, "sm_90a", "nvrtc")
    forbid_compiling(monkeypatch)
    assert first == build(SOURCE, "sm_90a", "nvrtc")


@pytest.mark.parametrize(
    ("arch", "compiler", "options"),
    [
        ("sm_80", "nvrtc", CompileOptions()),
        ("sm_90a", "nvrtc", CompileOptions(compile_flags=("-DX",))),
        ("sm_90a", "nvrtc", CompileOptions(pass_configs=(("tl.enable_fast_math", True),))),
        ("sm_90a", "nvrtc", CompileOptions(pass_configs=(("tl.ptxas_register_usage_level", 5),))),
    ],
)
def test_everything_that_decides_the_code_is_part_of_the_key(
    folder: Path, arch: str, compiler: str, options: CompileOptions
) -> None:
    build(SOURCE, "sm_90a", "nvrtc")
    build(SOURCE, arch, compiler, options)
    assert 2 == len(list(folder.rglob("*.cubin")))


def test_a_damaged_entry_is_made_again(folder: Path) -> None:
    first = build(SOURCE, "sm_90a", "nvrtc")
    (kept,) = folder.rglob("*.cubin")
    kept.write_bytes(kept.read_bytes()[:-100])
    assert first == build(SOURCE, "sm_90a", "nvrtc")


def test_without_the_cache_nothing_is_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilelang.environment._CacheSwitch.enabled", False)
    assert build(SOURCE, "sm_90a", "nvrtc").binary.startswith(b"\x7fELF")
    assert not folder.exists()


def test_fast_math_changes_the_code() -> None:
    fast = build(SOURCE, "sm_90a", "nvrtc", CompileOptions(pass_configs=(("tl.enable_fast_math", True),)))
    assert "div.approx" in fast.ptx()
    assert "div.approx" not in build(SOURCE, "sm_90a", "nvrtc").ptx()


def test_flags_of_nvcc_that_only_a_host_compiler_heeds_are_accepted() -> None:
    flags = ("-O3", "--expt-relaxed-constexpr", "-DUNUSED")
    assert build(SOURCE, "sm_90a", "nvrtc", CompileOptions(compile_flags=flags)).binary


def test_verbose_prints_the_command_and_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    build(SOURCE, "sm_90a", "nvrtc", CompileOptions(verbose=True))
    printed = capsys.readouterr().err
    assert "nvrtc --gpu-architecture=sm_90a" in printed
    assert "registers" in printed


@needs_nvcc
def test_nvcc_gives_the_same_figures() -> None:
    assert build(SOURCE, "sm_90a", "nvrtc").resources == build(SOURCE, "sm_90a", "nvcc").resources


# loads values before it stores the first one, of which 64 registers of a thread hold fewer than 100
LOADED = Source(
    "cuda",
    """\
extern "C" __global__ void __launch_bounds__(1024) k(volatile float* x) {
    float loaded[COUNT];
#pragma unroll
    for (int i = 0; i < COUNT; ++i) loaded[i] = x[i * 1024 + threadIdx.x];
#pragma unroll
    for (int i = 0; i < COUNT; ++i) x[i * 1024 + threadIdx.x + 1] = loaded[i];
}
""",
    "k",
    launches=(launch(name="k"),),
)


def loaded(count: int, saving: int) -> Source:
    """The kernel with so many values, and with others where it is to save registers."""
    macro = f"#ifdef {SAVE_REGISTERS}\n#define COUNT {saving}\n#else\n#define COUNT {count}\n#endif\n"
    return dataclasses.replace(LOADED, text=macro + LOADED.text)


@pytest.mark.parametrize(
    ("compiler", "count", "saving", "kept"),
    [
        ("nvrtc", 100, 20, 20),
        ("nvrtc", 100, 120, 100),
        ("nvrtc", 20, 10, 20),
        pytest.param("nvcc", 100, 20, 20, marks=needs_nvcc),
    ],
)
def test_what_spills_is_compiled_for_fewer_registers(compiler: str, count: int, saving: int, kept: int) -> None:
    code = build(loaded(count, saving), "sm_90a", compiler)
    assert (kept > 64) == (code.resources["k"].spill_bytes > 0)
    assert kept == code.ptx().count("ld.volatile.global.f32")


def test_what_has_no_registers_to_save_is_compiled_once(capsys: pytest.CaptureFixture[str]) -> None:
    text = LOADED.text.replace("COUNT", "100")
    code = build(dataclasses.replace(LOADED, text=text), "sm_90a", "nvrtc", CompileOptions(verbose=True))
    assert code.resources["k"].spill_bytes > 0
    assert 1 == capsys.readouterr().err.count("nvrtc --gpu-architecture")


def test_the_compiler_is_part_of_the_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    first = identity("nvrtc", CompileOptions())
    assert first == identity("nvrtc", CompileOptions())
    monkeypatch.setattr(nvrtc, "identity", lambda: "another")
    assert first != identity("nvrtc", CompileOptions())


def test_sass_without_a_disassembler_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvcc, "find_tool", lambda name: None)
    with pytest.raises(ToolchainError) as caught:
        build(SOURCE, "sm_90a", "nvrtc").assembly()
    assert (
        "no disassembler found: neither nvdisasm nor cuobjdump is on the PATH or below CUDA_HOME\n"
        "hint: pip install nvidia-cuda-nvdisasm and put its bin folder on the PATH, or install the CUDA toolkit"
    ) == str(caught.value)


def test_sass_is_what_the_disassembler_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "nvdisasm"
    tool.write_text('#!/bin/sh\necho "$1 of $(head -c 4 "$2" | tail -c 3)"\n')
    tool.chmod(0o755)
    monkeypatch.setattr(nvcc, "find_tool", lambda name: str(tool) if name == "nvdisasm" else None)
    assert "-c of ELF\n" == build(SOURCE, "sm_90a", "nvrtc").assembly()


def test_a_disassembler_that_fails_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "cuobjdump"
    tool.write_text("#!/bin/sh\necho broken >&2\nexit 3\n")
    tool.chmod(0o755)
    monkeypatch.setattr(nvcc, "find_tool", lambda name: str(tool) if name == "cuobjdump" else None)
    with pytest.raises(ToolchainError, match="cuobjdump: failed with status 3\nbroken"):
        build(SOURCE, "sm_90a", "nvrtc").assembly()


def test_ptx_that_cannot_be_made_again_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    code = build(SOURCE, "sm_90a", "nvrtc")
    monkeypatch.setattr(device_code, "_compile", lambda *args, **kw: Compilation(None, "gone", "nvrtc"))
    with pytest.raises(ToolchainError, match="nvrtc: failed while compiling kernel 'k'\ngone"):
        code.ptx()
