"""Lists the invented vendor among the families of targets."""

import pytest

from tilelang.targets import registry


@pytest.fixture
def invented(monkeypatch):
    monkeypatch.setitem(registry._VENDORS, "invented", "invented.family")
    yield
    registry.family_of.cache_clear()
