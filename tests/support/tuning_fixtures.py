"""Searches of the tuner that measure for a short time."""

from importlib import import_module
from typing import Any

import pytest


@pytest.fixture
def short_measurements(monkeypatch: pytest.MonkeyPatch) -> None:
    """Times each kernel for 5 ms, not the 100 ms of the default: for tests in which any may be the fastest."""
    measure = import_module("tilelang.tune.measure")
    race = measure.race

    def briefly(*args: Any, **options: Any) -> Any:
        return race(*args, **{**options, "warmup": 1, "rep": 5})

    monkeypatch.setattr(measure, "race", briefly)
