"""Tests for tilelang.level1.print_graph."""

from types import SimpleNamespace
from typing import Any

from level1_graphs import F32, I32, matmul, parameter

from tilelang.level1.graph import (
    Combiner,
    Graph,
    KernelCall,
    KernelResult,
    Map,
    Scan,
    Scatter,
    Sort,
    axes_for,
    define,
    element,
)


def test_a_reduction_shows_both_dtypes_and_its_axes() -> None:
    assert str(matmul()) == (
        "matmul:\n"
        "    a: float16[4, 3]\n"
        "    b: float16[3, 5]\n"
        "    c: float32[4, 5] as float16 ; c[i, j] = sum(k < 3: T.float32(a[i, k]) * T.float32(b[k, j]))\n"
        "    return c"
    )


def test_all_kinds_of_definitions_have_a_form() -> None:
    a, at = parameter("a", (4,), F32), parameter("at", (4,), I32, 1)
    axes = axes_for((4,))
    value = element(a, axes)
    mapped = define("a", (4,), F32, Map(axes, value + 1.0))
    summed = define("s", (4,), F32, Scan(axes, 0, Combiner.SUM, element(mapped, axes)))
    best = define("t", (2,), I32, Sort(axes, 0, a.shape[0], value, descending=True, gives_index=True))
    put = define("p", (4,), F32, Scatter(a, axes, a.shape, (element(at, axes),), value, None))
    kernel: Any = SimpleNamespace(prim_func=SimpleNamespace(name="scaled"))
    call = define("r", (4,), F32, KernelResult(KernelCall(kernel, (put, 2)), 1))
    assert str(Graph("f", (a, at), (summed, best, call))) == (
        "f:\n"
        "    a: float32[4]\n"
        "    at: int32[4]\n"
        "    a_1: float32[4] ; a_1[i] = a[i] + 1.0\n"
        "    s: float32[4] ; s[i] = cumulative_sum(i: a_1[i])\n"
        "    t: int32[2] ; t[i] = argsort_descending(i < 4: a[i])\n"
        "    p: float32[4] ; a, then set(i < 4: p[at[i]], a[i])\n"
        "    r: float32[4] ; result 1 of scaled(p, 2)\n"
        "    return s, t, r"
    )
