from pathlib import Path

import pytest

from tilelang.runtime import cache
from tilelang.tools.command_line import main

FILE = """
import tilelang, tilelang.language as T

@tilelang.jit
def make(N, dtype="float32"):
    @T.prim_func
    def scale(A: T.Tensor((N,), dtype)):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(N):
                A[i] = A[i] * 2
    return scale

small = make.get_tir(64)

@tilelang.jit
def fixed(N=32):
    return make.get_tir(N)

@tilelang.jit
def square(X):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), "float32")
    Y = T.empty((M, N), "float32")
    with T.Kernel(M, threads=32) as row:
        for j in T.Parallel(N):
            Y[row, j] = X[row, j] * X[row, j]
    return Y
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    (tmp_path / "kernels.py").write_text(FILE)
    return str(tmp_path / "kernels.py")


def test_a_kernel_is_shown_as_program_decisions_and_source(file, capsys):
    assert 0 == main(["show", f"{file}:small", "--target", "sm_80"])
    text = capsys.readouterr().out
    heads = [line for line in text.splitlines() if line.startswith(("# ir", "# explain", "# source"))]
    assert ["# ir, target cuda:sm_80", "# explain, target cuda:sm_80", "# source, target cuda:sm_80"] == heads
    assert 'def scale(A: T.Tensor((64,), "float32")):' in text
    assert "T.Parallel: 32 threads run 2 iterations each" in text
    assert "__global__" in text


def test_one_of_them_a_call_and_a_factory_without_arguments(file, capsys):
    assert 0 == main(["show", f"{file}:make.get_tir(128, 'float16')", "--target", "cpu", "--only", "ir"])
    assert 'A: T.Tensor((128,), "float16")' in capsys.readouterr().out
    assert 0 == main(["show", f"{file}:fixed", "--target", "cpu", "--only", "explain"])
    assert "the loop over i runs as SIMD lanes" in capsys.readouterr().out
    assert 0 == main(["show", f"{file}:small", "--target", "cpu", "--pass", "vectorize_loops"])
    assert "for i in T.vectorized(64):" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ("{}", "OptionError: show: '{}' does not name a kernel of a file\nhint: write FILE.py:NAME\n"),
        (
            "nowhere.py:make",
            "OptionError: show: there is no file 'nowhere.py'\nhint: write FILE.py:NAME, with the path of the file\n",
        ),
        ("{}:none", "OptionError: show: {} has no 'none'\nhint: it has make, small, fixed, square\n"),
        (
            "{}:make",
            "OptionError: show: 'make' is a function that needs arguments, not a kernel\n"
            "hint: write the call: {}:'make(128)'\n",
        ),
        (
            "{}:square",
            "OptionError: show: 'square' is a function that needs arguments, not a kernel\n"
            "hint: give it tensors of the file, or its sizes: {}:'square.get_tir(M=128, N=128)'\n",
        ),
        (
            "{}:make(",
            "OptionError: show: 'make(' is no expression of Python: '(' was never closed\n"
            "hint: write FILE.py:NAME, or FILE.py:'NAME(64, 64)'\n",
        ),
        (
            "{}:FILE",
            "OptionError: show: {} has no 'FILE'\nhint: it has make, small, fixed, square\n",
        ),
        ("{}:1", "OptionError: show: '1' is of type int, not a kernel\nhint: it has make, small, fixed, square\n"),
    ],
)
def test_what_is_no_kernel_is_said_in_one_message(file, capsys, named, message):
    assert 1 == main(["show", named.format(file)])
    lines = [line for line in capsys.readouterr().err.splitlines(keepends=True) if line.startswith(("Opt", "hint"))]
    assert message.format(file) == "".join(lines)


def test_an_error_of_the_file_shows_its_line_and_nothing_of_the_package(tmp_path, capsys):
    (tmp_path / "broken.py").write_text("one = 1 / 0\n")
    assert 1 == main(["show", f"{tmp_path}/broken.py:one"])
    text = capsys.readouterr().err
    assert "ZeroDivisionError: division by zero" in text
    assert "broken.py\", line 1" in text
    assert "command_line.py" not in text


def test_the_sizes_of_an_eager_function_name_its_kernel(file, capsys):
    assert 0 == main(["show", f"{file}:square.get_tir(M=128, N=128)", "--target", "cpu", "--only", "ir"])
    assert "X: T.Tensor((128, 128)" in capsys.readouterr().out


def test_a_pass_that_is_none_lists_those_there_are(file, capsys):
    assert 1 == main(["show", f"{file}:small", "--target", "cpu", "--pass", "none"])
    assert "show: no pass is called 'none'" in capsys.readouterr().err


def test_the_cache_is_measured_and_emptied(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path))
    cache.store(cache.key_of("a"), ".so", b"x" * 2000)
    (tmp_path / "mine.txt").write_text("kept")
    assert 0 == main(["cache"])
    assert 0 == main(["cache", "clear"])
    assert 0 == main(["cache"])
    assert [
        f"1 entries, 2.033 KiB, in {tmp_path}",
        f"removed 1 entries, 2.033 KiB, from {tmp_path}",
        f"0 entries, 0 bytes, in {tmp_path}",
    ] == capsys.readouterr().out.splitlines()
    assert (tmp_path / "mine.txt").exists()


def test_the_doctor_says_whether_anything_can_be_compiled(capsys, monkeypatch):
    monkeypatch.setattr("tilelang.tools.command_line.findings", list)
    assert 1 == main(["doctor"])
