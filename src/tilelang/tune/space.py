"""The list of configurations, from every form in which users write them.

Invariant: each names parameters of the tuned function only, none appears twice, and the order is the user's.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilelang.errors import OptionError, TuningError, nearest
from tilelang.jit.signature import key_of_value
from tilelang.tune.subject import PASS_CONFIGS, Subject

Config = dict[str, Any]
Configs = Sequence[Mapping[str, Any]] | Mapping[str, Sequence[Any]] | Callable[..., Any]


def configurations(configs: Configs, subject: Subject) -> list[Config]:
    """The configurations for one call, without duplicates.

    Arguments of the call override those of configurations.

    Raises:
        OptionError: Their form is invalid, they name no parameter of the function, or there are none.
        TuningError: The function that makes them failed.
    """
    if callable(configs):
        configs = _call_config_function(configs, subject)
    found: dict[Any, Config] = {}
    pinned = subject.pinned
    for config in _as_list(configs, subject.name):
        _check(config, subject)
        merged = {name: pinned.get(name, value) for name, value in config.items()}
        found.setdefault(key_of_value(merged), merged)
    if not found:
        raise OptionError(
            f"autotune: there are no configurations of '{subject.name}' to choose from",
            hint="pass configs={'block_M': [64, 128], ...} or a list of dicts",
        )
    return list(found.values())


def text_of(config: Mapping[str, Any]) -> str:
    """A configuration as the arguments of a call."""
    return ", ".join(f"{name}={_value_text(value)}" for name, value in config.items()) or "no arguments"


def _value_text(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{str(k)!r}: {_value_text(v)}" for k, v in value.items()) + "}"
    name = getattr(value, "__qualname__", None) or getattr(value, "name", None)
    text = name if isinstance(name, str) and not isinstance(value, str) else repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _as_list(configs: Any, name: str) -> list[Mapping[str, Any]]:
    """The configurations as a list."""
    if isinstance(configs, Mapping):
        for key, values in configs.items():
            if isinstance(values, str | Mapping) or not hasattr(values, "__iter__"):
                raise OptionError(
                    f"autotune: configs: {key!r} is {_value_text(values)}, expected a list of values to choose from",
                    hint=f"write configs={{{key!r}: [{_value_text(values)}]}}",
                )
        names = list(configs)
        columns = [list(values) for values in configs.values()]
        return [dict(zip(names, row, strict=True)) for row in itertools.product(*columns)] if names else []
    if isinstance(configs, str) or not hasattr(configs, "__iter__"):
        raise OptionError(
            f"autotune: configs of '{name}' must be a list of dicts, a dict of lists or a function that gives one, "
            f"got {type(configs).__name__}",
            hint="write configs={'block_M': [64, 128], 'block_N': [64, 128]}",
        )
    rows = list(configs)
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise OptionError(
                f"autotune: configuration {number} of '{name}' must be a dict, got {_value_text(row)}",
                hint="write configs=[{'block_M': 64}, {'block_M': 128}]",
            )
    return rows


def _check(config: Mapping[str, Any], subject: Subject) -> None:
    """Raises for names that the function does not have."""
    parameters = subject.signature.parameters
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return
    for name in config:
        if name == PASS_CONFIGS and name not in parameters:
            if config[name] is not None and not isinstance(config[name], Mapping):
                raise OptionError(
                    f"autotune: 'pass_configs' of a configuration must be a dict, got {_value_text(config[name])}",
                    hint="write {'block_M': 64, 'pass_configs': {'tl.stages': 4}}",
                )
        elif name not in parameters:
            names = [*parameters, PASS_CONFIGS]
            alike = [other for other in names if other.lower() == str(name).lower()]
            near = alike[0] if alike else nearest(str(name), names, 0.5)
            raise OptionError(
                f"autotune: the configuration {text_of(config)} names '{name}', which is no parameter of "
                f"'{subject.name}'",
                hint=f"did you mean '{near}'?" if near else f"its parameters are {', '.join(parameters)}",
            )


def _call_config_function(make: Callable[..., Any], subject: Subject) -> Any:
    """Calls a function that makes configurations with those arguments of the tuned function that it names.

    It may also name `target`, the target of compilation, and `tunables`, the names of parameters without a value.
    """
    offered = {"target": subject.target, "tunables": subject.tunables, **subject.known}
    form = inspect.signature(make)
    parameters = form.parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        keywords = subject.known
    else:
        keywords = {p.name: offered[p.name] for p in parameters if p.name in offered and p.kind is not p.VAR_POSITIONAL}
    try:
        form.bind(**keywords)
    except TypeError as error:
        raise OptionError(
            f"autotune: the function that makes configurations of '{subject.name}' cannot be called: {error}",
            hint=f"its parameters are found by name among those of '{subject.name}', 'target' and 'tunables'",
        ) from None
    try:
        return make(**keywords)
    except Exception as error:
        raise TuningError(
            f"autotune: the function that makes configurations of '{subject.name}' failed: "
            f"{type(error).__name__}: {error}"
        ) from error
