"""Computations that together call every function of `tilelang.numpy`, each beside the same in NumPy.

A computation takes matrices of m x n numbers: floats around 0, positive ones, and integers.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy_functions import BINARY, BITS, UNARY

import tilelang.numpy as tnp

Program = Callable[..., Any]

_POSITIVE = {"acosh", "atanh", "log", "log10", "log1p", "log2", "rsqrt", "sqrt"}
_BETWEEN = {"acos", "asin", "atanh"}


def _unary(functions: Any, x: Any, p: Any, i: Any) -> dict[str, Any]:
    """Every function of one operand."""
    found = {}
    for name in sorted(UNARY):
        operand = x * 0.2 if name in _BETWEEN else p + 1.0 if name in _POSITIVE else x
        found[name] = functions[name](operand)
    return found


def _binary(functions: Any, x: Any, p: Any, i: Any) -> dict[str, Any]:
    """Every function of two operands."""
    return {name: functions[name](p if name == "pow" else x, p) for name in sorted(BINARY) if name != "nextafter"}


def _bits(functions: Any, x: Any, p: Any, i: Any) -> dict[str, Any]:
    """Every function of bits."""
    return {name: functions[name](i, abs(i) % 7) for name in sorted(BITS)}


def _softmax(x: Any, axis: int = -1) -> Any:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def _logsumexp(x: Any, axis: int, keepdims: bool = False) -> Any:
    largest = x.max(axis, keepdims=True)
    total = np.log(np.exp(x - largest).sum(axis, keepdims=True)) + largest
    return total if keepdims else np.squeeze(total, axis)


def _added(base: Any, indices: Any, values: Any) -> Any:
    result = np.array(base)
    np.add.at(result, indices, values)
    return result


def _topk(x: Any, k: int) -> list[Any]:
    order = np.argsort(-x, -1, kind="stable")[..., :k]
    return [np.take_along_axis(x, order, -1), order]


# -- computations that are the same text in both ------------------------------------------------------------------
def _reductions(xp: Any, x: Any, p: Any, i: Any) -> list[Any]:
    return [
        xp.sum(x, axis=1), xp.sum(x, axis=0), xp.sum(x), xp.prod(p * 0.5, axis=1), xp.any(x > 1, axis=1),
        xp.all(x > -1, axis=0), xp.sum(i, axis=0), xp.count_nonzero(i, axis=1),
    ]  # fmt: skip


def _statistics(xp: Any, x: Any, p: Any, i: Any) -> dict[str, Any]:
    return {
        "max": xp.max(x, axis=1), "min": xp.min(x, axis=0), "mean": xp.mean(x, axis=1), "var": xp.var(x, axis=0),
        "std": xp.std(x, axis=1, keepdims=True), "argmax": xp.argmax(x, axis=1),
        "argmin": (xp.argmin(x, axis=0), xp.argmin(x)),
    }  # fmt: skip


def _products(xp: Any, x: Any, p: Any, i: Any) -> list[Any]:
    return [
        xp.matmul(x, xp.matrix_transpose(p)), x.T @ p, xp.vecdot(x, p), xp.tensordot(x, p, axes=([0], [0])),
        xp.outer(x[:, 0], p[0]), xp.einsum("ij,ij->j", x, p), xp.einsum("ij->ji", x),
        xp.einsum("ij,kj,lj->ikl", x, p, x[:2]),
        i @ i.T,
    ]  # fmt: skip


def _shapes(xp: Any, x: Any, p: Any, i: Any) -> list[Any]:
    m, n = x.shape
    first, second = xp.broadcast_arrays(x[:, :1], p)
    return [
        xp.reshape(x, (n, m)), xp.permute_dims(x, (1, 0)), xp.squeeze(xp.expand_dims(x, axis=1), axis=1) + 1.0,
        xp.broadcast_to(x[:1], (3, n)), xp.concat([x, p, x[:1]], axis=0), xp.stack([x, p], axis=1), xp.flip(x, axis=0),
        xp.flip(x), xp.moveaxis(x, 0, 1), xp.roll(x, 2, axis=1), xp.tile(x, (2, 1)), xp.repeat(x, 2, axis=1),
        first + second, xp.unstack(x, axis=1)[-1], *xp.split(x, [1, 3], axis=1),
    ]  # fmt: skip


def _choices(xp: Any, x: Any, p: Any, i: Any) -> list[Any]:
    rows = abs(i[:, 0]) % x.shape[0]
    columns = abs(i) % x.shape[1]
    return [
        xp.where(x > 0, x, -p), xp.clip(x, -0.5, 0.5), xp.take(x, rows, axis=0), xp.take_along_axis(x, columns, axis=1),
        x[rows, columns[:, 0]], x[rows][:, ::-2], x[..., None, -1:],
    ]  # fmt: skip


def _orders(xp: Any, x: Any, p: Any, i: Any) -> list[Any]:
    return [
        xp.sort(x, axis=1), xp.sort(x, axis=0), xp.argsort(x, axis=1), xp.cumulative_sum(x, axis=1),
        xp.cumulative_sum(i, axis=0), xp.cumulative_prod(p, axis=1), xp.diff(x, axis=0),
    ]  # fmt: skip


def _created(xp: Any, x: Any, p: Any, i: Any) -> list[Any]:
    m, n = x.shape
    return [
        x + xp.arange(n), xp.eye(m, n) + x, xp.full((m, n), 2.5), xp.full_like(x, 3), xp.linspace(0.0, 1.0, n) * x,
        xp.ones((m, n)) + xp.ones_like(x), xp.tril(x), xp.triu(x, k=1), xp.zeros((n,)) + xp.zeros_like(x),
        x[:, xp.newaxis] * xp.pi - xp.e, xp.where(x > 0, x, xp.inf), xp.where(x > 0, x, xp.nan),
        xp.minimum(x, xp.finfo("float32").max), xp.maximum(i, xp.iinfo("int32").min),
    ]  # fmt: skip


def _coordinates(xp: Any, x: Any, p: Any, i: Any) -> list[Any]:
    n = x.shape[1]
    rows, columns = xp.meshgrid(x[:, 0], p[0])
    return [
        rows + columns, *xp.meshgrid(x[0], p[:, 0], x[0, :1], indexing="ij"), xp.asarray([1.5, -2.0, 3.0]) * x[:, :1],
        xp.asarray([[x[0, 0], 1.0], [x[-1, -1], 2.0]]), xp.zeros_like(xp.empty((n,))) + 0 * xp.zeros_like(xp.empty_like(x)),
        xp.searchsorted(xp.sort(x[0]), p), xp.searchsorted(p[0], x, side="right", sorter=xp.argsort(p[0])),
    ]  # fmt: skip


# -- computations that NumPy writes in another way ----------------------------------------------------------------
def _normalized(x: Any, p: Any, i: Any) -> list[Any]:
    return [tnp.softmax(x), tnp.softmax(x, axis=0), tnp.log_softmax(x), tnp.logsumexp(x, axis=1)]


def _normalized_by_numpy(x: Any, p: Any, i: Any) -> list[Any]:
    return [_softmax(x), _softmax(x, 0), x - _logsumexp(x, -1, keepdims=True), _logsumexp(x, 1)]


def _updated(x: Any, p: Any, i: Any) -> list[Any]:
    rows, columns = abs(i[:, 0]) % x.shape[0], abs(i[0]) % x.shape[1]
    return [x.at[rows].add(p), x.at[:, columns].add(p), x.at[1:].set(0.0), tnp.topk(x, 1)[0], tnp.topk(x, 1)[1]]


def _updated_by_numpy(x: Any, p: Any, i: Any) -> list[Any]:
    rows, columns = abs(i[:, 0]) % x.shape[0], abs(i[0]) % x.shape[1]
    start = np.concatenate([x[:1], 0 * x[1:]])
    return [_added(x, rows, p), _added(x, (slice(None), columns), p), start, *_topk(x, 1)]


def _defined(x: Any, p: Any, i: Any) -> Any:
    j = tnp.reduce_axis(x.shape[1])
    return tnp.compute((x.shape[0], 3), lambda r, s: tnp.sum(x[r, j] * p[r, j - s], axis=j)).astype("float32")


def _defined_by_numpy(x: Any, p: Any, i: Any) -> Any:
    n = x.shape[1]
    return np.stack([(x[:, s:] * p[:, : max(n - s, 0)]).sum(1) for s in range(3)], 1)


def _converted(x: Any, p: Any, i: Any) -> tuple[Any, ...]:
    assert tnp.isdtype(x.dtype, "real floating") and tnp.can_cast(x, "float64")
    wide = tnp.result_type(x, "float16", 2.5)
    return tnp.astype(x, "float16"), tnp.bitwise_invert(i), (x * 8).astype("int32"), tnp.nextafter(x, p).astype(wide)


def _converted_by_numpy(x: Any, p: Any, i: Any) -> tuple[Any, ...]:
    following = np.nextafter(x.astype(np.float32), p.astype(np.float32))
    return x.astype(np.float16), ~i, (x * 8).astype(np.int32), following


def _same(function: Callable[..., Any]) -> tuple[Program, Program]:
    """A computation whose first parameter is the module of the functions."""
    return (lambda *arrays: function(tnp, *arrays)), (lambda *arrays: function(np, *arrays))


def _all_of(function: Callable[..., Any], numpy: Mapping[str, Any]) -> tuple[Program, Program]:
    """A computation whose first parameter is a mapping of the functions."""
    ours = {name: getattr(tnp, name) for name in numpy}
    return (lambda *arrays: function(ours, *arrays)), (lambda *arrays: function(numpy, *arrays))


PROGRAMS: Mapping[str, tuple[Program, Program]] = {
    "unary": _all_of(_unary, UNARY),
    "binary": _all_of(_binary, BINARY),
    "bits": _all_of(_bits, BITS),
    "reductions": _same(_reductions),
    "statistics": _same(_statistics),
    "products": _same(_products),
    "shapes": _same(_shapes),
    "choices": _same(_choices),
    "orders": _same(_orders),
    "created": _same(_created),
    "coordinates": _same(_coordinates),
    "normalized": (_normalized, _normalized_by_numpy),
    "updated": (_updated, _updated_by_numpy),
    "defined": (_defined, _defined_by_numpy),
    "converted": (_converted, _converted_by_numpy),
}

OF_SOME = {"statistics", "choices", "normalized", "updated", "products", "shapes", "created", "coordinates"}
"""Computations that need elements."""


def operands(m: int, n: int, seed: int = 0) -> list[np.ndarray]:
    """The operands of a computation; no two numbers of a matrix of floats are equal."""
    rng = np.random.default_rng(seed)
    x = rng.permutation(m * n).reshape(m, n) / max(m * n, 1) * 4 - 2 + 0.01
    return [x.astype(np.float32), (np.abs(x[::-1]) * 0.5 + 0.25).astype(np.float32), rng.integers(-9, 10, (m, n), np.int32)]


def leaves(result: Any) -> list[np.ndarray]:
    """The arrays of a result, in order."""
    if isinstance(result, dict):
        return [leaf for value in result.values() for leaf in leaves(value)]
    return [leaf for value in result for leaf in leaves(value)] if isinstance(result, list | tuple) else [np.asarray(result)]
