"""What tests of messages share: a file of the user with a mistake in it."""

from collections.abc import Callable
from pathlib import Path

import pytest

import tilelang
from tilelang.errors import TileLangError

_IMPORTS = "import tilelang\nimport tilelang.language as T\n\n"


@pytest.fixture
def staged_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], TileLangError]:
    """Runs a text as the file kernel.py and compiles the kernel `main` in it; gives the error that comes of it."""
    monkeypatch.chdir(tmp_path)

    def run(text: str) -> TileLangError:
        whole = _IMPORTS + text
        (tmp_path / "kernel.py").write_text(whole)
        names: dict[str, object] = {"__name__": "kernel"}
        with pytest.raises(TileLangError) as caught:
            exec(compile(whole, "kernel.py", "exec"), names)
            tilelang.compile(names["main"], target="cpu")  # type: ignore[arg-type]
        str(caught.value)  # while the file is the one that it speaks of
        return caught.value

    return run
