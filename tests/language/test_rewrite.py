"""Constructs that have no meaning in a kernel are refused with what to write instead, never dropped."""

import ast
import re

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.errors import StagingError
from tilelang.language.rewrite import rewrite
from tilelang.language.source import function_source


def refuse(body, match):
    lines = "\n".join(f"        {line}" for line in body.split("\n"))
    source = f"@T.prim_func\ndef main(A: T.Tensor((4,), 'int32')):\n    with T.Kernel(1) as bx:\n{lines}\n"
    with pytest.raises(StagingError, match=match) as caught:
        exec(source, {"T": T})
    return str(caught.value)


def test_for_else():
    message = refuse("for i in T.serial(4):\n    A[i] = 0\nelse:\n    A[0] = 1", "`for ... else` has no meaning")
    assert "set a T.alloc_var flag before `break`" in message
    assert "A[0] = 1" in message


def test_while_else():
    refuse("while A[0] < 4:\n    A[0] += 1\nelse:\n    A[0] = 1", "`while ... else` has no meaning")


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ("try:\n    A[0] = 1\nexcept ValueError:\n    pass", "`try`"),
        ("class X:\n    pass", "`class`"),
        ("global y\ny = 1", "`global`"),
        ("yield A[0]", "`yield`"),
        ("x = (yield)", "`yield`"),
        ("match A[0]:\n    case 1:\n        pass", "`match`"),
        ("A[0] = (y := 3)", "`:=`"),
        ("async def f():\n    pass", "`async def`"),
    ],
)
def test_statements_without_meaning(body, what):
    assert "hint: " in refuse(body, f"{what} has no meaning in a kernel")


def test_break_out_of_a_plain_loop_under_a_staged_condition():
    refuse("for i in (0, 1):\n    if A[i] > 0:\n        break", "`break` out of a plain Python loop")


def test_break_out_of_a_parallel_loop():
    refuse("for i in T.Parallel(4):\n    if A[i] > 0:\n        break", "`break` cannot leave a T.Parallel loop")


def test_a_comprehension_over_a_staged_loop():
    refuse("x = [A[i] for i in T.serial(4)]", "T.serial can only be the iterable of a `for` statement")


def test_iterating_over_a_staged_value():
    refuse("for i in A[0]:\n    pass", "cannot be iterated over")


def test_raise_and_nested_functions_stay_python():
    def helper(x):
        return x + 1

    @T.prim_func
    def main(A: T.Tensor((4,), "int32")):
        with T.Kernel(1) as bx:
            if not isinstance(helper(1), int):
                raise TypeError("unreachable")

            def twice(x):
                return x * 2

            square = lambda x: x * x  # noqa: E731
            A[0] = square(twice(A[1]))

    assert "main" == main.name


def test_what_a_tuple_or_list_allocates_is_called_as_the_program_calls_it():
    @T.macro
    def tile():
        made = T.alloc_local((2,), "int32")
        return made

    @T.prim_func
    def main(A: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=32) as _:
            A_s, B_s = T.alloc_shared((4,), "float32"), T.alloc_shared((4,), "float32")
            tiles = [T.alloc_fragment((4,), "float32") for _ in range(2)]
            p, (q, r) = T.alloc_local((2,), "int32"), [tile(), (T.alloc_local((2,), "int32"),)]
            by_name = {"x": T.alloc_shared((8,), "int32")}
            u, v = (T.alloc_local((1,), "int32") for _ in range(2))
            first, *rest = T.alloc_local((1,), "int32"), T.alloc_local((1,), "int32")

    names = re.findall(r"(\w+) = T.alloc", str(main))
    assert ["A_s", "B_s", "tiles_0", "tiles_1", "p", "made", "r_0", "by_name_0", "u", "v", "local", "local_1"] == names


def test_scalars_that_a_tuple_allocates_can_be_assigned():
    @T.prim_func
    def main(A: T.Tensor((1,), "int32")):
        with T.Kernel(1, threads=32) as _:
            x, y = T.alloc_var("int32", 1), T.alloc_var("int32", 2)
            for _ in T.serial(3):
                x, y = y, x + y
            A[0] = x * 100 + y

    a = np.zeros(1, np.int32)
    tilelang.compile(main, execution_backend="reference")(a)
    assert 508 == a[0]
    assert "x = T.alloc_var" in str(main)


def test_a_value_of_the_kernel_is_no_object_of_python():
    message = refuse("if (A[0] > 0) is True:\n    A[1] = 1", "is never the object True of Python")
    assert "hint: write `== True`, or for True the condition itself and for False `not` before it" in message

    @T.prim_func
    def main(A: T.Tensor((4,), "int32")):
        with T.Kernel(1) as bx:
            bias, flag = None, True
            if bias is None and bx is not None and flag is True:
                A[0] = 1

    assert "A[0] = 1" in str(main)


@pytest.mark.parametrize(
    "text",
    [
        "A[0] = 1 if n is None else 2",
        "A[0] = T.max(A[1] if A[0] > 0 else 0, -(A[2] if 0 < A[1] < 4 else 1))",
        "A[A[1] if A[0] > 0 else 0] += not A[2]",
        "T.print(A[0] > 0 and A[1] > 0)",
        "with T.Then(A[0] > 0 or A[1] > 0): pass",
        "if n is not None:\n    A[0] += 1\nelif A[0] > 0 and n is None:\n    A[1] = 2",
    ],
)
def test_functions_are_rewritten_anew_each_time(text, tmp_path):
    """A factory may be called a thousand times, and its source is parsed once."""
    body = "\n    ".join(text.split("\n"))
    module = tmp_path / "kernels.py"
    module.write_text(f"def main(A, n=None):\n    {body}\n")
    names = {"T": T}
    exec(compile(module.read_text(), str(module), "exec"), names)
    before = ast.dump(function_source(names["main"]).node)
    rewrite(names["main"], object())
    assert before == ast.dump(function_source(names["main"]).node)
