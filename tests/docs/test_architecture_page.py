"""The tables of passes in docs/architecture.md are those of the pipelines, in their order."""

import re
from pathlib import Path

from tilelang.targets.cpu import backend as cpu
from tilelang.targets.nvidia import backend as cuda

PAGE = Path(__file__).resolve().parents[2] / "docs" / "architecture.md"


def test_the_tables_of_passes_are_the_pipelines() -> None:
    tables = re.findall(r"\| pass \| what it does \|\n\|---\|---\|\n((?:\|.*\n)+)", PAGE.read_text())
    named = [re.findall(r"^\| `(\w+)`", table, re.MULTILINE) for table in tables]
    assert [[p.name for p in backend.BACKEND.passes] for backend in (cpu, cuda)] == named
