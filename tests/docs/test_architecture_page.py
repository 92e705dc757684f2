"""docs/architecture.md takes five minutes; the tables in docs/passes.md are what the passes say, in the order of the pipelines."""

import re

import generate_pass_tables as generator
import pytest

from tilelang.passes.properties import Property
from tilelang.targets.amd import backend as hip
from tilelang.targets.cpu import backend as cpu
from tilelang.targets.nvidia import backend as cuda


def test_the_architecture_takes_five_minutes_to_read() -> None:
    words = (generator.PATH.parent / "architecture.md").read_text().split()
    assert len(words) < 1500  # at 300 words a minute


def test_the_page_is_what_the_passes_say() -> None:
    text = generator.PATH.read_text()
    assert text == generator.page(text)


def test_the_tables_of_passes_are_the_pipelines() -> None:
    tables = re.findall(r"\| pass \| what it does \|.*\n\|[-|]*\n((?:\|.*\n)+)", generator.PATH.read_text())
    named = [re.findall(r"^\| `(\w+)`", table, re.MULTILINE) for table in tables]
    assert [[p.name for p in backend.BACKEND.passes] for backend in (cpu, cuda, hip)] == named


def test_every_property_has_a_row() -> None:
    text = generator.PATH.read_text()
    assert [] == [each.label for each in Property if f"| {each.label} | {each.meaning}" not in text]


def test_a_page_without_a_place_for_a_table_is_refused() -> None:
    with pytest.raises(SystemExit, match="no place for the table 'cpu'"):
        generator.page("# Passes\n")
