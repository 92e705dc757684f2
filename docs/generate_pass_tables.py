"""Writes the tables of passes and of properties in docs/passes.md; `--check` only says whether they are fresh.

What a pass does is the first sentence of its module; what it requires, establishes and invalidates is in its record.
"""

import re
from pathlib import Path

from generated_file import write_or_check

from tilelang.passes.base import Pass
from tilelang.passes.properties import INITIAL, Property
from tilelang.targets.amd.backend import BACKEND as HIP
from tilelang.targets.cpu.backend import BACKEND as CPU
from tilelang.targets.nvidia.backend import BACKEND as CUDA

PATH = Path(__file__).resolve().parent / "passes.md"


def passes_table(passes: tuple[Pass, ...], shown: frozenset[str] = frozenset()) -> str:
    """A row for each pass; those that another table has shown only say so."""
    lines = ["| pass | what it does | requires | establishes | invalidates |", "|---|---|---|---|---|"]
    for step in passes:
        summary = "as above" if step.name in shown else step.summary
        properties = " | ".join(_labels(p) for p in (step.requires, step.establishes, step.invalidates))
        lines.append(re.sub(r" +\|", " |", f"| `{step.name}` | {summary} | {properties} |"))
    return "\n".join(lines)


def _labels(properties: tuple[Property, ...]) -> str:
    return ", ".join(each.label for each in properties)


def properties_table() -> str:
    """A row for each property, those of every program first."""
    lines = ["| property | what holds |", "|---|---|"]
    for each in Property:
        given = " (of every program to begin with)" if each in INITIAL else ""
        lines.append(f"| {each.label} | {each.meaning}{given} |")
    return "\n".join(lines)


def page(text: str) -> str:
    """The page with its tables written anew, each between two comments that name it."""
    of_cpu, of_cuda = (frozenset(step.name for step in passes) for passes in (CPU.passes, CUDA.passes))
    tables = {
        "cpu": passes_table(CPU.passes),
        "cuda": passes_table(CUDA.passes, of_cpu),
        "hip": passes_table(HIP.passes, of_cpu | of_cuda),
        "properties": properties_table(),
    }
    for name, table in tables.items():
        begin, end = f"<!-- {name}: docs/generate_pass_tables.py -->", f"<!-- end of {name} -->"
        before, _, rest = text.partition(begin)
        _, found, after = rest.partition(end)
        if not found:
            raise SystemExit(f"{PATH.name} has no place for the table '{name}'")
        text = f"{before}{begin}\n\n{table}\n\n{end}{after}"
    return text


if __name__ == "__main__":
    write_or_check(PATH, page(PATH.read_text(encoding="utf-8")), f"{PATH.name} does not say what the passes say")
