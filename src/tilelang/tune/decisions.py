"""Decisions of searches in a file that is checked in: which configuration a function has for which arguments.

Invariant: a decision is only used for the function, the arguments, the target and the version of this package that it
was made for; anything else is an error that says what differs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tilelang.errors import TuningError
from tilelang.records import record
from tilelang.runtime.arrays import borrow
from tilelang.tune.result import SearchResult
from tilelang.tune.space import text_of
from tilelang.tune.subject import PASS_CONFIGS, Subject

_FORMAT = "tilelang decisions 1"


@record
class Decision:
    """The configuration of one call.

    Attributes:
        function: The name of the function.
        arguments: The arguments of the call as texts, tensors by dtype and shape.
        target: What kernels are compiled for.
        config: The configuration; of a computation, how its kernels are divided.
        milliseconds: The time that was measured.
        device: On which device.
    """

    function: str
    arguments: Mapping[str, str]
    target: str
    config: Mapping[str, Any]
    milliseconds: float
    device: str

    def is_for(self, function: str, arguments: Mapping[str, str], target: str) -> bool:
        """Whether it is for a call."""
        return (self.function, dict(self.arguments), self.target) == (function, dict(arguments), target)


def decision_of(subject: Subject, found: SearchResult) -> Decision:
    """Return the decision of a search.

    Raises:
        TuningError: A value of the configuration cannot be written.
    """
    best = found.measured[0]
    try:
        json.dumps(best.config)
    except TypeError:
        raise TuningError(
            f"export: the configuration {text_of(best.config)} of '{subject.name}' cannot be written to a file",
            hint="use numbers, texts, lists and dicts as tunables",
        ) from None
    return Decision(subject.name, arguments_of(subject), str(subject.target), best.config, best.latency, found.device)


def arguments_of(subject: Subject) -> dict[str, str]:
    """The arguments of a call that are no tunables, as texts."""
    return {name: argument_text(value) for name, value in subject.pinned.items()}


def argument_text(value: Any) -> str:
    """An argument as text: a tensor by dtype and shape."""
    view = borrow(value)
    return repr(value) if view is None else f"{view.dtype_text} {list(view.shape)}"


def find_decision(path: str | Path, subject: Subject) -> Decision:
    """The decision for a call of a tuned function.

    Raises:
        TuningError: The file has none, was made by another version, or is no file of decisions.
    """
    found = find(path, subject.name, arguments_of(subject), str(subject.target))
    parameters = [*subject.signature.parameters, PASS_CONFIGS]
    for name in found.config:
        if name not in parameters:
            raise TuningError(
                f"{path}: the decision {text_of(found.config)} names '{name}', which is no parameter of "
                f"'{subject.name}'",
                hint=f"the function has changed: tune it again, and {subject.name}.export({str(path)!r})",
            )
    return found


def find(path: str | Path, function: str, arguments: Mapping[str, str], target: str) -> Decision:
    """The decision for a call.

    Raises:
        TuningError: The file has none, was made by another version, or is no file of decisions.
    """
    again = f"tune it again without decisions=, and {function}.export({str(path)!r})"
    own = [decision for decision in read_decisions(path) if decision.function == function]
    for decision in own:
        if decision.is_for(function, arguments, target):
            return decision
    wanted = f"{text_of_call(function, arguments)} for {target}"
    known = "; ".join(f"{text_of_call(function, each.arguments)} for {each.target}" for each in own)
    raise TuningError(f"{path}: no decision for {wanted}", hint=f"it has {known or 'none of this function'}; {again}")


def text_of_call(function: str, arguments: Mapping[str, str]) -> str:
    """A call as text."""
    return f"{function}({', '.join(f'{name}={value}' for name, value in arguments.items())})"


def read_decisions(path: str | Path) -> list[Decision]:
    """The decisions of a file.

    Raises:
        TuningError: It cannot be read, is no file of decisions, or was made by another version of this package.
    """
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise TuningError(f"{path}: cannot be read: {error.strerror or error}") from None
    except ValueError as error:
        raise TuningError(f"{path}: is no file of decisions: {error}") from None
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        raise TuningError(f"{path}: is no file of decisions", hint="TunedFunction.export writes one")
    if content.get("version") != version("tilelang"):
        raise TuningError(
            f"{path}: was made by version {content.get('version')} of tilelang, and this is {version('tilelang')}",
            hint="tune again and export; kernels of another version may have another fastest configuration",
        )
    try:
        return [Decision(**row) for row in content["decisions"]]
    except (TypeError, KeyError) as error:
        raise TuningError(f"{path}: has a decision that cannot be read: {error}") from None


def add_decisions(path: str | Path, decisions: Sequence[Decision]) -> None:
    """Writes decisions to a file, in place of those for the same calls.

    Raises:
        TuningError: The file exists, and is no file of decisions of this version.
    """
    file = Path(path)
    kept = read_decisions(file) if file.exists() else []
    kept = [old for old in kept if not any(new.is_for(old.function, old.arguments, old.target) for new in decisions)]
    rows = [json.dumps(asdict(each), sort_keys=True) for each in [*kept, *decisions]]
    rows.sort()
    head = [f'"format": {json.dumps(_FORMAT)},', f'"version": {json.dumps(version("tilelang"))},', '"decisions": [']
    file.write_text("\n".join(["{", *head, ",\n".join(rows), "]}", ""]), encoding="utf-8")
