"""Writes the messages of docs/mistakes.md; `--check` only says whether they are fresh.

A section has a program with a mistake, its message, and the program without the mistake. Both programs are run, after
the imports that the page names.
"""

import contextlib
import io
import linecache
import re
import sys
import warnings
from pathlib import Path

import tilelang

PATH = Path(__file__).resolve().parent / "mistakes.md"
IMPORTS = "import numpy as np\nimport tilelang\nimport tilelang.language as T\n\n"
FILE = "kernel.py"  # what messages call a program
_SECTION = re.compile(
    r"^```python\n(?P<wrong>.*?)^```\n\n```text\n.*?^```\n\n(?P<between>[^`]*)^```python\n(?P<right>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)


def message(program: str) -> str:
    """What a program raises or warns of; "" for one without a mistake."""
    text = IMPORTS + program
    linecache.cache[FILE] = (len(text), None, text.splitlines(keepends=True), FILE)
    with warnings.catch_warnings(record=True) as caught, contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("always")
        try:
            exec(compile(text, FILE, "exec"), {"__name__": "kernel"})
        except Exception as error:
            return f"{type(error).__name__}: {error}"
    return "\n".join(f"{warning.category.__name__}: {warning.message}" for warning in caught)


def page(text: str) -> str:
    """The page with its messages made anew.

    Raises:
        SystemExit: A program has no mistake, or its correction has one.
    """
    tilelang.disable_cache()  # what the compiler warns of is not kept in it

    def section(found: re.Match[str]) -> str:
        wrong, right = message(found["wrong"]), message(found["right"])
        if not wrong or right:
            raise SystemExit(f"{PATH.name}: no message of\n{found['wrong']}" if not wrong else f"{PATH.name}: {right}")
        return (
            f"```python\n{found['wrong']}```\n\n```text\n{wrong}\n```\n\n{found['between']}```python\n{found['right']}```"
        )

    return _SECTION.sub(section, text)


def main() -> None:
    """Writes the page, or with `--check` fails where it is stale."""
    text = PATH.read_text(encoding="utf-8")
    fresh = page(text)
    if "--check" in sys.argv[1:]:
        if text != fresh:
            raise SystemExit(f"{PATH.name} does not show the messages as they print: run `make docs`")
        return
    PATH.write_text(fresh, encoding="utf-8")


if __name__ == "__main__":
    main()
