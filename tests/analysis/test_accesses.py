"""What a statement touches, and what is known where it does."""

from __future__ import annotations

from loops import buffer, bx, exprs, i, j, load, serial, store

from tilelang.analysis.accesses import accesses, storages
from tilelang.arith.domain import Domain
from tilelang.arith.interval import bounds
from tilelang.dtypes import FLOAT32, INT32
from tilelang.errors import Loc
from tilelang.ir.assumption import assume
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import Var, as_expr, binary, cast, select
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.stmt import (
    Alloc,
    Atomic,
    AtomicOp,
    Bind,
    Break,
    CallStmt,
    If,
    ParallelLoop,
    Print,
    Seq,
    While,
)
from tilelang.ops.copy import Copy

S, T = buffer("S", 16, 16), buffer("T", 16)
x = buffer("x", scope=Scope.VAR)


def touched(stmt):
    return [("write" if a.write else "read", a.buffer.name) for a in accesses(stmt).all]


def only(stmt, b):
    (access,) = [a for a in accesses(stmt).all if a.buffer is b]
    return access


def test_reads_of_a_store_come_before_its_write():
    assert [("read", "T"), ("read", "x"), ("write", "S")] == touched(store(S, i, j, load(T, i) + load(x)))


def test_a_load_in_a_subscript_is_a_read():
    n = buffer("n", 4, dtype=INT32)
    assert [("read", "n"), ("read", "T"), ("write", "x")] == touched(store(x, load(T, load(n, 0))))


def test_a_tile_operator_touches_its_regions():
    copy = Copy(Region(S, exprs(0, 4), exprs(16, 4)), Region(S, exprs(0, 0), exprs(16, 4)))
    read, written = accesses(copy).all
    assert [4, 0] == [access.start[1].value for access in (read, written)]
    assert [False, True] == [read.write, written.write]


def test_views_count_as_their_storage_where_only_memory_matters():
    view = Buffer("view", S.shape, S.dtype, S.scope, view_of=S)
    found = storages(serial(i, 16, store(view, i, 0, load(T, i) + load(x))))
    assert ({S, T, x}, {T, x}, {S}) == (found.all, found.read, found.written)


def test_every_statement_is_seen_into():
    body = Seq((
        If(load(x) > 0, store(T, 0, 1.0), store(T, 1, 2.0)),
        While(load(x) > 0, store(x, 0.0)),
        Print(Region(T, exprs(0), exprs(16)), ""),
        Atomic(AtomicOp.ADD, T, exprs(0), as_expr(1.0, FLOAT32)),
        Atomic(AtomicOp.LOAD, T, exprs(1), None, Var("old", FLOAT32)),
        serial(i, load(buffer("n", dtype=INT32)), store(S, i, 0, 0.0)),
    ))  # fmt: skip
    assert [
        ("read", "x"), ("write", "T"), ("write", "T"),
        ("read", "x"), ("write", "x"),
        ("read", "T"),
        ("read", "T"), ("write", "T"),
        ("read", "T"),
        ("read", "n"), ("write", "S"),
    ] == touched(body)  # fmt: skip


def test_a_routine_touches_what_it_declares():
    whole = Region(T, exprs(0), exprs(16))
    assert [("read", "T"), ("write", "T")] == touched(CallStmt(None, (whole,), (whole,), (whole,)))


def test_the_result_of_a_call_is_defined_in_the_statement():
    result, old = Var("result", INT32), Var("old", FLOAT32)
    call, atomic = CallStmt(None, (), result=result), Atomic(AtomicOp.ADD, T, exprs(0), as_expr(1.0), result=old)
    found = accesses(serial(i, 4, Seq((call, atomic, Bind(j, i + 1)))))
    assert {i, j, result, old} == found.defined


def test_a_view_counts_as_the_buffer_it_shows():
    view = Buffer("view", exprs(256), FLOAT32, Scope.FRAGMENT, view_of=S)
    found = accesses(Seq((Alloc(view), store(view, 0, 1.0), store(S, 0, 0, load(T, 0)))))
    assert {S: 2, T: 1} == {b: len(group) for b, group in found.by_storage().items()}


def test_what_is_allocated_inside_is_local():
    found = accesses(Seq((Alloc(x, as_expr(0.0, FLOAT32)), store(T, 0, load(x)))))
    assert ({x}, [T]) == (found.local, list(found.by_storage()))


def test_loops_and_conditions_bound_a_subscript():
    access = only(serial(i, 8, If(i >= 2, store(T, i * 2, 1.0))), T)
    assert (4, 14) == bounds(access.start[0], access.context.domain(Domain()))
    assert not access.context.uncertain
    assert 1 == len(access.context.conditions())


def test_the_sides_of_a_choice_know_its_condition():
    value = select(i < 4, load(T, i), load(S, i, 0))
    stmt = ParallelLoop((i,), exprs(16), store(x, value))
    assert (0, 3) == bounds(i, only(stmt, T).context.domain(Domain()))
    assert (4, 15) == bounds(i, only(stmt, S).context.domain(Domain()))


def test_the_right_of_and_knows_the_left():
    stmt = ParallelLoop((i,), exprs(16), store(x, cast(binary(BinaryOp.AND, i < 4, load(T, i) > 0), FLOAT32)))
    assert (0, 3) == bounds(i, only(stmt, T).context.domain(Domain()))


def test_a_binding_is_known_to_what_follows():
    row = Var("row", INT32, index=True)
    access = only(serial(i, 4, Bind(row, i + 8), store(T, row, 1.0)), T)
    assert (8, 11) == bounds(access.start[0], access.context.domain(Domain()))


def test_a_promise_is_known_to_what_follows_and_is_no_condition():
    access = only(serial(i, 64, assume(i >= 8, Loc("program.py", 1)), store(T, i, 1.0)), T)
    assert (8, 63) == bounds(access.start[0], access.context.domain(Domain()))
    assert () == access.context.conditions()


def test_an_access_after_a_possible_jump_is_uncertain():
    assert only(serial(i, 4, If(load(S, i, i) > 0, Break()), store(T, i, 1.0)), T).context.uncertain
    assert only(serial(i, bx, store(T, i, 1.0)), T).context.uncertain
    assert not only(serial(i, 4, serial(j, 4, Break()), store(T, i, 1.0)), T).context.uncertain
