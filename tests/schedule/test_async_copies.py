"""What asynchronous copies fill."""

import pytest
from loops import buffer, exprs

from tilelang.dtypes import FLOAT32, INT32
from tilelang.ir.buffer import Region, Scope
from tilelang.ir.expr import Load, Var
from tilelang.ir.stmt import ParallelLoop, Store
from tilelang.ops.copy import Copy
from tilelang.schedule.async_copies import target_of

A, S = buffer("A", 8, scope=Scope.GLOBAL), buffer("S", 8, scope=Scope.SHARED)
I = Var("i", INT32, index=True)
COPY = Copy(Region(A, exprs(0), exprs(8)), Region(S, exprs(0), exprs(8)))
LOOP = ParallelLoop((I,), exprs(8), Store(S, (I,), Load(A, (I,), FLOAT32), asynchronous=True))


@pytest.mark.parametrize("stmt", [COPY, LOOP])
def test_copies_and_loops_fill_the_tile_that_they_write(stmt):
    assert target_of(stmt) is S
