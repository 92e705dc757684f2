"""The two ways of calling a kernel on a GPU after its first call: in machine code, or by Python."""

import time

import pytest

from tilelang.runtime.checker import dlpack_exchange
from tilelang.targets.gpu.runtime.native_launch import BUILDER


def choose_way(way, monkeypatch):
    """Keeps calls in Python if `way` is "python"; else waits for the machine code, and skips where there is none."""
    torch = pytest.importorskip("torch")
    if way == "python":
        monkeypatch.setattr(BUILDER, "get", lambda: None)
        return
    if dlpack_exchange(torch.Tensor) is None:
        pytest.skip("torch before 2.10 lends no tensors to machine code")
    BUILDER.start()
    for _ in range(1000):
        if BUILDER.get() is not None:
            return
        time.sleep(0.01)
    pytest.skip("no C++ compiler")
