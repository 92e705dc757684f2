"""Each program of docs/mistakes.md has the message that the page shows, and what it says to write instead has none."""

import importlib.util
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.fixture
def generator(monkeypatch):
    monkeypatch.setattr("tilelang.environment._CacheSwitch.enabled", None)  # which the generator sets
    spec = importlib.util.spec_from_file_location("generate_mistakes", DOCS / "generate_mistakes.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_shows_the_messages_as_they_print(generator, calling_line) -> None:
    text = generator.PATH.read_text()
    assert text == generator.page(text), "run docs/generate_mistakes.py"


@pytest.mark.parametrize(
    ("wrong", "right", "message"), [("x = 1\n", "x = 1\n", "no message"), ("T.zeros\n", "T.zeros\n", "there is no such")]
)
def test_a_program_without_a_mistake_and_a_wrong_correction_are_refused(generator, wrong, right, message) -> None:
    with pytest.raises(SystemExit, match=message):
        generator.page(f"```python\n{wrong}```\n\n```text\n```\n\nWrite:\n\n```python\n{right}```\n")
