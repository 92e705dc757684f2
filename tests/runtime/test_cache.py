import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilelang.errors import CacheError
from tilelang.runtime.cache import get_or_make, key_of, lookup, store


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_content_is_made_once() -> None:
    calls = []
    for _ in range(3):
        path = get_or_make(key_of("a"), ".so", lambda: calls.append(1) or b"content")  # type: ignore[func-returns-value]
        assert path.read_bytes().startswith(b"content")
    assert [1] == calls
    assert b"content" == lookup(key_of("a"), ".so")


def test_there_is_nothing_under_a_key_that_was_not_stored() -> None:
    assert None is lookup(key_of("b"), ".so")


@given(st.lists(st.text(max_size=5), max_size=4), st.lists(st.text(max_size=5), max_size=4))
def test_keys_tell_lists_of_texts_apart(a: list[str], b: list[str]) -> None:
    assert (a == b) == (key_of(*a) == key_of(*b))


@pytest.mark.parametrize("damage", ["truncate", "flip", "append", "empty"])
def test_a_damaged_entry_is_made_again(damage: str) -> None:
    key = key_of("c")
    path = store(key, ".so", b"x" * 1000)
    data = bytearray(path.read_bytes())
    if damage == "truncate":
        data = data[:500]
    elif damage == "flip":
        data[17] ^= 1
    elif damage == "append":
        data += b"junk"
    else:
        data.clear()
    path.write_bytes(bytes(data))
    assert None is lookup(key, ".so")
    get_or_make(key, ".so", lambda: b"x" * 1000)
    assert b"x" * 1000 == lookup(key, ".so")


def test_a_failed_make_leaves_nothing(folder: Path) -> None:
    def fail() -> bytes:
        raise ValueError

    with pytest.raises(ValueError):
        get_or_make(key_of("d"), ".so", fail)
    assert [] == [path for path in folder.rglob("*") if path.is_file()]


def test_a_folder_that_cannot_be_made_is_one_error_with_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path / "file" / "cache"))
    with pytest.raises(CacheError) as caught:
        store(key_of("e"), ".so", b"")
    assert (
        f"compile cache: cannot write to {tmp_path}/file/cache: Not a directory\n"
        "hint: set TILELANG_CACHE_DIR to a folder that can be written, or TILELANG_DISABLE_CACHE=1"
    ) == str(caught.value)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission_is_the_same_error(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
    with pytest.raises(CacheError, match="Permission denied"):
        store(key_of("f"), ".so", b"")


_WRITER = """
import sys
from tilelang.runtime.cache import lookup, store
for _ in range(200):
    store("ab" * 32, ".so", b"y" * 20000)
    assert lookup("ab" * 32, ".so") == b"y" * 20000
"""


def test_many_processes_write_and_read_one_entry(folder: Path) -> None:
    processes = [subprocess.Popen([sys.executable, "-c", _WRITER]) for _ in range(4)]
    assert [0, 0, 0, 0] == [process.wait() for process in processes]
    assert 1 == len([path for path in folder.rglob("*") if path.is_file()])
