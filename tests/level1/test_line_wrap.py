"""Long lines are broken inside brackets, and mean the same."""

import ast

import pytest

from tilelang.level1.line_wrap import wrapped


def test_elements_have_lines() -> None:
    line = "    value = choose(first_of_many[i, j], second[i], third)"
    assert [
        "    value = choose(",
        "        first_of_many[i, j],",
        "        second[i],",
        "        third",
        "    )",
    ] == list(wrapped([line], 40))


def test_operands_have_lines() -> None:
    line = "x[i] = T.float16(a_long_name[i] * b[i] + c[i] * another_long_name[i])"
    assert ["x[i] = T.float16(", "    a_long_name[i] * b[i]", "    + c[i] * another_long_name[i]", ")"] == list(
        wrapped([line], 45)
    )


def test_short_lines_stay() -> None:
    assert ["x = f(a, b)", "y = 'no (bracket, ' + name"] == list(wrapped(["x = f(a, b)", "y = 'no (bracket, ' + name"], 20))


@pytest.mark.parametrize("width", [20, 40, 60, 80])
@pytest.mark.parametrize(
    "line",
    [
        "out[i, j, k] = T.if_then_else(a < b and c < d, -x[i, 64 + (b * n + l)], T.infinity('float32')) * scale[i]",
        "losses[bx * b + i] = T.if_then_else(T.isinf(a[i]), a[i], a[i] + T.log(c[i])) - T.float32(logits[bx, i + 1])",
        "for i, j in T.Parallel(block_i * a_long_name_of_a_size, another_long_name_of_a_size + block_j): pass",
        "with T.Kernel(T.ceildiv(4096, block_k), T.max(T.ceildiv(n, block_m), 1), threads=128) as (bx, by): pass",
    ],
)
def test_the_meaning_stays(line: str, width: int) -> None:
    broken = "\n".join(wrapped([line], width))
    assert "\n" in broken
    assert ast.dump(ast.parse(line)) == ast.dump(ast.parse(broken))
