"""Compiles files with a mistake and compares the whole message."""

import linecache
import traceback
from pathlib import Path

import pytest

import tilelang
from tilelang import errors

HEADER = """\
import numpy as np

import tilelang
import tilelang.language as T

"""


def compile_file(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Runs a text as the user's file kernel.py and compiles the kernel `main` in it."""
    monkeypatch.chdir(folder)
    linecache.clearcache()  # of another kernel.py
    (folder / "kernel.py").write_text(HEADER + text)
    names: dict[str, object] = {"__name__": "kernel"}
    exec(compile(HEADER + text, "kernel.py", "exec"), names)
    tilelang.compile(names["main"], target="cpu")  # type: ignore[arg-type]


def file_names(error: BaseException) -> list[str]:
    """The files of the frames of a traceback, without those of this file."""
    names = [Path(frame.filename).name for frame in traceback.extract_tb(error.__traceback__)]
    return [name for name in names if name != Path(__file__).name]


def assert_message(
    folder: Path, monkeypatch: pytest.MonkeyPatch, text: str, kind: type[errors.TileLangError], message: str
) -> None:
    """The file raises this error with exactly this message, and no frame of the package is in the traceback."""
    with pytest.raises(errors.TileLangError) as caught:
        compile_file(folder, monkeypatch, text)
    assert message.rstrip() == str(caught.value)
    assert kind is type(caught.value)
    assert caught.value.__cause__ is None
    assert {"kernel.py"} >= set(file_names(caught.value))
