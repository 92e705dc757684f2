"""Who reads what a parallel loop leaves in scalars and arrays of a thread."""

from loops import buffer, exprs, load, store

from tilelang.analysis.liveness import Liveness
from tilelang.dtypes import INT32
from tilelang.ir.buffer import Scope
from tilelang.ir.expr import Var
from tilelang.ir.stmt import For, ForKind, ParallelLoop, Seq, Store

I, J, K = (Var(name, INT32, index=True) for name in "ijk")
F = buffer("F", 16, 8)
X = buffer("x", scope=Scope.VAR)


def nest(*body):
    return ParallelLoop((I, J), exprs(16, 8), Seq(body))


def writer():
    return nest(Store(X, (), load(F, I, J)))


def test_nobody_reads_what_only_the_loop_itself_reads():
    loop = nest(Store(X, (), load(F, I, J)), store(F, I, J, load(X)))
    assert not Liveness(Seq((loop,))).is_read_outside(loop, X)


def test_a_statement_beside_the_loop_reads_it():
    loop = writer()
    assert Liveness(Seq((loop, nest(store(F, I, J, load(X)))))).is_read_outside(loop, X)


def test_a_statement_around_the_loop_reads_it():
    loop = writer()
    around = For(K, *exprs(0), load(X), 1, ForKind.SERIAL, Seq((loop,)))
    assert Liveness(around).is_read_outside(loop, X)


def test_a_loop_that_writes_it_first_does_not_count():
    loop = writer()
    private = nest(Store(X, (), load(F, I, J)), store(F, I, J, load(X)))
    assert not Liveness(Seq((loop, private))).is_read_outside(loop, X)
