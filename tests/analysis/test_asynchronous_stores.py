"""Which loops are asynchronous copies."""

from loops import buffer, exprs

from tilelang.analysis.asynchronous_stores import asynchronous_store
from tilelang.dtypes import FLOAT32, INT32
from tilelang.ir.buffer import Scope
from tilelang.ir.expr import Load, Var
from tilelang.ir.stmt import Bind, ParallelLoop, Seq, Store

A, S = buffer("A", 8, scope=Scope.GLOBAL), buffer("S", 8, scope=Scope.SHARED)
I, ROW = (Var(name, INT32, index=True) for name in ("i", "row"))


def test_the_last_store_of_a_loop_says_whether_it_is_asynchronous():
    for late in (False, True):
        store = Store(S, (I,), Load(A, (ROW,), FLOAT32), asynchronous=late)
        for body in (store, Seq((Bind(ROW, I), store)), Seq((Bind(ROW, I), Seq((store,))))):
            assert asynchronous_store(ParallelLoop((I,), exprs(8), body)) is (store if late else None)
    assert asynchronous_store(store) is None  # it is no loop
