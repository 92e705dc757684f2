"""The headers of kernels."""

import pytest

from tilelang.dtypes import INT32
from tilelang.ir.expr import Const, Var
from tilelang.ir.print_expr import ExprPrinter
from tilelang.level1.launch_text import launch_lines

AXES = [(Var(name, INT32, index=True), Const(size, INT32)) for name, size in zip("xyzuw", (70, 5, 3, 2, 4), strict=True)]


def header(count: int) -> list[str]:
    names = ExprPrinter()
    return launch_lines(AXES[:count], lambda _, extent: names.expr(extent), 128, names)


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (0, "with T.Kernel(1, threads=128) as _:"),
        (1, "with T.Kernel(70, threads=128) as x:"),
        (3, "with T.Kernel(70, 5, 3, threads=128) as (x, y, z):"),
    ],
)
def test_up_to_three_variables(count: int, expected: str) -> None:
    assert [expected] == header(count)


def test_more_variables_are_parts_of_the_third() -> None:
    assert [
        "with T.Kernel(70, 5, 3 * 2 * 4, threads=128) as (x, y, rest):",
        "    z = rest % 3",
        "    u = rest // 3 % 2",
        "    w = rest // 3 // 2",
    ] == header(5)


def test_a_symbolic_count_is_at_least_one() -> None:
    names, n = ExprPrinter(), Var("n", INT32, index=True)
    lines = launch_lines([(AXES[0][0], n)], lambda _, extent: names.expr(extent), 64, names)
    assert ["with T.Kernel(T.max(n, 1), threads=64) as x:"] == lines
