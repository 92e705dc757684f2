import logging

import pytest

from tilelang.environment import (
    VARIABLES,
    cache_folder,
    disable_cache,
    enable_cache,
    environment,
    is_cache_enabled,
    num_threads,
    set_log_level,
)
from tilelang.errors import CacheError, OptionError


def test_every_variable_says_what_it_means() -> None:
    for name, variable in VARIABLES.items():
        assert name == variable.name
        assert variable.meaning.endswith(".")


def test_variables_are_read_when_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILELANG_EXECUTION_BACKEND", " reference ")
    assert "reference" == environment("TILELANG_EXECUTION_BACKEND")
    monkeypatch.delenv("TILELANG_EXECUTION_BACKEND")
    assert "auto" == environment("TILELANG_EXECUTION_BACKEND")


def test_the_cache_folder_is_the_chosen_one_or_the_user_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILELANG_CACHE_DIR", "/somewhere")
    assert "/somewhere" == str(cache_folder())
    monkeypatch.delenv("TILELANG_CACHE_DIR")
    monkeypatch.setenv("HOME", "/home/me")
    assert "/home/me/.tilelang/cache" == str(cache_folder())


def test_no_home_folder_is_one_error_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TILELANG_CACHE_DIR", raising=False)
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    with pytest.raises(CacheError) as caught:
        cache_folder()
    assert (
        "compile cache: there is no home folder for it\n"
        "hint: set TILELANG_CACHE_DIR to a folder that can be written, or TILELANG_DISABLE_CACHE=1"
    ) == str(caught.value)


@pytest.mark.parametrize(("text", "enabled"), [("1", False), ("true", False), ("0", True), ("", True), ("off", True)])
def test_the_environment_switches_the_cache(monkeypatch: pytest.MonkeyPatch, text: str, enabled: bool) -> None:
    monkeypatch.setattr("tilelang.environment._CacheSwitch.enabled", None)
    monkeypatch.setenv("TILELANG_DISABLE_CACHE", text)
    assert enabled == is_cache_enabled()


def test_a_switch_that_is_no_switch_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilelang.environment._CacheSwitch.enabled", None)
    monkeypatch.setenv("TILELANG_DISABLE_CACHE", "maybe")
    with pytest.raises(OptionError, match="TILELANG_DISABLE_CACHE: expected 0 or 1, got 'maybe'"):
        is_cache_enabled()


def test_the_program_beats_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilelang.environment._CacheSwitch.enabled", None)
    monkeypatch.setenv("TILELANG_DISABLE_CACHE", "1")
    enable_cache()
    assert is_cache_enabled()
    monkeypatch.setenv("TILELANG_DISABLE_CACHE", "0")
    disable_cache()
    assert not is_cache_enabled()


def test_threads_are_a_positive_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TILELANG_NUM_THREADS", raising=False)
    assert None is num_threads()
    monkeypatch.setenv("TILELANG_NUM_THREADS", "3")
    assert 3 == num_threads()
    monkeypatch.setenv("TILELANG_NUM_THREADS", "0")
    with pytest.raises(OptionError, match="TILELANG_NUM_THREADS: expected a positive integer, got '0'"):
        num_threads()


def test_the_level_of_the_logger_is_a_number_or_a_name() -> None:
    logger = logging.getLogger("tilelang")
    before = logger.level
    set_log_level("debug")
    assert logging.DEBUG == logger.level
    set_log_level(logging.WARNING)
    assert logging.WARNING == logger.level
    logger.setLevel(before)
    with pytest.raises(OptionError) as caught:
        set_log_level("loud")
    assert "set_log_level: 'loud' is no level" == caught.value.message
    assert isinstance(caught.value, ValueError)
