"""Which statements are asynchronous copies, and what they fill."""

import dataclasses

import pytest
from loops import buffer, exprs

from tilelang.dtypes import FLOAT32, INT32
from tilelang.ir.buffer import Region, Scope
from tilelang.ir.expr import Load, Var
from tilelang.ir.stmt import Bind, ParallelLoop, Seq, Store
from tilelang.lowering import by_loop
from tilelang.lowering.chunks import ChunkPlan
from tilelang.ops.copy import Copy
from tilelang.schedule.async_copies import is_asynchronous, synchronous, target_of

A, S = buffer("A", 8, scope=Scope.GLOBAL), buffer("S", 8, scope=Scope.SHARED)
I, ROW = (Var(name, INT32, index=True) for name in ("i", "row"))
COPY = Copy(Region(A, exprs(0), exprs(8)), Region(S, exprs(0), exprs(8)))
LOOP = ParallelLoop((I,), exprs(8), Store(S, (I,), Load(A, (I,), FLOAT32), asynchronous=True))


@pytest.mark.parametrize("stmt", [COPY, LOOP])
def test_copies_and_loops_fill_the_tile_that_they_write(stmt):
    assert target_of(stmt) is S


def test_the_tile_behind_a_view_is_what_a_copy_to_the_view_fills():
    view = dataclasses.replace(S, name="view", view_of=S)
    assert target_of(dataclasses.replace(COPY, dst=Region(view, exprs(0), exprs(8)))) is S


def test_a_copy_is_asynchronous_by_its_plan():
    chosen = dataclasses.replace(COPY, choice="some.way", plan=ChunkPlan(4))
    assert [False, True, False] == [is_asynchronous(each) for each in (COPY, chosen, synchronous(chosen))]
    assert by_loop.COPY.name == synchronous(chosen).choice


@pytest.mark.parametrize("late", [False, True])
def test_a_loop_is_asynchronous_by_its_last_store(late):
    store = Store(S, (I,), Load(A, (ROW,), FLOAT32), asynchronous=late)
    for body in (store, Seq((Bind(ROW, I), store)), Seq((Bind(ROW, I), Seq((store,))))):
        assert late == is_asynchronous(ParallelLoop((I,), exprs(8), body))
