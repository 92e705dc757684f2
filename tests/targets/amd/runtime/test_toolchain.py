import os
from pathlib import Path

import pytest
from hip_kernels import ARCHES, GEMM, REVERSE, needs_clang

from tilelang.errors import ToolchainError
from tilelang.targets.amd.runtime import toolchain
from tilelang.targets.amd.runtime.toolchain import Clang, find_clang, find_disassembler


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No cache of other tests, no compiler of the environment's; what a test finds is found anew."""
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path / "cache"))
    for name in ("HIP_CLANG_PATH", "ROCM_PATH"):
        monkeypatch.delenv(name, raising=False)
    toolchain._found.cache_clear()


@pytest.fixture
def without_zig(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolchain, "_zig", lambda: None)


def program(folder: Path, name: str, version: str = "") -> str:
    """A program that says its version."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\necho '{version and 'Some clang version ' + version}'\n")
    path.chmod(0o755)
    return str(path)


@needs_clang
@pytest.mark.parametrize("arch", ARCHES)
def test_text_becomes_a_code_object_for_each_architecture(arch: str) -> None:
    made = find_clang().compile(REVERSE, arch, ("-O3",))
    assert made.code is not None
    assert (b"\x7fELF", 224) == (made.code[:4], int.from_bytes(made.code[18:20], "little"))
    assert "" == made.log
    assert f"--offload-arch={arch}" in made.command


@needs_clang
def test_assembly_is_text() -> None:
    made = find_clang().compile(GEMM, "gfx942", ("-O3",), assembly=True)
    assert made.code is not None
    assert 16 == made.code.count(b"v_mfma_f32_32x32x8_f16")


@needs_clang
def test_a_rejected_text_has_no_code_and_names_its_line() -> None:
    made = find_clang().compile(REVERSE.replace("255 - t", "m"), "gfx942")
    assert made.code is None
    assert "kernel.hip:16:25: error: use of undeclared identifier 'm'" in made.log


@needs_clang
def test_inline_assembly_that_the_chip_lacks_names_its_line() -> None:
    text = REVERSE.replace("__builtin_amdgcn_s_barrier()", 'asm volatile("s_barrier_signal -1")')
    made = find_clang().compile(text, "gfx942")
    assert made.code is None
    assert "kernel.hip:14:16: error: instruction not supported on this GPU" in made.log


@needs_clang
def test_an_architecture_that_the_compiler_does_not_know() -> None:
    with pytest.raises(ToolchainError) as caught:
        find_clang().compile(REVERSE, "gfx9999")
    assert caught.value.message.endswith("cannot compile for gfx9999")
    assert f"newer: {toolchain.INSTALL}" == caught.value.hint


@pytest.mark.usefixtures("without_zig")
def test_the_chosen_folder_comes_before_rocm_and_rocm_before_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, folder, version in (
        ("PATH", tmp_path / "path", "19.1.7"),
        ("ROCM_PATH", tmp_path / "rocm" / "llvm" / "bin", "20.0.0"),
        ("HIP_CLANG_PATH", tmp_path / "chosen", "21.1.0"),
    ):
        clang, linker = program(folder, "clang", version), program(folder, "ld.lld")
        value = {"ROCM_PATH": f"{tmp_path / 'rocm'}", "PATH": f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin"}
        monkeypatch.setenv(variable, value.get(variable, str(folder)))
        assert Clang((clang,), (linker,), version) == find_clang()


@needs_clang
def test_the_package_ziglang_comes_before_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, "clang", "21.0.0"), program(tmp_path, "ld.lld")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    zig = toolchain._zig()
    if zig is None:
        pytest.skip("needs ziglang")
    assert ((zig, "clang"), (zig, "ld.lld")) == (find_clang().command, find_clang().linker)


@pytest.mark.usefixtures("without_zig")
def test_a_compiler_of_the_path_may_have_its_version_in_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path, "clang", "14.0.6"), program(tmp_path, "ld.lld")
    clang, linker = program(tmp_path, "clang-22", "22.1.8"), program(tmp_path, "ld.lld-22")
    program(tmp_path, "clang-19", "19.1.7")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/usr/bin{os.pathsep}/bin")
    assert Clang((clang,), (linker,), "22.1.8") == find_clang()


@pytest.mark.usefixtures("without_zig")
def test_without_a_compiler_the_message_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolchainError) as caught:
        find_clang()
    assert (
        "no clang found that compiles for AMD GPUs: none is below HIP_CLANG_PATH and ROCM_PATH, in the package ziglang, "
        "or on the PATH"
    ) == caught.value.message
    assert (
        "pip install 'ziglang>=0.17' (clang 22 and lld), or `apt install clang-19 lld-19` or newer, or install ROCm"
    ) == caught.value.hint


@pytest.mark.usefixtures("without_zig")
def test_compilers_that_will_not_do_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{tmp_path / 'tools'}")
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "sh").symlink_to("/bin/sh")
    old, bare = program(tmp_path, "clang", "14.0.6"), program(tmp_path, "clang-20", "20.1.2")
    with pytest.raises(ToolchainError) as caught:
        find_clang()
    assert f"{old} has no ld.lld beside it or on the PATH; {bare} has no ld.lld" in caught.value.message
    program(tmp_path, "ld.lld")
    Path(bare).unlink()
    with pytest.raises(ToolchainError, match=r"clang is clang 14\.0\.6, and 19 or newer is needed"):
        toolchain._found.__wrapped__(*toolchain._environment())


@pytest.mark.usefixtures("without_zig")
def test_a_known_compiler_is_not_started_for_its_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clang = program(tmp_path, "clang", "22.1.8")
    program(tmp_path, "ld.lld")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/usr/bin{os.pathsep}/bin")
    first = find_clang()
    toolchain._found.cache_clear()
    monkeypatch.setattr(toolchain, "_run", None)
    assert first == find_clang()
    status = os.stat(clang)
    assert f"{os.path.realpath(clang)} {status.st_size}" in first.identity


def test_a_program_that_cannot_be_started_is_named(tmp_path: Path) -> None:
    broken = tmp_path / "clang"
    broken.write_bytes(b"\0")
    broken.chmod(0o755)
    with pytest.raises(ToolchainError, match="clang: cannot be started"):
        Clang((str(broken),), (str(broken),), "22").compile("", "gfx942")


@pytest.mark.usefixtures("without_zig")
def test_the_disassembler_is_that_of_the_same_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, "clang", "22.1.8"), program(tmp_path, "ld.lld")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_disassembler() is None
    assert program(tmp_path, "llvm-objdump") == find_disassembler()
