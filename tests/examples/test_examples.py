"""Every example runs, checks its own result, and prints what it found."""

import pytest
from examples_of import EXAMPLES, OTHERS, SIZES, load


@pytest.mark.usefixtures("short_measurements")
@pytest.mark.parametrize("name", sorted(SIZES))
def test_example_runs_and_agrees_with_its_reference(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    load(name).main(**SIZES[name])
    assert "" != capsys.readouterr().out


def test_every_example_is_tested() -> None:
    files = {path.relative_to(EXAMPLES).as_posix() for path in EXAMPLES.rglob("*.py")}
    assert files == set(SIZES) | OTHERS
