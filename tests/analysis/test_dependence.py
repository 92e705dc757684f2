"""Dependences between the iterations of T.Parallel: what is reported, what is let pass, and that reports are true."""

from __future__ import annotations

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from loops import BUFFERS, TRIPS, M, Machine, bodies, buffer, bx, exprs, i, j, k, largest, load, serial, store

from tilelang.analysis.dependence import check_parallel
from tilelang.arith.domain import Domain
from tilelang.dtypes import FLOAT32, INT32
from tilelang.errors import Loc, ProgramError
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Var, as_expr, cast, select
from tilelang.ir.printer import to_text
from tilelang.ir.stmt import Alloc, Atomic, AtomicOp, Bind, Break, Continue, If, ParallelLoop, Seq

S, T = buffer("S", 64, 64), buffer("T", 64, 64)
a, b = buffer("a", 128), buffer("b", 128)
G = buffer("G", M, scope=Scope.GLOBAL)
x = buffer("x", scope=Scope.VAR)
local = buffer("local", 4, scope=Scope.LOCAL)


def check(variables, extents, *body):
    check_parallel(ParallelLoop(variables, exprs(*extents), Seq(body)), Domain())


@pytest.mark.parametrize(
    ("what", "variables", "extents", "body"),
    [
        ("the element before", (i,), (64,), store(a, i, load(a, i - 1))),
        ("the element after", (i,), (64,), store(a, i, load(a, i + 1))),
        ("the element before, of a dynamic extent", (i,), (M,), store(G, i, load(G, i - 1))),
        ("the element before, in a block", (i,), (64,), store(G, bx * 64 + i, load(G, bx * 64 + i - 1))),
        ("the element before, guarded", (i,), (64,), If(i > 0, store(a, i, load(a, i - 1)))),
        ("the column before", (i, j), (8, 8), store(S, i, j, load(S, i, j - 1))),
        ("a diagonal", (i, j), (8, 8), store(S, i, j, load(S, i - 1, j + 1))),
        ("the mirror image", (i,), (64,), store(a, i, load(a, 63 - i))),
        ("a written element read later", (i,), (64,), Seq((store(a, i, 1.0), store(b, i, load(a, i - 1))))),
        ("a prefix sum", (i,), (64,), Seq((store(x, load(x) + load(a, i)), store(b, i, load(x))))),
        ("a linear recurrence", (i,), (64,), store(x, load(x) * 2.0 + load(a, i))),
        ("the last one wins", (i,), (64,), store(a, 0, cast(i, FLOAT32))),
        ("rows that get column numbers", (i, j), (8, 8), store(a, i, cast(j, FLOAT32))),
        ("two values for one element", (i,), (8,), Seq((store(a, i, 1.0), store(a, i + 1, 2.0)))),
        ("two iterations per element", (i,), (8,), store(a, i // 2, cast(i, FLOAT32))),
        ("the row above in an inner loop", (i,), (8,), serial(k, 4, store(S, i, k, load(S, i - 1, k)))),
        ("sums and products of one scalar", (i,), (8,), Seq((store(x, load(x) + 1.0), store(x, load(x) * 2.0)))),
    ],
)
def test_is_reported(what, variables, extents, body):
    with pytest.raises(ProgramError, match="T.Parallel: iteration"):
        check(variables, extents, body)


@pytest.mark.parametrize(
    ("what", "variables", "extents", "body"),
    [
        ("elementwise", (i, j), (64, 64), store(S, i, j, load(S, i, j) * 2.0)),
        ("another buffer", (i,), (64,), store(a, i, load(b, i - 1))),
        ("a sum", (i, j), (64, 64), store(a, i, load(a, i) + load(S, i, j))),
        ("a maximum", (i,), (64,), store(x, largest(load(x), load(a, i)))),
        ("a choice by comparison", (i,), (64,), store(x, select(load(a, i) > load(x), load(a, i), load(x)))),
        ("a maximum by branch", (i,), (64,), If(load(a, i) > load(x), store(x, load(a, i)))),
        ("the same value everywhere", (i,), (64,), store(a, 0, 1.0)),
        ("an unknown value everywhere", (i,), (64,), store(a, 0, load(b, i))),
        ("a temporary", (i,), (64,), Seq((store(x, load(a, i)), store(b, i, load(x))))),
        ("a temporary on chip", (i,), (64,), Seq((store(b, 0, load(a, i)), store(a, i, load(b, 0))))),
        ("an array", (i,), (64,), serial(k, 4, store(local, k, load(S, i, k)), store(S, i, k, load(local, k)))),
        ("a scratch number", (i,), (64,), store(local, 0, cast(i, FLOAT32))),
        ("a distance beyond the loop", (i,), (64,), store(a, i, load(a, i + 64))),
        ("halves that do not meet", (i,), (16,), store(a, i, load(a, 31 - i))),
        ("one iteration", (i,), (1,), store(a, i, load(a, 0) * 2.0)),
        ("none at all", (i,), (0,), store(a, i, load(a, i + 1))),
        ("a scatter", (i,), (64,), store(a, cast(load(b, i), INT32), 1.0)),
        ("a branch on data", (i,), (64,), If(load(b, i) > 0, store(a, i, load(a, i - 1)))),
        ("branches that exclude each other", (i,), (64,), If(i < 1, store(a, i, load(a, i + 1)))),
        ("what is allocated inside", (i,), (64,), Seq((Alloc(local), store(local, 0, cast(i, FLOAT32))))),
        ("elements out of range", (i,), (16,), store(a, i - 100, load(a, i - 101))),
        ("an atomic", (i,), (64,), Atomic(AtomicOp.ADD, G, exprs(0), as_expr(1.0, FLOAT32))),
        ("continue", (i,), (64,), Seq((If(load(b, i) > 0, Continue()), store(a, i, load(a, i - 1))))),
        ("break of an inner loop", (i,), (64,), serial(k, 4, Break())),
        ("quotient and remainder", (i,), (4096,), store(S, i // 64, i % 64, load(S, i // 64, i % 64) + 1.0)),
    ],
)  # fmt: skip
def test_is_let_pass(what, variables, extents, body):
    check(variables, extents, body)


def test_a_view_is_let_pass():
    view = Buffer("view", exprs(4096), FLOAT32, Scope.FRAGMENT, view_of=S)
    check((i,), (64,), store(S, i, 0, load(view, i)))


def test_a_bound_name_is_seen_through():
    before = Var("before", INT32, index=True)
    with pytest.raises(ProgramError):
        check((i,), (64,), Bind(before, i - 1), store(a, i, load(a, before)))


def test_the_message_names_both_accesses_and_says_what_to_write():
    body = Seq((store(a, i, 1.0), store(b, i, load(a, i - 1))))
    with pytest.raises(ProgramError) as caught:
        check((i,), (64,), body)
    assert [
        "T.Parallel: iteration i = 1 reads 'a[i - 1]', which iteration i = 0 writes",
        "note: it is written as 'a[i]' here",
        "hint: if iterations must run in order, write `for i in T.serial(64):`",
    ] == str(caught.value).splitlines()


def test_the_message_of_two_values_for_one_element():
    with pytest.raises(ProgramError) as caught:
        check((i, j), (8, 8), store(a, i, cast(j, FLOAT32)))
    assert [
        "T.Parallel: iterations (i = 0, j = 0) and (i = 0, j = 1) write different values to 'a[i]'",
        "hint: if iterations must run in order, write `for i, j in T.grid(8, 8):`",
    ] == str(caught.value).splitlines()


def test_break_is_reported_with_its_place():
    loop = ParallelLoop((i,), exprs(8), If(load(a, i) > 0, Break(loc=Loc("kernel.py", 7))), loc=Loc("kernel.py", 5))
    with pytest.raises(ProgramError) as caught:
        check_parallel(loop, Domain())
    assert "break: T.Parallel runs all its iterations, in no particular order" == caught.value.message
    assert ("kernel.py:7", "kernel.py:5") == (str(caught.value.loc), str(caught.value.notes[0].loc))


class Tracer(Machine):
    """Notes, per iteration, the elements read before they are written, and the last value of those written."""

    def trace(self, body, env):
        exposed, written = [], []
        for value in range(TRIPS):
            reads, writes = set(), {}
            own = {(c, at): _Cell(self.memory[c], at, (c, at), reads, writes) for c in BUFFERS for at in self.memory[c]}
            for _ in self.run(body, {**env, i: value}, own):
                pass
            exposed.append(reads)
            written.append(writes)
        return exposed, written


class _Cell(dict):
    def __init__(self, cells, at, name, reads, writes):
        super().__init__({at: cells[at]})
        self._cells, self._name, self._reads, self._writes = cells, name, reads, writes

    def get(self, at, default=None):
        if self._name not in self._writes:
            self._reads.add(self._name)
        return self._cells.get(at, default)

    def __setitem__(self, at, value):
        self._writes[self._name] = value
        self._cells[at] = value


def depends(exposed, written):
    return any(
        at in exposed[q] or written[q].get(at, value) != value
        for p in range(TRIPS)
        for q in range(TRIPS)
        if p != q
        for at, value in written[p].items()
    )


@settings(max_examples=4 * settings().max_examples)
@given(bodies(), st.integers(0, 10**6))
def test_what_is_reported_happens(body, seed):
    try:
        check_parallel(ParallelLoop((i,), exprs(TRIPS), body), Domain().with_range(k, 1, 1))
    except ProgramError as error:
        event("reported")
        assert depends(*Tracer(seed).trace(body, {k: 1})), f"{to_text(body)}{error}"
