"""Lists the invented vendor among the families of targets."""

import pytest

from tilelang.targets import registry


@pytest.fixture
def invented(monkeypatch):
    monkeypatch.setattr(registry, "_VENDORS", (*registry._VENDORS, "invented.family"))
    registry.families.cache_clear()
    yield
    registry.families.cache_clear()
