import pytest

from tilelang.errors import ToolchainError
from tilelang.targets.cpu.runtime import findings as module
from tilelang.targets.cpu.runtime.findings import findings
from tilelang.targets.cpu.runtime.toolchain import Compiler


def test_a_compiler_without_openmp_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    for flags, end in ((("-fopenmp",), ""), ((), " (without OpenMP: blocks run on one core)")):
        monkeypatch.setattr(module, "find_compiler", lambda flags=flags: Compiler(("c++",), "", flags))
        (found,) = findings()
        assert (f"found    C++ compiler (target cpu): c++{end}", True) == (str(found), found.compiles)


def test_without_a_compiler_it_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent() -> Compiler:
        raise ToolchainError("no C++ compiler found", hint="install g++")

    monkeypatch.setattr(module, "find_compiler", absent)
    assert ["missing  C++ compiler (target cpu): no C++ compiler found\n           install g++"] == [
        str(found) for found in findings()
    ]
