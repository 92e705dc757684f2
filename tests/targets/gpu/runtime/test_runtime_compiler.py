"""A runtime compiler gives code and log of a program, and destroys it whatever happens."""

import pytest

from tilelang.errors import ToolchainError
from tilelang.targets.gpu.runtime.runtime_compiler import RuntimeCompiler


class Library:
    """Functions of a compiler named "fake" that knows texts with an x in them."""

    def __init__(self, created: int = 0) -> None:
        self.created, self.destroyed, self.headers = created, 0, 0

    def __getattr__(self, name: str):
        return getattr(self, f"do_{name.removeprefix('fake')}")

    def do_CreateProgram(self, program, text, file, count, texts, names):
        self.text, self.headers = text, count
        return self.created

    def do_CompileProgram(self, program, count, options):
        self.options = [options[n] for n in range(count)]
        return 0 if b"x" in self.text else 6

    def do_DestroyProgram(self, program):
        self.destroyed += 1

    def do_GetProgramLogSize(self, program, size):
        size._obj.value = 8
        return 0

    def do_GetProgramLog(self, program, buffer):
        buffer.value = b" a log "
        return 0

    def do_GetCodeSize(self, program, size):
        size._obj.value = 3
        return 0

    def do_GetCode(self, program, buffer):
        buffer.raw = b"abc"
        return 0


class Fake(RuntimeCompiler):
    prefix = "fake"

    def __init__(self, library: Library) -> None:
        self.library = library

    def __str__(self) -> str:
        return "fake 1"


@pytest.mark.parametrize(("text", "code"), [("x", b"abc"), ("y", None)])
def test_code_and_log_of_a_program(text: str, code: bytes | None) -> None:
    library = Library()
    made = Fake(library)._compile_program(text, "kernel", ("-a", "-b"), "Code", {b"h": b"text"})
    assert (code, "a log") == (made.code, made.log)
    assert ([b"-a", b"-b"], 1, 1) == (library.options, library.headers, library.destroyed)


def test_a_call_that_fails_names_the_function() -> None:
    library = Library(created=2)

    def explain(status: int) -> bytes:
        return b"no memory"

    library.do_GetErrorString = explain
    with pytest.raises(ToolchainError, match="fake 1: fakeCreateProgram failed: no memory"):
        Fake(library)._compile_program("x", "kernel", (), "Code", {})
