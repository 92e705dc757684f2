"""Constructs that have no meaning in a kernel are refused with what to write instead, never dropped."""

import pytest

import tilelang.language as T
from tilelang.errors import StagingError


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
