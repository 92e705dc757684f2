"""Loads from shared memory come before a select of which both values are better computed, where they are in bounds."""

import numpy as np
import pytest
from programs import index_var
from specialized import launch_of

import tilelang
import tilelang.language as T
from tilelang.dtypes import FLOAT32
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Load, Select, as_expr, const, select
from tilelang.ir.func import PrimFunc
from tilelang.ir.stmt import Alloc, For, ForKind, If, Launch, Seq, Store
from tilelang.ir.visit import loads_of, walk, walk_expr
from tilelang.passes.base import PassContext
from tilelang.passes.thread.speculate_loads import PASS

I, THREAD = map(index_var, ("i", "thread"))
S = Buffer("S", (as_expr(128), as_expr(8)), FLOAT32, Scope.SHARED)
G = Buffer("G", (as_expr(128), as_expr(8)), FLOAT32, Scope.GLOBAL)
Y = Buffer("y", (as_expr(8),), FLOAT32, Scope.LOCAL)
ZERO = const(0.0, FLOAT32)


def value(*indices, of=S):
    return Load(of, tuple(map(as_expr, indices)), FLOAT32)


def body(stored):
    """The body of a loop of 128 threads that keeps a value, after the pass; None if it changes nothing."""
    loop = For(I, as_expr(0), as_expr(8), 1, ForKind.UNROLLED, Store(Y, (I,), stored))
    func = PrimFunc("f", (), Launch((), (), (128, 1, 1), Seq((Alloc(Y), loop)), thread=THREAD))
    made = PASS.run(func, PassContext())
    return None if made is func else next(s.body for s in walk(launch_of(made).body) if isinstance(s, For))


def test_each_element_is_loaded_once_before_the_select():
    element = value(THREAD, I)
    early, kept = body(select(THREAD < I, element * 2.0 + element, ZERO)).body
    assert ("S_element", Scope.VAR) == (early.buffer.name, early.buffer.scope)
    assert isinstance(early.init, Load)
    assert early.init.buffer is S
    assert {early.buffer} == {load.buffer for load in loads_of(kept.value)}
    assert any(isinstance(node, Select) for node in walk_expr(kept.value))


@pytest.mark.parametrize(
    "stored",
    [
        select(THREAD > 0, value(THREAD - 1, I) * 2.0, ZERO),  # before the first row without the condition
        select(THREAD < I, value(THREAD, I), ZERO),  # nothing is computed
        select(THREAD < I, value(THREAD, I, of=G) * 2.0, ZERO),  # global memory
        select(THREAD < I, value(THREAD, I, of=G) * value(THREAD, I), ZERO),
        value(THREAD, I) * 2.0,  # no select
    ],
)
def test_other_loads_stay_where_they_are(stored):
    assert body(stored) is None


def test_a_select_in_the_store_of_a_branch_is_known_to_be_in_bounds_there():
    stored = Store(Y, (as_expr(0),), select(value(0, 0, of=Y) < 1, value(THREAD - 1, 0) * 2.0, ZERO))
    func = PrimFunc("f", (), Launch((), (), (128, 1, 1), Seq((Alloc(Y), If(THREAD > 0, stored))), thread=THREAD))
    assert PASS.run(func, PassContext()) is not func


def test_other_threads_may_store_to_the_same_tile_meanwhile():
    turned = select(THREAD >= 96, value((THREAD + 32) % 128, 0) * 2.0, ZERO)
    stored = If(THREAD >= 64, Store(S, (THREAD, as_expr(0)), turned))
    func = PrimFunc("f", (), Launch((), (), (128, 1, 1), Seq((stored,)), thread=THREAD))
    assert PASS.run(func, PassContext()) is func


def masked(*, fills_all):
    @T.prim_func
    def main(X: T.Tensor((64, 64), "float32"), Z: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((64, 64), "float32")
            for i, j in T.Parallel(64, 64):
                if fills_all or i >= j:
                    tile[i, j] = X[i, j]
            for i, j in T.Parallel(64, 64):
                Z[i, j] = T.if_then_else(i >= j, tile[i, j] * T.exp2(X[i, j]), 0.0)

    return main


@pytest.mark.parametrize("fills_all", [True, False])
def test_elements_that_are_not_selected_may_be_undefined(fills_all):
    target = {"kind": "cuda", "arch": "sm_80"}
    kernel = tilelang.compile(masked(fills_all=fills_all), target=target, execution_backend="simulator")
    x, z = np.random.default_rng(0).standard_normal((64, 64), np.float32), np.zeros((64, 64), np.float32)
    kernel(x, z)
    np.testing.assert_allclose(z, np.tril(x * np.exp2(x)), rtol=1e-6)
