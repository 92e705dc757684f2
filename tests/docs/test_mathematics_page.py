"""What docs/from_mathematics_to_a_kernel.md says is printed is what the compiler prints."""


import generate_printed_programs as generator
import pytest


def test_the_page_shows_what_is_printed(calling_line) -> None:
    text = generator.PATH.read_text()
    assert text == generator.page(text), "run docs/generate_printed_programs.py"


def test_a_page_without_a_place_is_refused() -> None:
    with pytest.raises(SystemExit, match="no place for a printed text"):
        generator.page("# From mathematics to a kernel\n")
