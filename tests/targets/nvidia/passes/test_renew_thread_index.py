"""Behind the main loop of a tile, the thread's index is a new one with the same value."""

import pytest
from programs import index_var

from tilelang.dtypes import INT32
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import as_expr, const
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.printer import to_text
from tilelang.ir.stmt import Bind, CallStmt, For, ForKind, If, Launch, Seq, Store, While
from tilelang.passes.base import PassContext
from tilelang.targets.nvidia.isa.wgmma import WGMMA_FENCE
from tilelang.targets.nvidia.passes.renew_thread_index import PASS

THREAD, OWN, TURN, K = map(index_var, ("thread", "own", "turn", "k"))
OUT = Buffer("out", (as_expr(512),), INT32, Scope.SHARED)
MULTIPLY = CallStmt(WGMMA_FENCE, ())


def loop(var, *body, kind=ForKind.SERIAL):
    return For(var, as_expr(0), as_expr(4), 1, kind, Seq(body))


def store(index):
    return Store(OUT, (index,), const(1, INT32))


def renewed(*body):
    """The lines of a launch after the pass."""
    launch = Launch((), (), (256, 1, 1), Seq(body), thread=THREAD)
    made = PASS.run(PrimFunc("f", (), launch, Level.THREAD), PassContext())
    return [line.strip() for line in to_text(made).splitlines()]


MAIN = loop(K, store(OWN), MULTIPLY)
OF_GROUP = Bind(OWN, THREAD & 127)


def test_what_follows_the_main_loop_uses_a_new_index():
    lines = renewed(OF_GROUP, loop(TURN, store(OWN), MAIN, store(OWN + 1), store(OWN + THREAD)))
    behind = lines.index("own_1 = renewed(own)")
    assert ["out[own] = 1"] * 2 == [line for line in lines[:behind] if "out" in line]
    assert [line for line in lines[behind:] if "out" in line] == ["out[own_2 + 1] = 1", "out[own_2 + thread_2] = 1"]


def test_the_range_of_the_new_index_is_known():
    lines = renewed(OF_GROUP, loop(TURN, MAIN, store(OWN)))
    assert any("own_2 >= 0" in line and "own_2 <= 127" in line for line in lines)


@pytest.mark.parametrize("around", [lambda body: If(TURN > 0, body, loc=body.loc), lambda body: Seq((body,))])
def test_a_main_loop_in_a_branch_or_sequence_is_found(around):
    assert "out[own_2] = 1" in renewed(OF_GROUP, loop(TURN, around(Seq((MAIN, store(OWN))))))


def test_a_loop_that_asks_for_its_tiles_is_a_loop_over_tiles():
    assert "out[own_2] = 1" in renewed(OF_GROUP, While(TURN > 0, Seq((MAIN, store(OWN)))))


@pytest.mark.parametrize(
    "body",
    [
        (MAIN, store(OWN)),  # there is one tile
        (loop(TURN, loop(K, store(OWN)), store(OWN)),),  # nothing is multiplied
        (loop(TURN, loop(K, MULTIPLY, kind=ForKind.UNROLLED), store(OWN)),),  # this is the main loop
        (loop(TURN, MAIN, store(TURN)),),  # of no thread
    ],
)
def test_other_programs_stay(body):
    assert not any("renewed" in line for line in renewed(OF_GROUP, *body))
