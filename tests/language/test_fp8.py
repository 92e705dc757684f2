import sys
from types import SimpleNamespace

import pytest

import tilelang.language as T
from tilelang.language.fp8 import determine_fp8_type, determine_torch_fp8_type


def test_a_format_has_a_dtype() -> None:
    assert T.float8_e4m3fn is determine_fp8_type()
    assert T.float8_e5m2 is T.fp8.determine_fp8_type("e5m2")


def test_early_gpus_of_amd_have_no_negative_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    def torch_of(arch: str) -> object:
        cuda = SimpleNamespace(
            is_available=lambda: True, get_device_properties=lambda device: SimpleNamespace(gcnArchName=arch)
        )
        return SimpleNamespace(version=SimpleNamespace(hip="6.4"), cuda=cuda)

    monkeypatch.setitem(sys.modules, "torch", torch_of("gfx942:sramecc+"))
    assert ["float8_e4m3fnuz", "float8_e5m2fnuz"] == [determine_fp8_type("e4m3"), determine_fp8_type("e5m2", 0)]
    monkeypatch.setitem(sys.modules, "torch", torch_of("gfx950"))
    assert "float8_e4m3fn" == determine_fp8_type("e4m3")


def test_another_format_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="determine_fp8_type: unknown format 'e3m4'"):
        determine_fp8_type("e3m4")
    with pytest.raises(ValueError, match="unknown format 'e3m4'"):
        determine_torch_fp8_type("e3m4")


def test_torch_s_dtype_has_the_same_name(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    assert torch.float8_e4m3fn is determine_torch_fp8_type()
    monkeypatch.delattr(torch, "float8_e5m2")
    with pytest.raises(RuntimeError, match="has no such dtype"):
        determine_torch_fp8_type("e5m2")
