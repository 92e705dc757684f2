import sys
from pathlib import Path

import pytest

import tilelang
from tilelang import environment
from tilelang.env import CacheState, env


def test_the_object_is_the_same_by_every_path() -> None:
    assert tilelang.env is env
    assert env.env is env
    assert sys.modules["tilelang.env"] is env


def test_attributes_read_the_environment_at_each_access(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path))
    assert str(tmp_path) == env.TILELANG_CACHE_DIR
    monkeypatch.delenv("TILELANG_CACHE_DIR")
    assert str(Path.home() / ".tilelang" / "cache") == env.TILELANG_CACHE_DIR
    monkeypatch.setenv("TILELANG_TMP_DIR", "/scratch")
    assert "/scratch" == env.TILELANG_TMP_DIR
    assert "/scratch" == environment.temporary_folder()
    monkeypatch.setenv("CUDA_HOME", "/opt/cuda")
    assert "/opt/cuda" == env.CUDA_HOME
    monkeypatch.setenv("TILELANG_PRINT_ON_COMPILATION", "1")
    assert "1" == env.TILELANG_PRINT_ON_COMPILATION
    assert env.is_print_on_compilation_enabled()


def test_setting_an_attribute_sets_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILELANG_NUM_THREADS", "2")
    env.TILELANG_NUM_THREADS = 3
    assert 3 == environment.num_threads()


def test_the_default_target_is_a_name_or_a_mapping(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILELANG_DEFAULT_TARGET", "cpu")
    assert "cpu" == env.get_default_target()
    monkeypatch.setenv("TILELANG_DEFAULT_TARGET", '{"kind": "cuda", "arch": "sm_80"}')
    assert {"kind": "cuda", "arch": "sm_80"} == env.get_default_target()
    monkeypatch.setenv("TILELANG_DEFAULT_TARGET", '{"kind": ')
    with pytest.raises(ValueError, match="Use JSON syntax"):
        env.get_default_target()


def test_the_cache_is_switched_by_every_spelling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment._CacheSwitch, "enabled", None)
    CacheState.disable()
    assert [False] * 4 == [
        CacheState.is_enabled(), env.is_cache_enabled(), tilelang.is_cache_enabled(), environment.is_cache_enabled()
    ]  # fmt: skip
    env.enable_cache()
    assert CacheState.is_enabled()
    assert tilelang.is_cache_enabled()


def test_an_unknown_attribute_is_told() -> None:
    with pytest.raises(AttributeError, match=r"tilelang\.env\.TILELANG_CASH_DIR: there is no such name"):
        _ = env.TILELANG_CASH_DIR
