"""What the verifier accepts, reports as an error of the user, or as an error of the compiler."""

from __future__ import annotations

import pytest
from loops import buffer, bx, exprs, i, j, load, serial, store

from tilelang.dtypes import FLOAT32, INT32, INT64, as_dtype
from tilelang.errors import CompilerBug, Loc, ProgramError
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import Binary, Load, Reinterpret, Var, as_expr, binary, const
from tilelang.ir.func import Level, PrimFunc, TensorParam
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.stmt import (
    Alloc,
    Atomic,
    AtomicOp,
    Bind,
    Break,
    Continue,
    For,
    ForKind,
    Group,
    If,
    Launch,
    ParallelLoop,
    PipelineSpec,
    Seq,
    Store,
    While,
)
from tilelang.ir.verify import verify
from tilelang.ops.copy import Copy

A = buffer("A", 64, scope=Scope.GLOBAL)
S = buffer("S", 64, scope=Scope.SHARED)
x = buffer("x", scope=Scope.VAR)
v = Var("v", INT32, index=True)


def function(*body, level=Level.TILE):
    launch = Launch((bx,), exprs(4), (128, 1, 1), Seq(body, loc=Loc("kernel.py", 3)), loc=Loc("kernel.py", 2))
    return PrimFunc("f", (TensorParam(A),), launch, level)


def test_a_whole_program_is_accepted():
    verify(function(
        Alloc(S), Alloc(x, const(0.0, FLOAT32)),
        Copy(Region(A, exprs(0), exprs(64)), Region(S, exprs(0), exprs(64))),
        ParallelLoop((i,), exprs(64), Seq((Bind(v, i + 1), store(S, v - 1, load(S, i) * 2.0)))),
        serial(j, 4, If(load(x) > 0, Break(), store(x, load(x) + load(S, j)))),
        While(load(x) > 0, Continue()),
        If(bx < 1, If(bx < 1, Seq(()), group=Group(33, 1)), group=Group(32, 64)),
        Atomic(AtomicOp.ADD, A, exprs(0), load(x), Var("old", FLOAT32)),
    ))  # fmt: skip


def test_an_index_may_be_bound_to_a_variable_of_another_width():
    n = Var("n", INT64, index=True)
    wide = Var("wide", INT64, index=True)
    verify(function(Bind(n, const(7, INT64)), Bind(v, binary(BinaryOp.MIN, n - bx, 4)), Bind(wide, v + 1)))


@pytest.mark.parametrize(
    ("message", "body"),
    [
        ("'S': buffer used before", (serial(i, 4, Alloc(S)), store(A, 0, load(S, 0)))),
        ("'S': buffer used before", (store(A, 0, load(S, 0)), Alloc(S))),
        ("'x': buffer used before", (If(bx < 1, Seq((Alloc(x), store(x, 0.0)))), store(A, 0, load(x)))),
        ("'v': variable used before", (serial(i, 4, Bind(v, i * 2)), store(A, v, 0.0))),
        ("'i' is the variable of a loop, and", (serial(i, 4, store(A, i, 0.0)), store(A, i, 0.0))),
        ("break: stands outside of a loop", (Break(),)),
        ("continue: stands outside of a loop", (If(bx < 1, Continue()),)),
        ("T.ws: only some of its threads", (If(bx < 1, Seq(()), group=Group(96, 64)),)),
        ("T.Kernel: stands inside another T.Kernel", (Launch((j,), exprs(1), (1, 1, 1), Seq(())),)),
        ("'D': shared.dyn memory needs a constant shape, got (bx)", (Alloc(Buffer("D", (bx,), FLOAT32, Scope.SHARED)),)),
    ],
)
def test_errors_of_the_user(message, body):
    with pytest.raises(ProgramError) as caught:
        verify(function(*body))
    assert caught.value.message.startswith(message)
    assert "kernel.py:3" == str(caught.value.loc)


