"""The page on published TileLang names test files that exist, and as absent only names that the language lacks."""

import re
from pathlib import Path

import tilelang.language as T

TESTS = Path(__file__).resolve().parents[1]
PAGE = (TESTS.parent / "docs" / "compatibility.md").read_text()


def test_every_test_file_that_is_named_exists() -> None:
    named = set(re.findall(r"`([\w/]+\.py)`", PAGE))
    assert "language/test_types.py" in named
    assert [] == sorted(name for name in named if not (TESTS / name).is_file())


def test_names_that_are_called_absent_are_absent() -> None:
    absent = [row.split("|")[1] for row in PAGE.splitlines() if "there is no such name" in row]
    names = {name for cell in absent for name in re.findall(r"`T\.(\w+)`", cell)}
    assert [] == sorted(name for name in names if hasattr(T, name))
