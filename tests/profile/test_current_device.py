import sys
from types import SimpleNamespace

import pytest

from tilelang.utils.device import get_current_device


def test_the_current_device_is_that_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = SimpleNamespace(is_available=lambda: True, current_device=lambda: 3)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda, device=lambda name: f"device {name}"))
    assert 3 == get_current_device()
    cuda.is_available = lambda: False
    assert "device cpu" == get_current_device()
    monkeypatch.delitem(sys.modules, "torch")
    assert "cpu" == get_current_device()
