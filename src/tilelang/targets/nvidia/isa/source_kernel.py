"""A whole kernel that is the user's own CUDA text, as an instruction that stands for the body of its launch.

Takes the text and the name of its kernel, gives a `SourceKernel`. Invariant: the text defines a `__global__` function
of that name, which the driver finds by it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

from tilelang.errors import NoLowering, ProgramValueError
from tilelang.isa.instruction import Instruction
from tilelang.isa.simulated import Warp
from tilelang.records import record

_COMMENTS_AND_STRINGS = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)  # comments and strings
# what may stand between `__global__` and the name with arguments in parentheses.
# Source: CUDA C++ Programming Guide, "Launch Bounds", "Maximum Number of Registers per Thread", "Thread Block Clusters"
_QUALIFIERS = frozenset({"__launch_bounds__", "__maxnreg__", "__cluster_dims__", "__block_size__", "__attribute__"})


@record(slots=True, eq=False)
class SourceKernel(Instruction):
    """A kernel of the user's own text.

    `texts` holds the source, by "cuda", and the kernel's name, by "entry".
    """

    @property
    def text(self) -> str:
        """CUDA C++ that defines the kernel."""
        return self.texts["cuda"]

    @property
    def entry(self) -> str:
        """The kernel's name."""
        return self.texts["entry"]


@record
class Entry:
    """A `__global__` function of a text.

    Attributes:
        name: Its name.
        begin: Where its `__global__` stands in the text.
        parameters: How many it takes.
    """

    name: str
    begin: int
    parameters: int


def source_kernel(text: str, entry: str, given: int) -> SourceKernel:
    """The kernel of a text; it is launched with `given` arguments, of which it may take fewer.

    Raises:
        ProgramValueError: The text has no kernel of that name, or it takes more parameters than there are arguments.
    """
    what = "T.CUDASourceCodeKernel"
    entries = {found.name: found for found in entries_of(text)}
    found = entries.get(entry)
    if found is None:
        choice = f"Available entries: {', '.join(entries)}" if entries else "it defines no __global__ function"
        message = f"{what}: the source defines no kernel '{entry}'. {choice}"
        raise ProgramValueError(message, hint="write entry_name=...")
    if found.parameters > given:
        raise ProgramValueError(
            f"{what}: '{entry}' takes {found.parameters} parameters, but is launched with {given} arguments",
            hint="it is given the tensors of the function, then the sizes that the grid and the shapes name",
        )
    texts = {"cuda": _with_c_linkage(text, entries.values()), "entry": entry}
    return SourceKernel("CUDASourceCodeKernel", texts, {}, _refuse, verbatim=True, source="the user's source")


def entries_of(text: str) -> list[Entry]:
    """The `__global__` functions that a text defines or declares, in order."""
    visible = _COMMENTS_AND_STRINGS.sub(lambda found: " " * len(found[0]), text)
    found = [_entry(visible, match.start(), match.end()) for match in re.finditer(r"\b__global__\b", visible)]
    return [entry for entry in found if entry is not None]


def _entry(text: str, begin: int, at: int) -> Entry | None:
    """The function whose head goes on at a place."""
    token = re.compile(r"\s*(\w+|\S)")
    name = ""
    while (match := token.match(text, at)) is not None and match[1] not in ("{", "}", ";"):
        at = match.end()
        if match[1] != "(":
            name = match[1]
            continue
        end = _closing(text, at)
        if name not in _QUALIFIERS:
            return Entry(name, begin, _count(text[at : end - 1])) if name.isidentifier() else None
        at = end
    return None


def _closing(text: str, at: int) -> int:
    """The place after the parenthesis that closes the one before a place."""
    depth = 1
    while at < len(text) and depth:
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        at += 1
    return at


def _count(parameters: str) -> int:
    """Count the parameters of a list."""
    if parameters.strip() in ("", "void"):
        return 0
    return 1 + sum(1 for _ in _top_level_commas(parameters))


def _top_level_commas(text: str) -> Iterator[int]:
    depth = 0
    for position, letter in enumerate(text):
        depth += (letter in "([{<") - (letter in ")]}>")
        if letter == "," and not depth:
            yield position


def _with_c_linkage(text: str, entries: Iterable[Entry]) -> str:
    """The text whose kernels have plain names: without `extern "C"` they would be mangled.

    Templates stay as they are, since they cannot have it.
    """
    for entry in sorted(entries, key=lambda entry: -entry.begin):
        before, after = text[: entry.begin], text[entry.begin :]
        if not re.search(r'(extern\s*"C"|>)\s*((static|inline)\s+)*$', before):
            text = f'{before}extern "C" {after}'
    return text


def _refuse(warp: Warp, *arguments: Any) -> NoReturn:
    raise NoLowering(
        "T.CUDASourceCodeKernel: a kernel that is only available as CUDA source cannot be simulated",
        hint="write it with the operators of the language, or run it on a GPU",
    )
