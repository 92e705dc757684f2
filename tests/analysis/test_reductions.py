"""Which stores are associative updates."""

from __future__ import annotations

import pytest
from loops import buffer, i, j, largest, load, store

from tilelang.analysis.reductions import PICK, as_update
from tilelang.dtypes import INT32, as_dtype
from tilelang.ir.buffer import Scope
from tilelang.ir.expr import Call, Reinterpret, binary, cast, select
from tilelang.ir.scalar import BinaryOp
from tilelang.isa.catalogue import INTRINSICS

S, m = buffer("S", 8, 8), buffer("m", 8)
x, h = buffer("x", scope=Scope.VAR), buffer("h", scope=Scope.VAR, dtype=as_dtype("float16"))
n, b = buffer("n", scope=Scope.VAR, dtype=as_dtype("int8")), buffer("b", scope=Scope.VAR, dtype=as_dtype("bool"))
e = load(S, i, j)


def smallest(a, b):
    return binary(BinaryOp.MIN, a, b)


@pytest.mark.parametrize(
    ("op", "made"),
    [
        ("+", store(x, load(x) + e)),
        ("+", store(x, e + load(x))),
        ("+", store(x, load(x) - e)),
        ("+", store(x, load(x) + e * 2.0 - e)),
        ("+", store(m, i, load(m, i) + e)),
        ("+", store(x, Call(INTRINSICS["fma"], (e, e, load(x)), x.dtype))),
        ("+", store(x, select(e > 0, load(x) + e, load(x)))),
        ("+", store(h, cast(cast(load(h), x.dtype) + e, h.dtype))),
        ("+", store(n, cast(cast(load(n), INT32) + 300, n.dtype))),
        ("*", store(x, load(x) * e * 2.0)),
        ("max", store(x, largest(largest(e, load(x)), 1.0))),
        ("min", store(m, i + 1, smallest(load(m, i + 1), e))),
        ("max", store(h, cast(largest(cast(load(h), x.dtype), e), h.dtype))),
        ("&", store(b, binary(BinaryOp.AND, load(b), e > 0))),
        ("|", store(b, binary(BinaryOp.OR, e > 0, load(b)))),
        (PICK, store(x, select(e > load(x), e, load(x)))),
    ],
)
def test_is_an_update(op, made):
    update = as_update(made)
    assert update is not None
    assert (op, made.buffer) == (update.op, update.buffer)


@pytest.mark.parametrize(
    "made",
    [
        store(x, e),
        store(x, load(x)),
        store(x, e - load(x)),
        store(x, load(x) + load(x)),
        store(x, load(x) * 2.0 + e),
        store(x, load(x) / e),
        store(x, e / load(x)),
        store(m, i, load(m, j) + e),
        store(x, select(e > 0, e, load(x))),
        store(x, select(load(x) > 0, 1.0, e) + 1.0),
        store(x, -load(x) + e),
        store(x, Reinterpret(Reinterpret(load(x), INT32) + 1, x.dtype)),
        store(x, cast(cast(load(x), h.dtype) + e, x.dtype)),
        store(n, cast(largest(cast(load(n), INT32), 300), n.dtype)),
        store(n, cast(cast(load(n), x.dtype) + e, n.dtype)),
        store(b, cast(cast(load(b), INT32) + 1, b.dtype)),
    ],
)
def test_is_not_an_update(made):
    assert as_update(made) is None
