"""What docs/from_mathematics_to_a_kernel.md says is printed is what the compiler prints."""

import importlib.util
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.fixture(scope="module")
def generator():
    spec = importlib.util.spec_from_file_location("generate_printed_programs", DOCS / "generate_printed_programs.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_shows_what_is_printed(generator, calling_line) -> None:
    text = generator.PATH.read_text()
    assert text == generator.page(text), "run docs/generate_printed_programs.py"


def test_a_page_without_a_place_is_refused(generator) -> None:
    with pytest.raises(SystemExit, match="no place for a printed text"):
        generator.page("# From mathematics to a kernel\n")
