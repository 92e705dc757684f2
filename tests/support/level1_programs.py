"""Graphs of Level 1 made by hand, and a way to run what they are lowered to."""

from __future__ import annotations

import importlib.util
import itertools
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import tilelang.language as T
from tilelang.dtypes import as_dtype
from tilelang.ir.expr import Expr, as_expr, cast, select
from tilelang.level1.graph import Array, Combiner, Graph, Map, Parameter, Reduction, axes_for, define, element
from tilelang.level1.lower import Lowered, lower
from tilelang.targets.target import parse_target

RUNS = [("cpu", None), ("cuda", "simulator")]
"""Targets on which programs run anywhere, with their execution backends."""

_NUMBERS = itertools.count()


class Builder:
    """Makes the arrays of one graph."""

    def __init__(self) -> None:
        self.parameters: list[Array] = []

    def parameter(self, name: str, shape: Sequence[int | Expr], dtype: str = "float32") -> Array:
        array = define(name, shape, as_dtype(dtype), Parameter(len(self.parameters)))
        self.parameters.append(array)
        return array

    def map(
        self, name: str, shape: Sequence[int | Expr], body: Callable[..., Any], axes: str = "ijkl", stored: str = ""
    ) -> Array:
        own = axes_for(shape, axes)
        made = as_expr(body(*own))
        return define(name, shape, made.dtype, Map(own, made), stored_dtype=as_dtype(stored) if stored else None)

    def reduction(
        self,
        name: str,
        shape: Sequence[int | Expr],
        extents: Sequence[int | Expr],
        combiner: Combiner,
        body: Callable[..., Any],
        axes: str = "ijkl",
        reduced: str = "rstu",
        stored: str = "",
    ) -> Array:
        own, over = axes_for(shape, axes), axes_for(extents, reduced)
        made = as_expr(body(*own, *over))
        dtype = as_dtype("int32") if combiner.gives_index else made.dtype
        definition = Reduction(own, over, tuple(map(as_expr, extents)), combiner, made)
        return define(name, shape, dtype, definition, stored_dtype=as_dtype(stored) if stored else None)

    def graph(self, name: str, *results: Array) -> Graph:
        return Graph(name, tuple(self.parameters), results)


def at(array: Array, *indices: Expr) -> Expr:
    """An element, floats as float32."""
    value = element(array, indices)
    return cast(value, as_dtype("float32")) if value.dtype.is_float else value


def softmax(rows: int, columns: int, dtype: str = "float32") -> Graph:
    g = Builder()
    x = g.parameter("x", (rows, columns), dtype)
    largest = g.reduction("largest", (rows,), (columns,), Combiner.MAX, lambda i, r: at(x, i, r))
    e = g.map("e", (rows, columns), lambda i, j: T.exp(at(x, i, j) - at(largest, i)))
    total = g.reduction("total", (rows,), (columns,), Combiner.SUM, lambda i, r: at(e, i, r))
    return g.graph("softmax", g.map("y", (rows, columns), lambda i, j: at(e, i, j) / at(total, i), stored=dtype))


def layer_norm(rows: int, columns: int, dtype: str = "float32") -> Graph:
    g = Builder()
    x, w = g.parameter("x", (rows, columns), dtype), g.parameter("w", (columns,), dtype)
    s = g.reduction("s", (rows,), (columns,), Combiner.SUM, lambda i, r: at(x, i, r))
    mean = g.map("mean", (rows,), lambda i: at(s, i) / columns)
    centered = g.map("centered", (rows, columns), lambda i, j: at(x, i, j) - at(mean, i))
    squares = g.reduction(
        "squares", (rows,), (columns,), Combiner.SUM, lambda i, r: at(centered, i, r) * at(centered, i, r)
    )
    return g.graph(
        "layer_norm",
        g.map(
            "y",
            (rows, columns),
            lambda i, j: at(centered, i, j) * T.rsqrt(at(squares, i) / columns + 1e-5) * at(w, j),
            stored=dtype,
        ),
    )


def matmul(m: int | Expr, n: int | Expr, k: int, dtype: str = "float16", *, transposed: bool = False) -> Graph:
    """relu(a @ b) + bias; b may be stored by columns."""
    g = Builder()
    a = g.parameter("a", (m, k), dtype)
    b = g.parameter("b", (n, k) if transposed else (k, n), dtype)
    bias = g.parameter("bias", (n,), dtype)
    right = g.map("right", (k, n), lambda i, j: element(b, (j, i) if transposed else (i, j)))
    product = g.reduction(
        "product", (m, n), (k,), Combiner.SUM, lambda i, j, r: at(a, i, r) * at(right, r, j), reduced="k"
    )
    return g.graph("matmul", g.map("c", (m, n), lambda i, j: T.max(at(product, i, j), 0.0) + at(bias, j), stored=dtype))


def attention(
    shape: tuple[int, int, int, int, int], dtype: str = "float16", *, causal: bool = False, window: int = 0
) -> Graph:
    """softmax(q @ k.T / sqrt(d)) @ v; the shape is (batch, heads, queries, keys, d)."""
    batch, heads, queries, keys, d = shape
    g = Builder()
    q = g.parameter("q", (batch, heads, queries, d), dtype)
    k, v = (g.parameter(name, (batch, heads, keys, d), dtype) for name in "kv")
    grid = (batch, heads, queries)
    scores = g.reduction(
        "scores", (*grid, keys), (d,), Combiner.SUM,
        lambda b, h, i, j, e: at(q, b, h, i, e) * at(k, b, h, j, e), "bhij", "e",
    )  # fmt: skip

    def masked(b: Expr, h: Expr, i: Expr, j: Expr) -> Expr:
        value = at(scores, b, h, i, j) / math.sqrt(d)
        if window:
            value = select(i - j < window, value, -T.infinity("float32"))
        return select(i >= j, value, -T.infinity("float32")) if causal else value

    s = g.map("s", (*grid, keys), masked, "bhij")
    largest = g.reduction("largest", grid, (keys,), Combiner.MAX, lambda b, h, i, r: at(s, b, h, i, r), "bhi")
    e = g.map("e", (*grid, keys), lambda b, h, i, j: T.exp(at(s, b, h, i, j) - at(largest, b, h, i)), "bhij")
    total = g.reduction("total", grid, (keys,), Combiner.SUM, lambda b, h, i, r: at(e, b, h, i, r), "bhi")
    p = g.map("p", (*grid, keys), lambda b, h, i, j: at(e, b, h, i, j) / at(total, b, h, i), "bhij", dtype)
    return g.graph(
        "attention",
        g.reduction(
            "o", (*grid, d), (keys,), Combiner.SUM,
            lambda b, h, i, c, r: at(p, b, h, i, r) * at(v, b, h, r, c), "bhic", "j", dtype,
        ),
    )  # fmt: skip


def made(lowered: Lowered, folder: Path) -> Any:
    """The kernel of a program."""
    path = folder / f"{lowered.entry}_{next(_NUMBERS)}.py"  # bytecode of a name is kept by seconds and size of its text
    path.write_text(lowered.text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, lowered.entry)()


def run(graph: Graph, arrays: Sequence[np.ndarray], folder: Path, kind: str, backend: str | None) -> Any:
    """What the program of a graph returns."""
    return made(lower(graph, parse_target(kind), execution_backend=backend), folder)(*arrays)
