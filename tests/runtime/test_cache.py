import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilelang.errors import ProgramWarning
from tilelang.runtime import cache
from tilelang.runtime.cache import is_writable, key_of, lookup, open_or_make, store


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_content_is_made_once() -> None:
    calls = []
    for _ in range(3):
        content = open_or_make(key_of("a"), ".so", lambda: calls.append(1) or b"content", Path.read_bytes)
        assert content.startswith(b"content")
    assert [1] == calls
    assert b"content" == lookup(key_of("a"), ".so")


def test_there_is_nothing_under_a_key_that_was_not_stored() -> None:
    assert None is lookup(key_of("b"), ".so")


# of few characters, so that texts of lists agree where they are joined
TEXTS = st.lists(st.text("ab0\0\n\x1f é\U0001f600", max_size=5), max_size=4)


@given(TEXTS, TEXTS)
def test_keys_of_different_lists_of_texts_differ(a: list[str], b: list[str]) -> None:
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
    open_or_make(key, ".so", lambda: b"x" * 1000, Path.exists)
    assert b"x" * 1000 == lookup(key, ".so")


def test_a_failed_make_stores_nothing(folder: Path) -> None:
    def fail() -> bytes:
        raise ValueError

    with pytest.raises(ValueError):
        open_or_make(key_of("d"), ".so", fail, Path.exists)
    assert [] == [path for path in folder.rglob("*") if path.is_file()]


def test_a_folder_that_cannot_be_created_is_one_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path / "file" / "cache"))
    monkeypatch.setattr(cache, "_UNUSABLE", set())
    with pytest.warns(ProgramWarning) as caught:
        assert None is store(key_of("e"), ".so", b"")
    message = str(caught.pop().message).split("\n")
    assert (
        f"compile cache: cannot write to {tmp_path}/file/cache: Not a directory; "
        "kernels are compiled again in every process"
    ) == message[0]
    assert "hint: set TILELANG_CACHE_DIR to a folder that can be written, or TILELANG_DISABLE_CACHE=1" == message[-1]
    for _ in range(2):
        assert b"made" == open_or_make(key_of("e"), ".so", lambda: b"made", Path.read_bytes)
    assert not is_writable()
    assert None is lookup(key_of("e"), ".so")


def test_no_home_folder_is_the_same_kind_of_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TILELANG_CACHE_DIR")
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    monkeypatch.setattr(cache, "_UNUSABLE", set())
    with pytest.warns(ProgramWarning, match="compile cache: there is no home folder for it; kernels are"):
        assert not is_writable()
    assert b"made" == open_or_make(key_of("e"), ".so", lambda: b"made", Path.read_bytes)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_entries_of_a_folder_that_may_only_be_read_are_used(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "_UNUSABLE", set())
    store(key_of("f"), ".so", b"kept")
    folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
    assert b"kept" == lookup(key_of("f"), ".so")
    with pytest.warns(ProgramWarning, match="Permission denied"):
        assert None is store(key_of("g"), ".so", b"")
    folder.chmod(stat.S_IRWXU)


def test_a_disabled_cache_is_neither_read_nor_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILELANG_DISABLE_CACHE", "1")
    assert b"made" == open_or_make(key_of("h"), ".so", lambda: b"made", Path.read_bytes)
    assert not is_writable()
    assert not folder.exists()


def test_entries_are_listed_and_removed_and_nothing_else(folder: Path) -> None:
    assert [] == cache.entries()
    kept = sorted(store(key_of(name), ".so", b"x") for name in "ab")
    (folder / "notes.txt").write_text("mine")
    assert kept == cache.entries()
    assert 2 == cache.clear()
    assert [] == cache.entries()
    assert ["notes.txt"] == [path.name for path in folder.rglob("*") if path.is_file()]


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


def test_what_is_read_and_stored_is_recorded() -> None:
    cache.store(cache.key_of("before"), ".a", b"one")
    with cache.recorded() as entries:
        assert b"one" == cache.lookup(cache.key_of("before"), ".a")
        cache.store(cache.key_of("inside"), ".b", b"two")
        assert cache.lookup(cache.key_of("nothing"), ".c") is None
    cache.store(cache.key_of("after"), ".d", b"three")
    assert {(cache.key_of("before"), ".a"): b"one", (cache.key_of("inside"), ".b"): b"two"} == entries
