"""Breaks long lines of printed programs inside brackets, as formatters of Python do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

WIDTH = 120
_INDENT = "    "
_OPEN, _CLOSE = "([{", ")]}"
_OPERATORS = (" or ", " and ", " + ", " - ", " * ", " / ")  # those that bind least come first


def wrapped(lines: Sequence[str], width: int = WIDTH) -> Iterator[str]:
    """The lines, of which those that are too long are broken where they have brackets.

    Args:
        lines: Statements of Python without comments, one each.
        width: The most characters of a line, where there is a place to break it.
    """
    for line in lines:
        yield from _wrapped(line, width)


def _wrapped(line: str, width: int) -> Iterator[str]:
    indent = line[: len(line) - len(line.lstrip())]
    group = _largest_group(line) if len(line) > width else None
    if group is None:
        yield line
        return
    first, last = group
    yield from _wrapped(line[: first + 1], width)
    content = line[first + 1 : last]
    for part in _parts(content) if len(indent) + len(_INDENT) + len(content) > width else [content]:
        yield from _wrapped(f"{indent}{_INDENT}{part}", width)
    yield from _wrapped(f"{indent}{line[last:]}", width)


def _largest_group(line: str) -> tuple[int, int] | None:
    """The places of the outermost pair of brackets with the most between them; None if all are too short to help."""
    best: tuple[int, int] | None = None
    for first, last in _groups(line):
        if best is None or last - first > best[1] - best[0]:
            best = first, last
    return best if best is not None and best[1] - best[0] > len(_INDENT) + 1 else None


def _groups(line: str) -> Iterator[tuple[int, int]]:
    depth = first = 0
    for place, outermost in _characters(line):
        if line[place] in _OPEN:
            first = place if outermost else first
            depth += 1
        elif line[place] in _CLOSE:
            depth -= 1
            if depth == 0:
                yield first, place


def _characters(text: str) -> Iterator[tuple[int, bool]]:
    """The places outside of string literals, and whether each is outside of brackets; a bracket counts as outside."""
    depth, quote = 0, ""
    for place, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
            continue
        if character in "\"'":
            quote = character
            continue
        if character in _CLOSE:
            depth -= 1
        yield place, depth == 0
        if character in _OPEN:
            depth += 1


def _parts(content: str) -> list[str]:
    """The lines of what is between brackets: its elements with their commas, or the operands of its operators."""
    outside = {place for place, is_outside in _characters(content) if is_outside}
    commas = [place for place in sorted(outside) if content.startswith(", ", place)]
    if commas:
        ends = [*(place + 1 for place in commas), len(content)]
        starts = [0, *(place + 2 for place in commas)]
        return [content[a:b] for a, b in zip(starts, ends, strict=True)]
    for operator in _OPERATORS:
        places = [place for place in sorted(outside) if content.startswith(operator, place)]
        if places:
            starts, ends = [0, *(place + 1 for place in places)], [*places, len(content)]
            return [content[a:b] for a, b in zip(starts, ends, strict=True)]
    return [content]
