"""What people write who know Python, NumPy, PyTorch or Triton, and not this language: it works, or says what to write."""

import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from refusals import refusal

import tilelang
import tilelang.language as T
from tilelang.errors import ProgramWarning, TileLangError

HERE = {"target": "cpu", "execution_backend": "reference"}  # nothing is compiled
W = np.arange(8, dtype=np.float32)
a = np.ones(8, np.float32)


@tilelang.jit(**HERE)
def scale(size, block=4):
    @T.prim_func
    def main(A: T.Tensor((size,), "float32"), O: T.Tensor((size,), "float32")):
        with T.Kernel(size // block):
            T.copy(A, O)

    return main


@T.prim_func
def program(A: T.Tensor((8,), "float32"), O: T.Tensor((8,), "float32")):
    with T.Kernel(1):
        T.copy(A, O)


def staged(body: Callable[..., None], dtype: str = "float32") -> object:
    @T.prim_func
    def main(A: T.Tensor((8,), dtype), O: T.Tensor((8,), dtype)):
        with T.Kernel(1):
            body(A, O)

    return main


@T.macro
def array_element(A, O):
    for i in T.Parallel(8):
        O[i] = A[i] * W[i]


@T.macro
def whole_array(A, O):
    for i in T.Parallel(8):
        O[i] = A[i] * W


@T.macro
def result_of_an_atomic(A, O):
    for i in T.Parallel(8):
        O[i] = T.atomic_add(O[0], A[i])


@T.macro
def arithmetic_with_an_atomic(A, O):
    before = T.atomic_add(O[0], A[0])
    O[1] = before + 1


def negated_function(A, O):
    O[0] = A[0] + -T.infinity


@T.macro
def list_element(A, O):
    weights = [1.0, 2.0]
    for i in T.serial(2):
        O[i] = weights[i]


@T.macro
def list_of_a_loop(A, O):
    xs = []
    for i in T.serial(8):
        xs.append(A[i])
    O[0] = xs[0]


PASS_IT = "make the array a parameter of the kernel, `W: T.Tensor(shape, dtype)`, and pass it in the call"
MISTAKES: dict[str, tuple[Callable[[], object], type[Exception], str, str]] = {
    "tensors for a function that makes kernels": (
        lambda: scale(a, a),
        TypeError,
        "scale: 'size' is a tensor, but a function that returns a kernel takes sizes and options",
        "make the kernel first, and call that with tensors: `kernel = scale(size, block)`, `kernel(A, B)`",
    ),
    "more tensors than a function that makes kernels has parameters": (
        lambda: scale(8, 8, a),
        TypeError,
        "scale: argument 3 is a tensor, but a function that returns a kernel takes sizes and options",
        "make the kernel first, and call that with tensors: `kernel = scale(size, block)`, `kernel(A, B)`",
    ),
    "a call of a program": (
        lambda: program(a, a),
        TypeError,
        "'program' is a program that is not compiled, and cannot be called",
        "compile it first: `kernel = tilelang.compile(program)`, then `kernel(...)`; what kernels call inside is marked "
        "@T.macro",
    ),
    "an array from outside the kernel": (
        lambda: staged(array_element),
        TypeError,
        "an array from outside the kernel is indexed by a value known only when the kernel runs",
        f"{PASS_IT}; one number of it, known now, is float(W[3])",
    ),
    "a whole array from outside the kernel": (
        lambda: staged(whole_array),
        TypeError,
        "expected a number or an expression, got an array of shape (8,)",
        f"{PASS_IT}; one number of it, known now, is float(W[3])",
    ),
    "a list that a loop appends to": (
        lambda: staged(list_of_a_loop),
        ValueError,
        "'i' is the variable of a loop, and is used where that has ended",
        "keep what a loop computes in memory: `xs = T.alloc_local((n,), dtype)` in front of it, `xs[i] = ...` in it; "
        "a list of Python, as by list.append, keeps expressions of the loop, not their values",
    ),
    "arithmetic with the result of what has none": (
        lambda: staged(arithmetic_with_an_atomic),
        TypeError,
        "TypeError while the kernel was staged: unsupported operand type(s) for +: 'NoneType' and 'int'",
        "what changes memory gives no value; T.atomic_add(..., return_prev=True) gives the one before",
    ),
    "a function that is not called": (
        lambda: staged(negated_function),
        TypeError,
        "TypeError while the kernel was staged: bad operand type for unary -: 'function'",
        "call the function, as in T.infinity('float32')",
    ),
    "a list of numbers at a loop's index": (
        lambda: staged(list_element),
        Exception,
        "a value known only when the kernel runs cannot be used as a Python integer",
        "to index a Python list, loop over plain values: `for i in tuple(range(n))`, or pass its numbers as a tensor",
    ),
    "the result of what has none": (
        lambda: staged(result_of_an_atomic),
        TypeError,
        "expected a number or an expression, got None",
        "what changes memory gives no value; T.atomic_add(..., return_prev=True) gives the one before",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_newcomers_mistake_says_what_to_write(mistake: str) -> None:
    call, kind, message, hint = MISTAKES[mistake]
    error = refusal(call, (kind,))
    assert (message, hint) == (error.message, error.hint)


def test_elements_convert_as_arrays_do() -> None:
    @T.prim_func
    def main(A: T.Tensor((8,), "float32"), O: T.Tensor((8,), "float32"), P: T.Tensor((8,), "float32")):
        with T.Kernel(1):
            for i in T.Parallel(8):
                O[i] = A[i].astype("int32") + A[i].to(T.float16)
                P[i] = (A[i] * 2).to("int8")

    numbers, first, second = np.linspace(-3, 3, 8, dtype=np.float32), *np.zeros((2, 8), np.float32)
    tilelang.compile(main, **HERE)(numbers, first, second)
    np.testing.assert_array_equal(np.trunc(numbers).astype(np.float16) + numbers.astype(np.float16), first)
    np.testing.assert_array_equal(np.trunc(numbers * 2), second)


@pytest.mark.parametrize(
    ("dtype", "value", "stored"), [("int8", 300, 44), ("int8", -129, 127), ("uint8", 256, 0), ("uint16", -2, 65534)]
)
def test_a_number_that_an_integer_dtype_lacks_is_a_warning(dtype: str, value: int, stored: int) -> None:
    def store(A, O):
        O[0] = value

    def fill(A, O):
        T.fill(O, value)

    for body in (store, fill):
        with pytest.warns(ProgramWarning) as caught:
            staged(body, dtype)
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        text = f"{value} is stored into 'O', whose {dtype} goes from {low} to {high}, as {stored}\n"
        assert [True] == [str(warning.message).startswith(text) for warning in caught]


@pytest.mark.parametrize(("dtype", "value"), [("uint8", -1), ("int32", 0xFFFFFFFF), ("int8", -128), ("float16", 300)])
def test_a_number_that_is_there_or_means_its_bits_is_none(dtype: str, value: int) -> None:
    def store(A, O):
        O[0] = value

    staged(store, dtype)


@pytest.mark.parametrize(
    ("target", "hint"),
    [
        ("gpu", "did you mean 'cuda'?"),
        ("CUDA", "did you mean 'cuda'?"),
        ("nvidia", "did you mean 'cuda'?"),
        ("CPU", "did you mean 'cpu'?"),
        ({"kind": "cuda", "arch": 90}, "{'kind': 'cuda', 'arch': 'sm_90a'}"),
        ({"kind": "cuda", "arch": 8.9}, "{'kind': 'cuda', 'arch': 'sm_89'}"),
        ({"kind": "cuda", "arch": "90"}, "{'kind': 'cuda', 'arch': 'sm_90a'}"),
        ({"kind": "cuda", "arch": "SM_80"}, "{'kind': 'cuda', 'arch': 'sm_80'}"),
    ],
)
def test_a_target_by_another_name_gets_the_one_that_is_meant(target: object, hint: str) -> None:
    assert hint in refusal(lambda: tilelang.lower(program, target), (ValueError, AssertionError)).hint


@pytest.mark.parametrize(
    "name",
    "bitcast where zeros arange dot static_range program_id trans permute silu device_print reduce_mean load store topk".split(),
)
def test_a_name_of_another_language_works_or_names_ours(name: str) -> None:
    try:
        assert callable(getattr(T, name))
    except TileLangError as error:
        assert error.hint.startswith(("write", "name", "allocate"))


def test_no_traceback_shows_the_compiler(tmp_path: Path) -> None:
    file = tmp_path / "kernel.py"
    file.write_text(
        textwrap.dedent(
            """\
            import numpy as np, sys, traceback
            import tilelang, tilelang.language as T

            def stage(body):
                @T.prim_func
                def main(A: T.Tensor((8,), "float32")):
                    with T.Kernel(1):
                        body(A)
                return main

            fails = [
                lambda: stage(lambda A: T.copy(A, 3)),
                lambda: stage(lambda A: T.exp(A)),
                lambda: stage(lambda A: len(3)),
                lambda: stage(lambda A: A.no_such_name),
                lambda: stage(lambda A: T.no_such_name),
                lambda: tilelang.compile(stage(lambda A: None), target="gpu"),
                lambda: tilelang.compile(stage(lambda A: T.clear(A)), execution_backend="reference", target="cpu")(3),
                lambda: T.Layout((8,), lambda i, j: i),
                lambda: tilelang.profiler.do_bench(3),
            ]
            for fail in fails:
                try:
                    fail()
                except Exception:
                    traceback.print_exc()
                else:
                    sys.exit("no error")
            """
        )
    )
    done = subprocess.run([sys.executable, file], capture_output=True, text=True, check=True)
    assert 9 <= done.stderr.count("Traceback")
    package = str(Path(tilelang.__file__).parent)
    if sys.version_info >= (3, 11):
        assert [] == [line for line in done.stderr.splitlines() if package in line]
