import pytest

from tilelang.runtime.finding import Finding
from tilelang.tools.doctor import can_compile, findings, size_text


def found(what: str) -> Finding:
    (finding,) = [one for one in findings() if one.what == what]
    return finding


def test_what_is_there_is_named():
    assert str(found("Python")).startswith("found    Python: 3.")
    assert str(found("numpy")).startswith("found    numpy: ")
    assert "entries" in found("compile cache").found


def test_a_cache_that_cannot_be_written_is_missing(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TILELANG_CACHE_DIR", f"{tmp_path}/file/cache")
    assert (
        f"missing  compile cache: {tmp_path}/file/cache cannot be written, so that kernels are compiled again in every "
        "process\n           set TILELANG_CACHE_DIR to a folder that can be written"
    ) == str(found("compile cache"))


def test_every_family_tells_what_it_finds():
    told = [finding.what for finding in findings()]
    for what in ("CUDA compiler (target cuda)", "HIP compiler (target hip)", "C++ compiler (target cpu)"):
        assert told.count(what) == 1
    assert {"NVIDIA GPU", "AMD GPU"} <= set(told)


def test_one_compiler_is_enough():
    missing, found = Finding("compiler", "", "get it", compiles=True), Finding("another", "cc", compiles=True)
    assert not can_compile([missing, Finding("Python", "3.12")])
    assert can_compile([missing, found])


def test_variables_that_are_set_are_told(monkeypatch):
    monkeypatch.setenv("TILELANG_NUM_THREADS", "3")
    assert "'3' in the environment" == found("TILELANG_NUM_THREADS").found


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 bytes"), (1023, "1023 bytes"), (1536, "1.5 KiB"), (3 << 20, "3 MiB"), (5 << 30, "5 GiB")]
)
def test_sizes_have_the_unit_that_suits_them(count, text):
    assert text == size_text(count)
