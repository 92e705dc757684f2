import pytest

from tilelang.backend.target import auto_detect_target, determine_target
from tilelang.errors import NoLowering
from tilelang.targets.target import Target


@pytest.fixture(autouse=True)
def no_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TILELANG_DEFAULT_TARGET", raising=False)


def present(monkeypatch: pytest.MonkeyPatch, arch: str | None) -> None:
    monkeypatch.setattr("tilelang.targets.nvidia.present_device.present_arch", lambda: arch)


@pytest.mark.parametrize("given", ["cuda", "cpu", "c", {"kind": "cuda", "arch": "sm_90a"}, Target("cuda", "sm_80")])
def test_what_is_given_comes_back_checked(given: object) -> None:
    assert given is determine_target(given)


def test_an_object_has_a_kind_with_a_name_an_arch_and_attributes() -> None:
    found = determine_target({"kind": "cuda", "arch": "sm_90a"}, return_object=True)
    assert ("cuda", "sm_90a", "sm_90a") == (found.kind.name, found.arch, found.attrs["arch"])
    assert found is determine_target(found, return_object=True)


def test_auto_is_the_device_at_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    present(monkeypatch, "sm_89")
    assert {"kind": "cuda", "arch": "sm_89"} == determine_target() == auto_detect_target()
    assert Target("cuda", "sm_89") == determine_target("auto", return_object=True)


def test_auto_without_a_device_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    present(monkeypatch, None)
    with pytest.raises(ValueError, match="'auto' finds no device here"):
        determine_target("auto")


def test_the_environment_says_what_auto_means(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILELANG_DEFAULT_TARGET", "cpu")
    assert "cpu" == determine_target()


def test_a_target_around_comes_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILELANG_DEFAULT_TARGET", "cpu")
    with determine_target("sm_80", return_object=True) as ampere:
        assert ampere is determine_target() is determine_target("auto", return_object=True)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("frob", "target: unknown name 'frob'"),
        ("cuda -arch=sm_90", "Pass target options as a dict"),
        ({"arch": "sm_90a"}, "valid target config dict"),
    ],
)
def test_an_unknown_target_is_an_assertion_error(given: object, text: str) -> None:
    with pytest.raises(AssertionError) as caught:
        determine_target(given)
    assert text in str(caught.value)


def test_a_family_without_a_compiler_is_told() -> None:
    with pytest.raises(NoLowering, match="'metal' is not available"):
        determine_target("metal")
