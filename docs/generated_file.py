"""The command line of the scripts that write files: they write one, or with `--check` say that it is stale."""

import sys
from pathlib import Path


def write_or_check(path: Path, text: str, stale: str) -> None:
    """Writes a text, or with `--check` exits with the message where the file holds something else."""
    if "--check" not in sys.argv[1:]:
        path.write_text(text, encoding="utf-8")
    elif not path.exists() or path.read_text(encoding="utf-8") != text:
        raise SystemExit(f"{stale}: run `make docs`")
