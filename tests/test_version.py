import importlib.metadata

import pytest

import tilelang


def test_the_version_is_that_of_the_installed_package() -> None:
    assert importlib.metadata.version("tilelang") == tilelang.__version__


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0.1.7.post3+cuda.d20260127.gita17230e4", 20260127), ("0.1.15", None), ("0.1.15+gitd20260127", None)],
)
def test_the_day_of_a_build_is_read_from_a_version(text: str, expected: int | None) -> None:
    assert expected == tilelang.build_date(text)


def test_calls_of_a_deprecated_function_warn() -> None:
    @tilelang.deprecated("old", "new", "0.2")
    def old(x: int) -> int:
        return x + 1

    with pytest.warns(DeprecationWarning, match="old is deprecated, use new instead; it will be removed in version 0.2"):
        assert 3 == old(2)
    assert "old" == old.__name__
