"""Which statements are asynchronous copies, and what they fill."""

import dataclasses

from loops import buffer, exprs

import tilelang.language as T
from tilelang.dtypes import FLOAT32, INT32
from tilelang.ir.buffer import Scope
from tilelang.ir.expr import Load, Var
from tilelang.ir.stmt import Bind, Launch, ParallelLoop, Seq, Store
from tilelang.ir.visit import walk
from tilelang.lowering import by_loop
from tilelang.ops.copy import Copy
from tilelang.schedule.async_copies import target_of
from tilelang.targets.nvidia.lowerings.copy_async import NAME
from tilelang.targets.nvidia.passes.async_copies import is_asynchronous, only_zero_fill

A, S = buffer("A", 8, scope=Scope.GLOBAL), buffer("S", 8, scope=Scope.SHARED)
I, ROW = (Var(name, INT32, index=True) for name in ("i", "row"))


def test_loops_whose_last_store_is_asynchronous_are_copies():
    for late in (False, True):
        store = Store(S, (I,), Load(A, (ROW,), FLOAT32), asynchronous=late)
        for body in (store, Seq((Bind(ROW, I), store)), Seq((Bind(ROW, I), Seq((store,))))):
            loop = ParallelLoop((I,), exprs(8), body)
            assert late == is_asynchronous(loop)
            assert not late or target_of(loop) is S


def copying(safe):
    @T.prim_func
    def main(A: T.Tensor((8, 8), "float32"), B: T.Tensor((8, 8), "float32")):
        with T.Kernel(1, threads=32):
            if safe is not None:
                T.annotate_safe_value({A: safe})
            s = T.alloc_shared((8, 8), "float32")
            T.copy(A, s)
            T.copy(B, s)

    (launch,) = (s for s in walk(main.body) if isinstance(s, Launch))
    chosen = Seq(tuple(dataclasses.replace(s, choice=NAME) for s in walk(launch.body) if isinstance(s, Copy)))
    return dataclasses.replace(launch, body=chosen)


def test_copies_of_what_is_not_zero_out_of_bounds_are_no_longer_asynchronous():
    for safe, choices in ((None, [NAME, NAME]), (0, [NAME, NAME]), (2, [by_loop.COPY.name, NAME])):
        made = only_zero_fill(copying(safe))
        assert choices == [s.choice for s in walk(made.body) if isinstance(s, Copy)]
        assert ["s", "s"] == [target_of(s).name for s in walk(copying(safe).body) if is_asynchronous(s)]
