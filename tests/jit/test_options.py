import pytest

from tilelang.jit.options import JitOptions


def test_what_is_chosen_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    options = JitOptions(target="cpu")
    target, backend = options.chosen()
    assert ("cpu", "cc") == (target.kind, backend)
    monkeypatch.setenv("TILELANG_EXECUTION_BACKEND", "reference")
    assert "reference" == options.chosen()[1]