def test_a_name_out_of_scope_comes_with_a_hint():
    with pytest.raises(ProgramError) as caught:
        verify(function(serial(i, 4, Seq((Alloc(x), store(x, 0.0)))), store(A, 0, load(x))))
    assert "define 'x' before the loop or branch: `x = T.alloc_var(dtype)` and assign it inside" == caught.value.hint


def test_memory_on_chip_needs_a_kernel():
    with pytest.raises(ProgramError, match="'S': shared.dyn memory belongs to a block, but there is none here"):
        verify(PrimFunc("f", (), Seq((Alloc(S),))))


F16 = as_dtype("float16")
REGION = Region(A, exprs(0), exprs(4))


@pytest.mark.parametrize(
    ("message", "level", "body"),
    [
        ("'S' is never defined", Level.TILE, store(S, 0, 0.0)),
        ("'v' is never defined", Level.TILE, store(A, v, 0.0)),
        ("2 indices into 'A' of rank 1", Level.TILE, store(A, 0, 0, 0.0)),
        ("Store: value T.float16(0.0) has dtype float16", Level.TILE, Store(A, exprs(0), const(0.0, F16))),
        ("index 0.5 has dtype float32", Level.TILE, Store(A, (as_expr(0.5),), const(0.0, FLOAT32))),
        ("condition bx has dtype int32", Level.TILE, If(bx, Seq(()))),
        ("Load: float16 from 'A'", Level.TILE, Store(A, exprs(0), Load(A, exprs(0), F16))),
        ("Bind: value T.int64(7) has dtype int64", Level.TILE, Bind(Var("data", INT32), const(7, INT64))),
        ("Bind: value A[0] has dtype float32", Level.TILE, Bind(v, load(A, 0))),
        ("differ in width", Level.TILE, store(A, 0, Reinterpret(const(0, INT64), FLOAT32))),
        (
            "operands of float32 and int32",
            Level.TILE,
            Store(A, exprs(0), Binary(BinaryOp.ADD, load(A, 0), const(1, INT32), FLOAT32)),
        ),
        ("no threads 96 to 159 here", Level.TILE, If(bx < 1, Seq(()), group=Group(96, 64, collective=True))),
        ("are no warps", Level.TILE, If(bx < 1, Seq(()), group=Group(16, 32, collective=True))),
        ("has another branch", Level.TILE, If(bx < 1, Seq(()), Seq(()), group=Group(32, 32))),
        (
            "no threads 0 to 0 here",
            Level.TILE,
            If(bx < 1, If(bx < 1, Seq(()), group=Group(0, 1, collective=True)), group=Group(32, 32)),
        ),
        ("the step is 0", Level.TILE, For(i, as_expr(0), as_expr(4), 0, ForKind.SERIAL, Seq(()))),
        ("1 variables but 2 extents", Level.TILE, ParallelLoop((i,), exprs(4, 4), Seq(()))),
        ("Atomic add: has no value", Level.TILE, Atomic(AtomicOp.ADD, A, exprs(0), None)),
        ("ParallelLoop is not allowed at thread level", Level.THREAD, ParallelLoop((i,), exprs(4), Seq(()))),
        ("Copy is not allowed at thread level", Level.THREAD, Copy(REGION, REGION)),
        (
            "kind Pipelined is not allowed at thread level",
            Level.THREAD,
            For(i, as_expr(0), as_expr(4), 1, ForKind.PIPELINED, Seq(()), PipelineSpec(2)),
        ),
        (
            "view 'V' has 260 bytes, 'A' has 256",
            Level.TILE,
            Alloc(Buffer("V", exprs(65), FLOAT32, Scope.GLOBAL, view_of=A)),
        ),
    ],
)
def test_errors_of_the_compiler(message, level, body):
    with pytest.raises(CompilerBug) as caught:
        verify(function(body, level=level), warp_size=32)
    assert message in caught.value.message
