"""Kernels are found wherever Python lets one define them."""

import importlib
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import tilelang.language as T
from tilelang.errors import StagingError
from tilelang.ir.printer import to_text
from tilelang.sim.tile_interp import run_reference

PROGRAM = """
import numpy as np
import tilelang.language as T
from tilelang.sim.tile_interp import run_reference

@T.prim_func
def main(A: T.Tensor((4,), "int32")):
    with T.Kernel(1) as bx:
        for i in T.serial(4):
            A[i] = i * 2

a = np.zeros(4, np.int32)
run_reference(main, [a])
print(a.tolist())
"""


def test_kernel_from_exec():
    namespace = {}
    exec(PROGRAM.replace("print(a.tolist())", ""), namespace)
    assert [0, 2, 4, 6] == namespace["a"].tolist()


def test_kernel_from_a_literal_given_to_exec():
    namespace = {"T": T}
    exec("@T.prim_func\ndef main(A: T.Tensor((4,), 'int32')):\n    with T.Kernel(1) as bx:\n        A[0] = 1\n", namespace)
    assert "main" == namespace["main"].name


def test_a_text_that_nobody_holds_cannot_be_found():
    text = ["@T.prim_func", "def main(A: T.Tensor((4,), 'int32')):", "    pass"]
    with pytest.raises(StagingError, match="the source of 'main' cannot be found") as caught:
        exec("\n".join(text), {"T": T})
    assert "keep the text in a variable while `exec` runs it" in str(caught.value)


def test_kernel_from_python_dash_c():
    result = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert "[0, 2, 4, 6]\n" == result.stdout


def test_kernel_in_a_class_and_in_a_deeply_indented_place():
    class Holder:
        @T.prim_func
        def main(A: T.Tensor((2,), "int32")):
            with T.Kernel(1) as bx:
                A[0] = 1

        def method(self):
            if True:
                for _ in range(1):

                    @T.prim_func
                    def inner(
                        A: T.Tensor(
                            (2,),
                            "int32",
                        ),
                    ):
                        with T.Kernel(1) as bx:
                            A[1] = 2

            return inner

    a = np.zeros(2, np.int32)
    run_reference(Holder.main, [a])
    run_reference(Holder().method(), [a])
    assert [1, 2] == a.tolist()


def test_kernel_in_a_notebook_cell(monkeypatch):
    import linecache

    # IPython keeps the text of a cell in `linecache` under a name of its own
    text = PROGRAM.replace("print(a.tolist())", "")
    name = "/tmp/ipykernel_1/3141592653.py"
    monkeypatch.setitem(linecache.cache, name, (len(text), None, text.splitlines(keepends=True), name))
    namespace = {}
    exec(compile(text, name, "exec"), namespace)
    assert [0, 2, 4, 6] == namespace["a"].tolist()


def test_kernel_at_the_interactive_prompt(tmp_path):
    """The prompt is real: Python reads statements from a terminal."""
    pty = pytest.importorskip("pty")
    import os
    import select
    import time

    statements = textwrap.dedent(
        """\
        import numpy as np
        import tilelang.language as T
        from tilelang.sim.tile_interp import run_reference
        @T.prim_func
        def main(A: T.Tensor((4,), "int32")):
            with T.Kernel(1) as bx:
                for i in T.serial(4):
                    A[i] = i * 2

        a = np.zeros(4, np.int32)
        run_reference(main, [a])
        print("result", a.tolist())
        exit()
        """
    )
    master, slave = pty.openpty()
    environment = {**os.environ, "PYTHON_BASIC_REPL": "1", "TERM": "dumb", "PYTHONSTARTUP": "", "INPUTRC": "/dev/null"}
    process = subprocess.Popen(
        [sys.executable, "-q", "-i"], stdin=slave, stdout=slave, stderr=slave, env=environment, cwd=tmp_path
    )
    os.close(slave)
    printed = ""
    deadline = time.monotonic() + 60

    def read_until(prompt):
        nonlocal printed
        start = len(printed)
        while prompt not in printed[start:] and time.monotonic() < deadline:
            ready, _, _ = select.select([master], [], [], 0.2)
            if ready:
                try:
                    printed += os.read(master, 4096).decode(errors="replace")
                except OSError:
                    return

    try:
        read_until(">>> ")
        for line in statements.splitlines():
            os.write(master, (line + "\n").encode())
            read_until(">>> " if not line.startswith((" ", "@", "def")) else "... ")
        process.wait(timeout=30)
    finally:
        process.kill()
        process.wait()
        os.close(master)
    assert "result [0, 2, 4, 6]" in printed, printed


def test_positions_are_exact_with_non_ascii_text():
    with pytest.raises(StagingError) as caught:

        @T.prim_func
        def main(A: T.Tensor((4,), "int32")):
            with T.Kernel(1) as bx:
                label = "größe"; A[0] = [1][A[1]]  # noqa: E702

    assert 33 == caught.value.loc.col
    assert str(caught.value).splitlines()[3].endswith(" " * 33 + "^" * len("A[0] = [1][A[1]]"))


def test_annotations_as_text_see_what_the_definition_saw():
    namespace = {}
    source = (
        "from __future__ import annotations\n"
        "import tilelang.language as T\n"
        "def make(N, dtype):\n"
        "    @T.prim_func\n"
        "    def main(A: T.Tensor((N,), dtype)):\n"
        "        with T.Kernel(1) as bx:\n"
        "            A[0] = N\n"
        "    return main\n"
        "main = make(3, 'int32')\n"
    )
    exec(source, namespace)
    a = np.zeros(3, np.int32)
    run_reference(namespace["main"], [a])
    assert [3, 0, 0] == a.tolist()


def test_a_lambda_is_no_kernel():
    with pytest.raises(StagingError, match="a lambda cannot be a kernel"):
        T.prim_func(lambda A: None)


EDITED = """
import tilelang.language as T

@T.prim_func
def main(A: T.Tensor((4,), "int32")):
    with T.Kernel(1) as bx:
        A[0] = {}
"""


def test_a_module_that_was_edited_and_reloaded_is_read_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "edited_kernel.py").write_text(EDITED.format(1))
    module = importlib.import_module("edited_kernel")
    (tmp_path / "edited_kernel.py").write_text(EDITED.format(22))
    assert "A[0] = 22" in to_text(importlib.reload(module).main)


def test_a_program_on_standard_input_is_read_from_the_file_it_came_from(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    with program.open() as text:
        result = subprocess.run([sys.executable], stdin=text, capture_output=True, text=True, check=True)
    assert "[0, 2, 4, 6]\n" == result.stdout


def test_a_program_from_a_pipe_says_to_save_it() -> None:
    result = subprocess.run([sys.executable], input=PROGRAM, capture_output=True, text=True, check=False)
    assert "hint: what is piped into Python leaves no text behind: save the program" in result.stderr
