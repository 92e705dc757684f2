"""Shorter code of the same meaning."""

import numpy as np
from harness import run_everywhere
from programs import index_var

import tilelang.language as T
from tilelang.dtypes import BOOL, FLOAT32, INT32
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Binary, Load, Var, as_expr, binary, const
from tilelang.ir.func import Level, PrimFunc, TensorParam
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.stmt import Alloc, Bind, Break, For, ForKind, If, Launch, Seq, Store
from tilelang.ir.visit import any_expr, walk, walk_expr
from tilelang.passes.runner import run_passes
from tilelang.passes.thread.simplify_body import PASS
from tilelang.targets.cpu.backend import BACKEND

A = Buffer("A", (as_expr(64),), FLOAT32, Scope.GLOBAL)
ONE = const(1.0, FLOAT32)


def simplified(*body):
    launch = Launch((index_var("bx"),), (as_expr(1),), (1, 1, 1), Seq(tuple(body)))
    func = PrimFunc("f", (TensorParam(A),), launch, Level.THREAD)
    return [s for s in walk(run_passes(func, (PASS,)).body) if not isinstance(s, Seq | Launch)]


def loop(var, start, stop, body):
    return For(var, as_expr(start), as_expr(stop), 1, ForKind.SERIAL, body)


def test_a_loop_that_runs_once_is_its_body():
    i = index_var("i")
    (store,) = simplified(loop(i, 3, 4, Store(A, (i + 1,), ONE)))
    assert isinstance(store, Store)
    assert 4 == store.indices[0].value


def test_a_loop_that_never_runs_and_what_is_empty_are_gone():
    i, j = index_var("i"), index_var("j")
    assert [] == simplified(loop(i, 3, 3, Store(A, (i,), ONE)), loop(i, 0, 9, loop(j, 5, 2, Store(A, (j,), ONE))))


def test_a_loop_that_is_left_early_stays_a_loop():
    i = index_var("i")
    kept = simplified(loop(i, 0, 1, Seq((Store(A, (i,), ONE), Break()))))
    assert isinstance(kept[0], For)


def test_conditions_known_from_loops_are_decided():
    i = index_var("i")
    kept = simplified(loop(i, 0, 8, If(i < 8, Store(A, (i,), ONE), Store(A, (i + 1,), ONE))))
    assert [For, Store] == [type(s) for s in kept]
    assert [] == simplified(loop(i, 0, 8, If(i > 7, Store(A, (i,), ONE))))


def test_a_binding_that_turns_out_constant_is_its_value():
    i, known = index_var("i"), Var("known", BOOL)
    body = Seq((Bind(known, i < 8), If(known, Store(A, (i,), ONE), Store(A, (i + 1,), ONE))))
    assert [For, Store] == [type(s) for s in simplified(loop(i, 0, 8, body))]


def test_floor_division_becomes_the_machines_where_both_agree():
    @T.prim_func
    def main(B: T.Tensor((64,), "int32"), C: T.Tensor((64,), "int32")):
        with T.Kernel(1):
            for i in T.Parallel(64):
                C[i // 8 * 8 + i % 8] = B[(i - 5) // 3 % 64]

    body = run_passes(main, BACKEND.passes).body
    floors = (BinaryOp.FLOORDIV, BinaryOp.FLOORMOD)
    assert any_expr(body, lambda e: isinstance(e, Binary) and e.op in floors)  # (i - 5) may be negative
    assert not any_expr(body, lambda e: isinstance(e, Binary) and e.op in floors and not any_minus(e.a))
    run_everywhere(main, np.arange(64, dtype=np.int32), np.zeros(64, np.int32), compile_flags="-O1")


def any_minus(expr):
    return any(getattr(e, "value", 0) == -5 or getattr(e, "op", None) is BinaryOp.SUB for e in walk_expr(expr))


def test_a_name_keeps_what_its_value_shows_of_its_range():
    i, n, rest = index_var("i"), index_var("n"), index_var("rest")
    body = Seq((Bind(rest, binary(BinaryOp.MAX, n - i, as_expr(1))), Store(A, (rest,), ONE)))
    bind = next(s for s in simplified(loop(n, 0, 64, loop(i, 0, n, body))) if isinstance(s, Bind))
    assert isinstance(bind.value, Binary)
    assert bind.value.op is BinaryOp.MAX


def test_what_follows_knows_the_range_that_a_longer_value_showed():
    turn, block, tile, most = map(index_var, ("turn", "block", "tile", "most"))
    bindings = (
        Bind(tile, binary(BinaryOp.MIN, block + turn * 132, as_expr(511))),
        Bind(most, binary(BinaryOp.MIN, tile * tile, as_expr(511 * 511))),
    )
    turns = loop(turn, 0, (643 - block) // 132, Seq((*bindings, Store(A, (most % 64,), ONE))))
    first, second = (s for s in simplified(loop(block, 0, 132, turns)) if isinstance(s, Bind))
    assert [BinaryOp.ADD, BinaryOp.MUL] == [first.value.op, second.value.op]


def test_a_remainder_of_a_masked_counter_truncates_although_the_counter_changes():
    counter, number = Buffer("counter", (), INT32, Scope.VAR), index_var("number")
    masked = binary(BinaryOp.BITAND, Load(counter, (), INT32), const(2**31 - 1, INT32))
    _, bind, store = simplified(Alloc(counter, const(0, INT32)), Bind(number, masked), Store(A, (binary(BinaryOp.FLOORMOD, number, 3),), ONE))
    assert masked is bind.value
    assert store.indices[0].op is BinaryOp.TRUNCMOD
