import io
import sys

import pytest

from tilelang.tune.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_one_line_that_is_erased(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    with Progress("matmul") as progress:
        progress.show("compiling", 10, 40)
        progress.show("compiling", 11, 40)  # too soon
        progress.show("compiling", 40, 40)
    assert (
        "\r\x1b[Kautotune matmul: compiling [######..................] 10/40  0 s"
        "\r\x1b[Kautotune matmul: compiling [########################] 40/40  0 s"
        "\r\x1b[K"
    ) == sys.stderr.getvalue()


def test_without_a_terminal_nothing_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with Progress("matmul") as progress:
        progress.show("compiling", 1, 1)
    assert "" == sys.stderr.getvalue()


def test_a_missing_stream_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    with Progress("matmul") as progress:
        progress.show("compiling", 1, 1)
