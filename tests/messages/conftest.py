"""What tests of messages share: a file of the user with a mistake in it."""

import linecache
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import tilelang
from tilelang.errors import TileLangError

_IMPORTS = "import tilelang\nimport tilelang.language as T\n\n"


@pytest.fixture
def run_as_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Runs a text as the file kernel.py, compiles the kernel `main` in it and calls it with the arguments, if any."""
    monkeypatch.chdir(tmp_path)

    def run(text: str, target: object = "cpu", backend: str = "auto", arguments: Sequence[object] = ()) -> None:
        whole = _IMPORTS + text
        linecache.clearcache()  # of another kernel.py
        (tmp_path / "kernel.py").write_text(whole)
        names: dict[str, object] = {"__name__": "kernel"}
        exec(compile(whole, "kernel.py", "exec"), names)
        kernel = tilelang.compile(names["main"], target=target, execution_backend=backend)  # type: ignore[arg-type]
        if arguments:
            kernel(*arguments)

    return run


@pytest.fixture
def staged_error(run_as_file: Callable[..., None]) -> Callable[..., TileLangError]:
    """The error that comes of `run_as_file`."""

    def run(*given: object) -> TileLangError:
        with pytest.raises(TileLangError) as caught:
            run_as_file(*given)
        str(caught.value)  # while the file is the one that it speaks of
        return caught.value

    return run
