from pathlib import Path

import pytest
from fake_cuda import launch

from tilelang.codegen.source import Source
from tilelang.errors import OptionError
from tilelang.options import CompileOptions
from tilelang.targets.gpu.runtime.device_code import BuiltCode, DeviceCode, built_once, with_launch_memory
from tilelang.targets.gpu.runtime.resources import Resources

MADE = BuiltCode(b"\x7fELF\nwith a line break", {"k": Resources(64, 128, 0, 0, True, 32)}, ("slow",))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def forbidden() -> BuiltCode:
    raise AssertionError("compiled again")


def test_code_is_built_once_per_key() -> None:
    assert MADE == built_once(("text", "arch"), ".code", lambda: MADE)
    assert MADE == built_once(("text", "arch"), ".code", forbidden)
    other = BuiltCode(b"other", {})
    assert other == built_once(("text", "another arch"), ".code", lambda: other)


def test_without_a_cache_code_is_built_every_time(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setenv("TILELANG_DISABLE_CACHE", "1")
    assert MADE == built_once(("text",), ".code", lambda: MADE)
    with pytest.raises(AssertionError, match="compiled again"):
        built_once(("text",), ".code", forbidden)
    assert not folder.exists()


def test_a_damaged_entry_is_built_again(folder: Path) -> None:
    built_once(("text",), ".code", lambda: MADE)
    (kept,) = folder.rglob("*.code")
    kept.write_bytes(kept.read_bytes()[:-1])
    assert MADE == built_once(("text",), ".code", lambda: MADE)


def test_the_shared_memory_of_a_launch_is_added() -> None:
    source = Source("any", "", "k", launches=(launch(name="k", shared_bytes=4096),))
    used = with_launch_memory(source, {"k": Resources(1, 100, 0, 0), "other": Resources(1, 7, 0, 0)})
    assert {"k": 4196, "other": 7} == {name: resources.shared_bytes for name, resources in used.items()}


def test_code_has_no_ptx_unless_its_vendor_says_so() -> None:
    code = DeviceCode(Source("any", "", "k"), "gfx942", "clang", CompileOptions(), b"", {}, ())
    with pytest.raises(OptionError) as caught:
        code.ptx()
    assert "get_ptx: code for gfx942 is not compiled by way of PTX" == caught.value.message
    assert "write kernel.get_sass() for its machine code in words" == caught.value.hint
