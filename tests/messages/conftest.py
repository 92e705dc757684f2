"""What tests of messages share: a file of the user with a mistake in it."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import tilelang
from tilelang.errors import TileLangError

_IMPORTS = "import tilelang\nimport tilelang.language as T\n\n"


@pytest.fixture
def staged_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., TileLangError]:
    """Runs a text as the file kernel.py, compiles the kernel `main` in it and calls it with the arguments, if any.

    Gives the error that comes of it.
    """
    monkeypatch.chdir(tmp_path)

    def run(text: str, target: object = "cpu", backend: str = "auto", arguments: Sequence[object] = ()) -> TileLangError:
        whole = _IMPORTS + text
        (tmp_path / "kernel.py").write_text(whole)
        names: dict[str, object] = {"__name__": "kernel"}
        with pytest.raises(TileLangError) as caught:
            exec(compile(whole, "kernel.py", "exec"), names)
            kernel = tilelang.compile(names["main"], target=target, execution_backend=backend)  # type: ignore[arg-type]
            if arguments:
                kernel(*arguments)
        str(caught.value)  # while the file is the one that it speaks of
        return caught.value

    return run
