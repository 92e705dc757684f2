"""What searches found, kept in the compile cache, so that no process tunes what was tuned before.

Takes a subject with its configurations; gives findings. Invariant: findings are found again only for the same program,
configurations, target, options, device and version of this package.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from tilelang.ir.compare import digest
from tilelang.jit.program import package_fingerprint
from tilelang.jit.signature import key_of_value
from tilelang.options import CompileOptions, is_cache_enabled
from tilelang.runtime import cache
from tilelang.runtime.arrays import borrow
from tilelang.tune.device import device_name
from tilelang.tune.inputs import get_autotune_inputs
from tilelang.tune.result import Findings, from_json, to_json
from tilelang.tune.space import Config
from tilelang.tune.subject import Subject

_FORMAT = "tuned-1"
_SUFFIX = ".tuned.json"


class Record:
    """The place of one search's findings; none without the compile cache, or where no program can be made.

    Args:
        subject: What is tuned.
        configs: The configurations.
        supply_prog: What makes the inputs, whose sizes may decide which configuration is the fastest.
    """

    def __init__(self, subject: Subject, configs: Sequence[Config], supply_prog: Callable[..., Any] | None) -> None:
        self._configs = configs
        self._key = _key(subject, configs, supply_prog) if is_cache_enabled() else None

    def load(self) -> Findings | None:
        """What was found before, or None."""
        data = None if self._key is None else cache.lookup(self._key, _SUFFIX)
        return None if data is None else from_json(data, self._configs)

    def save(self, found: Findings) -> None:
        """Keeps what was found."""
        if self._key is not None:
            cache.store(self._key, _SUFFIX, to_json(found, self._configs))


def _key(subject: Subject, configs: Sequence[Config], supply_prog: Callable[..., Any] | None) -> str | None:
    """All that decides what is found; None if no configuration gives a program."""
    program = _first_digest(subject, configs)
    if program is None:
        return None
    options = subject.jitted.options
    return cache.key_of(
        _FORMAT,
        program,
        _text(subject.jitted.func),
        repr([key_of_value(config) for config in configs]),
        str(subject.target),
        subject.execution_backend,
        CompileOptions.from_user(options.pass_configs, options.compile_flags).key,
        device_name(subject.target),
        package_fingerprint(),
        _text(supply_prog),
        repr([_shape(value) for value in get_autotune_inputs() or ()]),
        repr([_shape(value) for value in subject.given.values()]) if subject.is_eager else "",
    )


def _first_digest(subject: Subject, configs: Sequence[Config]) -> str | None:
    """The digest of the program for the first configuration that gives one; the function's text stands for the rest."""
    for config in configs:
        try:
            return digest(subject.program(config))
        except Exception:  # what fails here is found and reported by the search
            continue
    return None


def _text(function: Callable[..., Any] | None) -> str:
    if function is None:
        return ""
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):
        return repr(function)


def _shape(value: Any) -> object:
    view = borrow(value)
    return type(value).__name__ if view is None else (tuple(view.shape), view.dtype_text)
