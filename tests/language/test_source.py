"""Kernels are found wherever Python lets one define them."""

import ast
import code
import importlib
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import tilelang.language as T
from tilelang.errors import StagingError
from tilelang.ir.printer import to_text
from tilelang.language.source import function_source
from tilelang.sim.tile_interp import run_reference

PROGRAM = """
import numpy as np, tilelang, tilelang.language as T

@tilelang.jit(execution_backend="reference")
def doubled(N, dtype="int32"):
    @T.prim_func
    def main(A: T.Tensor((N,), dtype)):
        with T.Kernel(1) as bx:
            for i in T.serial(N):
                A[i] = i * 2
    return main

a = np.zeros(4, np.int32)
doubled(4)(a)
print(a.tolist())
"""

# Where annotations are kept as text, the code of the function around the kernel is another.
WITH_FUTURE = "from __future__ import annotations\n" + PROGRAM


def readme() -> str:
    """The program in README.md, run by the reference interpreter."""
    text = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    program = text.split("```python\n")[1].split("```")[0]
    return program.replace("out_idx=[-1]", 'out_idx=[-1], execution_backend="reference"')


def python(*arguments: str, **keywords) -> str:
    """What a process with these arguments prints; its standard input is buffered, as it is by default."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    result = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, env=environment, check=False, **keywords
    )
    return result.stdout + result.stderr


FILE = '''
"""Text
def kernel(a):
"""
def same(*_): return lambda function: function

# a comment
@same(
    1,
)
@same()
def decorated(
    a=(1,
2),
):
    text = """
not indented
"""
# another comment

    def inner(): return text
    return inner

if True:
    def conditional(): pass
else:
    def conditional(): pass

def last(): return [
1]
'''


@pytest.mark.parametrize("name", ["decorated", "inner", "conditional", "last"])
def test_functions_of_a_file_are_found(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "functions_of_a_file.py").write_text(FILE)
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("functions_of_a_file")
    found = function_source(module.decorated() if name == "inner" else getattr(module, name))
    whole = [node for node in ast.walk(ast.parse(FILE)) if isinstance(node, ast.FunctionDef) and node.name == name][0]
    assert ast.dump(whole, include_attributes=True) == ast.dump(found.node, include_attributes=True)


def test_a_file_is_not_parsed_for_one_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "one_of_many.py").write_text("".join(f"def f{n}(): pass\n" for n in range(9)))
    monkeypatch.syspath_prepend(tmp_path)
    module, parsed = importlib.import_module("one_of_many"), []
    monkeypatch.setattr(ast, "parse", lambda text, parse=ast.parse: parsed.append(text) or parse(text))
    assert 6 == function_source(module.f5).node.lineno
    assert ["\n" * 5 + "def f5(): pass\n"] == parsed


@pytest.mark.parametrize("program", [PROGRAM, WITH_FUTURE], ids=["plain", "with a future statement"])
def test_kernel_from_exec(program):
    namespace = {}
    exec(program.replace("print(a.tolist())", ""), namespace)
    assert [0, 2, 4, 6] == namespace["a"].tolist()


def test_kernel_from_a_file_given_to_exec(tmp_path):
    path = tmp_path / "doubled.py"
    path.write_text(PROGRAM)
    namespace = {}
    exec(path.read_text(), namespace)
    assert [0, 2, 4, 6] == namespace["a"].tolist()


def test_kernel_from_a_part_of_the_text_given_to_exec():
    namespace = {}
    body = PROGRAM.replace("print(a.tolist())", "")
    exec("made = True\n\n" + textwrap.dedent(textwrap.indent(body, "    ")), namespace)
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
    assert "200.0\n" == python("-c", readme())


def test_kernel_from_a_pipe_into_the_interactive_prompt():
    statements = PROGRAM.replace("    return main\n", "    return main\n\n").lstrip()
    assert "[0, 2, 4, 6]" in python("-i", "-q", input=statements)


def test_kernel_at_the_prompt_of_the_standard_library(capsys):
    console = code.InteractiveConsole()
    for line in PROGRAM.replace("    return main\n", "    return main\n\n").splitlines():
        console.push(line)
    assert "[0, 2, 4, 6]\n" == capsys.readouterr().out


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
import tilelang
import tilelang.language as T

@tilelang.jit
def make(N):
    @T.prim_func
    def main(A: T.Tensor((N,), "int32")):
        with T.Kernel(1) as bx:
            A[0] = {}
    return main
"""


def test_a_module_that_was_edited_and_reloaded_is_read_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    file = tmp_path / "edited_kernel.py"
    file.write_text(EDITED.format(1))
    module = importlib.import_module("edited_kernel")
    first = module.make
    file.write_text(EDITED.format(22))
    assert "A[0] = 22\n" in to_text(importlib.reload(module).make.get_tir(4))
    file.write_text("# moved\n" + EDITED.format(333))
    assert "A[0] = 333\n" in to_text(importlib.reload(module).make.get_tir(4))
    file.write_text("def unfinished(:\n")
    assert "A[0] = 333\n" in to_text(module.make.get_tir(5))
    assert "A[0] = 1\n" in to_text(first.get_tir(4))  # what was imported first is still that


def test_a_program_on_standard_input_is_read_from_the_file_it_came_from(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(WITH_FUTURE)
    with program.open() as text:
        assert "[0, 2, 4, 6]\n" == python(stdin=text)


def test_a_program_from_a_pipe_is_read_as_far_as_the_last_4096_bytes_go() -> None:
    before = "x = 'something that is longer than a pipe remembers'\n" * 100
    assert "[0, 2, 4, 6]\n" == python(input=before + PROGRAM)


def test_a_long_program_from_a_pipe_says_to_save_it() -> None:
    after = "x = 'something that is longer than a pipe remembers'\n" * 100
    message = (
        "tilelang.errors.StagingError: the source of 'doubled' cannot be found (<stdin>, line 4)\n"
        " --> <stdin>:4:2\n"
        "hint: of what is piped into Python only the last 4096 bytes can be read again, and nothing where "
        "PYTHONUNBUFFERED is set: save the program and run `python program.py`\n"
    )
    assert python(input=PROGRAM + after).endswith(message)
