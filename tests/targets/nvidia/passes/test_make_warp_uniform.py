"""Groups of whole warps are told apart by the number of the warp, which all its lanes have from the first."""

import pytest
from programs import index_var

from tilelang.dtypes import INT32
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import as_expr, const, select
from tilelang.ir.printer import to_text
from tilelang.ir.stmt import Bind, CallStmt, For, ForKind, Group, If, Launch, Seq, Store
from tilelang.ir.visit import variables_of, walk
from tilelang.targets.gpu.isa.sync import SYNC_THREADS
from tilelang.targets.nvidia.isa.wgmma import WGMMA_COMMIT
from tilelang.targets.nvidia.passes.make_warp_uniform import make_warp_uniform

THREAD = index_var("thread")
A = Buffer("A", (as_expr(4096),), INT32, Scope.GLOBAL)


def group(first, count, *inside, name="own", collective=True):
    """A group whose body names its thread and stores something."""
    own = index_var(name)
    record = Group(first, count, collective=collective)
    body = (Bind(own, THREAD - first if first else THREAD), *[make(own) for make in inside])
    return If(record.condition(THREAD), Seq(body), group=record)


def launch(*body, threads=384):
    return Launch((index_var("bx"),), (as_expr(4),), (threads, 1, 1), Seq(body), thread=THREAD)


def stores(value):
    return lambda own: Store(A, (own,), value(own))


def done(node, threads):
    """For each thread what it stores, and where, in order."""
    found = []
    for thread in range(threads):
        env, mine = {THREAD: thread}, []

        def run(stmt, env=env, mine=mine, thread=thread):
            match stmt:
                case Seq():
                    for child in stmt.body:
                        run(child)
                case CallStmt():
                    env[stmt.result] = thread // 32
                case Bind():
                    env[stmt.var] = evaluate(stmt.value, env)
                case If():
                    if evaluate(stmt.condition, env):
                        run(stmt.then_body)
                    elif stmt.else_body is not None:
                        run(stmt.else_body)
                case Store():
                    mine.append((evaluate(stmt.indices[0], env), evaluate(stmt.value, env)))

        run(node.body)
        found.append(mine)
    return found


def plain(value):
    return stores(lambda own: const(value, INT32))


SOME = {
    "all in one": [group(0, 384, plain(1))],
    "a producer behind": [group(256, 128, plain(1)), group(0, 256, stores(lambda own: own // 128))],
    "a single warp behind": [group(256, 32, plain(1)), group(0, 256, stores(lambda own: own // 64))],
    "three": [group(0, 128, plain(1)), group(256, 128, stores(lambda own: own // 32)), group(128, 128, plain(3))],
    "between others": [group(128, 128, stores(lambda own: own // 32)), group(0, 384, plain(2))],
    "not at its size": [group(128, 256, stores(lambda own: own // 128 + own))],
    "tests": [group(128, 128, stores(lambda own: select(own < 64, own + 1, own // 32)))],
    "with a single thread inside": [
        group(256, 128, lambda own: If(own == 0, Store(A, (own,), const(7, INT32)), group=Group(256, 1))),
        group(0, 256, plain(4)),
    ],
}


@pytest.mark.parametrize("name", SOME)
def test_each_thread_does_what_it_did(name):
    before = launch(*SOME[name])
    after = make_warp_uniform(before)
    assert done(before, 384) == done(after, 384)
    assert not [s for s in walk(after.body) if isinstance(s, If) and s.group is not None and s.group.count > 1]


def test_the_branches_of_groups_that_are_all_of_a_block_are_one():
    made = make_warp_uniform(launch(group(256, 128, plain(1)), group(0, 256, plain(2))))
    asked, named, branch = made.body.body
    assert isinstance(asked, CallStmt)
    assert isinstance(named, Bind)
    assert to_text(branch.condition) == "warp >= 8"
    assert isinstance(branch.else_body, Seq)  # without a test


def test_quotients_of_threads_are_those_of_warps():
    made = make_warp_uniform(launch(group(128, 256, stores(lambda own: own // 128))))
    (store,) = (s for s in walk(made.body) if isinstance(s, Store))
    assert to_text(store.value) == "(warp - 4) // 4"


@pytest.mark.parametrize("groups", [[], [group(0, 1, plain(1))], [group(0, 16, plain(1))]])
def test_launches_without_groups_of_whole_warps_are_left_alone(groups):
    node = launch(*groups, plain(1)(THREAD))
    assert make_warp_uniform(node) is node


def test_what_lanes_have_alone_is_left_as_it_is():
    # an address of 32 rows to a warp: its part that all lanes share would take registers of its own
    made = to_text(make_warp_uniform(launch(group(0, 256, stores(lambda own: own // 32 * 16 + own % 32)))))
    assert "own // 32 * 16 + own % 32" in made


def multiplying(kind=ForKind.SERIAL, instruction=WGMMA_COMMIT):
    """A loop with matrix instructions that stores the number of the warp."""

    def loop(own):
        body = Seq((CallStmt(instruction, ()), Store(A, (own,), own // 32)))
        return For(index_var("k"), const(0, INT32), const(4, INT32), 1, kind, body)

    return loop


@pytest.mark.parametrize(
    "loops,expected",
    [
        ((multiplying(),), 1),
        ((multiplying(), multiplying()), 3),
        ((multiplying(), multiplying(ForKind.UNROLLED)), 1),  # of the steps of one gemm
        ((multiplying(), multiplying(instruction=SYNC_THREADS)), 1),
    ],
)
def test_loops_of_gemms_in_turn_shuffle_the_index_for_themselves(loops, expected):
    made = make_warp_uniform(launch(group(0, 128, *loops), group(128, 128, stores(lambda own: own)), threads=256))
    indices = [s.var for s in walk(made.body) if isinstance(s, Bind) and s.var.name == "warp"]
    assert expected == len(indices)
    used = [variables_of(s.value) for s in walk(made.body) if isinstance(s, Store)][: len(loops)]
    own = indices[1:] or indices * len(loops)
    assert [{index} for index in own] == [set(names) for names in used]
