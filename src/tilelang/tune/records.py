"""Results of searches in the compile cache, so that no process repeats a search.

Invariant: a result is only used for the same program, configurations, target, options, device and version of this
package.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from tilelang.environment import is_cache_enabled
from tilelang.ir.compare import digest
from tilelang.jit.program import package_fingerprint
from tilelang.jit.signature import key_of_value
from tilelang.options import CompileOptions
from tilelang.runtime import cache
from tilelang.runtime.arrays import borrow
from tilelang.tune.device import device_name
from tilelang.tune.inputs import get_autotune_inputs
from tilelang.tune.result import SearchResult, from_json, to_json
from tilelang.tune.settings import Settings
from tilelang.tune.space import Config
from tilelang.tune.subject import Subject

_FORMAT = "tuned-1"
_SUFFIX = ".tuned.json"


class Record:
    """The cache entry of one search; disabled without a compile cache, or if no program can be made.

    Args:
        subject: The tuned function with the arguments of a call.
        configs: The configurations.
        settings: How to search: inputs, whose sizes may determine the fastest configuration, and how many are measured.
    """

    def __init__(self, subject: Subject, configs: Sequence[Config], settings: Settings) -> None:
        self._configs = configs
        self._key = _key(subject, configs, settings) if is_cache_enabled() else None

    def load(self) -> SearchResult | None:
        """The stored result, or None."""
        data = None if self._key is None else cache.lookup(self._key, _SUFFIX)
        return None if data is None else from_json(data, self._configs)

    def save(self, found: SearchResult) -> None:
        """Stores a result."""
        if self._key is not None:
            cache.store(self._key, _SUFFIX, to_json(found, self._configs))


def _key(subject: Subject, configs: Sequence[Config], settings: Settings) -> str | None:
    """The key of a search; None if no configuration has a program."""
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
        device_name(subject.target) if settings.executor is None else type(settings.executor).__name__,
        package_fingerprint(),
        _text(settings.supply_prog),
        str(settings.trials),
        repr([_shape(value) for value in get_autotune_inputs() or ()]),
        repr([_shape(value) for value in subject.given.values()]) if subject.is_eager else "",
    )


def _first_digest(subject: Subject, configs: Sequence[Config]) -> str | None:
    """The digest of the first valid program; other configurations are represented by the function's source."""
    for config in configs:
        try:
            return digest(subject.program(config))
        except Exception:  # failures are reported by the search
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
