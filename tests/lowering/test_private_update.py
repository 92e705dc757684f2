"""What becomes of atomics on memory that one thread has to itself."""

import pytest

from tilelang.dtypes import FLOAT32, INT32
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Var, const
from tilelang.ir.printer import to_text
from tilelang.ir.stmt import Atomic, AtomicOp
from tilelang.lowering.private_update import private_update

OWN = Buffer("x", (const(4, INT32),), FLOAT32, Scope.LOCAL)
OLD = Var("old", FLOAT32)
ONE, TWO = const(1, FLOAT32), const(2, FLOAT32)


@pytest.mark.parametrize(
    ("op", "value", "more", "lines"),
    [
        (AtomicOp.ADD, ONE, {}, ["x[3] = x[3] + 1.0"]),
        (AtomicOp.MAX, ONE, {"result": OLD}, ["old = x[3]", "x[3] = T.max(old, 1.0)"]),
        (AtomicOp.EXCHANGE, ONE, {"result": OLD}, ["old = x[3]", "x[3] = 1.0"]),
        (AtomicOp.STORE, ONE, {}, ["x[3] = 1.0"]),
        (AtomicOp.LOAD, None, {"result": OLD}, ["old = x[3]"]),
        (
            AtomicOp.CAS, ONE, {"compare": TWO},
            ["previous = x[3]", 'if T.reinterpret(previous, "uint32") == T.reinterpret(2.0, "uint32"):', "x[3] = 1.0"],
        ),
    ],
)  # fmt: skip
def test_an_update_is_a_load_and_a_store(op, value, more, lines):
    update = private_update(Atomic(op, OWN, (const(3, INT32),), value, **more))
    assert lines == [line.strip() for line in to_text(update).splitlines()]
