"""Writes what docs/from_mathematics_to_a_kernel.md prints; `--check` only says whether it is fresh.

A printed text stands between two comments, of which the first has the expression: it is evaluated with the names that
the Python blocks above it define.
"""

import re
from pathlib import Path

from generated_file import write_or_check

PATH = Path(__file__).resolve().parent / "from_mathematics_to_a_kernel.md"
_PRINTED = re.compile(
    r"<!-- printed: (?P<expression>[^\n]+) -->\n\n```(?P<kind>\w+)\n.*?\n```\n\n<!-- end of printed -->", re.DOTALL
)
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def page(text: str) -> str:
    """The page with its printed texts made anew."""
    names: dict[str, object] = {"__name__": PATH.stem}
    parts, place = [], 0
    for found in _PRINTED.finditer(text):
        before = text[place : found.start()]
        for block in _BLOCK.finditer(before):
            lines = text.count("\n", 0, place + block.start(1))  # arrays are named by the lines of the page
            exec(compile("\n" * lines + block[1], str(PATH), "exec"), names)
        expression, kind = found["expression"], found["kind"]
        printed = str(eval(expression, names)).rstrip("\n")
        parts += [before, f"<!-- printed: {expression} -->\n\n```{kind}\n{printed}\n```\n\n<!-- end of printed -->"]
        place = found.end()
    if not parts:
        raise SystemExit(f"{PATH.name} has no place for a printed text")
    return "".join([*parts, text[place:]])


if __name__ == "__main__":
    write_or_check(PATH, page(PATH.read_text(encoding="utf-8")), f"{PATH.name} does not show what the compiler prints")
