"""Two warpgroups in ping-pong run one program, in which each thread does what it did in that of its warpgroup."""

import dataclasses

import numpy as np
import pytest
from gpu import SCHEDULES
from hypothesis import given
from hypothesis import strategies as st
from programs import index_var
from specialized import TARGET, lowered

import tilelang.language as T
from tilelang.dtypes import FLOAT32, INT32
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import as_expr, const
from tilelang.ir.printer import to_text
from tilelang.ir.stmt import Alloc, Bind, For, ForKind, Group, If, Launch, LaunchPlan, Seq, Store
from tilelang.ir.visit import walk
from tilelang.sim.run import simulate
from tilelang.targets.nvidia.codegen.cuda import emit
from tilelang.targets.nvidia.passes.merge_consumers import merge_consumers
from tilelang.targets.nvidia.schedule import Schedule

THREAD = index_var("thread")
A = Buffer("A", (as_expr(1 << 20),), INT32, Scope.GLOBAL)
PING_PONG = Schedule(consumers=2, stages=4, ping_pong=True)


def branch(number, body, first=None, count=128):
    """The program of a warpgroup; `body` gives its statements from the index of the thread."""
    own, first = index_var("own"), number * 128 if first is None else first
    group = Group(first, count, collective=True)
    return If(group.condition(THREAD), Seq((Bind(own, THREAD - first), *body(own))), group=group)


def launch(*branches, schedule=PING_PONG, offsets=()):
    producer = If(THREAD >= 256, Seq((Bind(index_var("own"), THREAD - 256),)), group=Group(256, 32, collective=True))
    plan = LaunchPlan(schedule=schedule, shared_offsets=offsets)
    body = Seq((producer, Seq(branches)))
    return Launch((index_var("bx"),), (as_expr(4),), (288, 1, 1), body, thread=THREAD, plan=plan)


def groups(node):
    """The groups of consumers of a launch."""
    return [s for s in walk(node.body) if isinstance(s, If) and s.group is not None and s.group.first < 256]


# the first and last of each warpgroup, and one in seven of the others, which are in all places of a warp
THREADS = sorted({0, 127, 128, 255, 256, 287, *range(0, 288, 7)})


def done(node):
    """For each of these threads what it stores in order: address in bytes and value."""
    offsets = dict(node.plan.shared_offsets)
    found = []
    for thread in THREADS:
        env, mine = {THREAD: thread}, []

        def run(stmt, env=env, mine=mine):
            match stmt:
                case Seq(body=body):
                    for child in body:
                        run(child)
                case Bind(var=var, value=value):
                    env[var] = evaluate(value, env)
                case For(var=var, start=start, stop=stop, step=step, body=body):
                    for env[var] in range(evaluate(start, env), evaluate(stop, env), step):
                        run(body)
                case If() if evaluate(stmt.condition, env):
                    run(stmt.then_body)
                case Store(buffer=buffer, indices=(index,), value=value):
                    at = offsets.get(buffer, 1 << 20) + evaluate(index, env) * buffer.dtype.storage_bytes
                    mine.append((at, evaluate(value, env)))

        run(node.body)
        found.append(mine)
    return found


numbers = st.integers(-9, 9)


@given(starts=st.tuples(numbers, numbers), steps=st.tuples(numbers, numbers), adds=st.tuples(numbers, numbers))
def test_each_thread_does_what_it_did(starts, steps, adds):
    def program(n):
        def body(own):
            turn, index = index_var("turn"), index_var("index")
            value = (turn + adds[n]) % 2 * 5 + index
            inside = Seq((Bind(index, turn * 3 + steps[n]), Store(A, (own * 16 + turn + adds[n] + 9,), value)))
            return [For(turn, const(starts[n], INT32), as_expr(10), 2, ForKind.SERIAL, inside)]

        return branch(n, body)

    before = launch(program(0), program(1))
    after = merge_consumers(before)
    assert done(before) == done(after)
    (group,) = groups(after)
    assert (0, 256) == (group.group.first, group.group.count)


@given(places=st.permutations([0, 512, 2048, 4096]), extra=numbers)
def test_tiles_are_parts_of_one_buffer_at_the_addresses_where_they_were(places, extra):
    tiles = [[Buffer(name, (as_expr(128),), INT32, Scope.SHARED) for name in "SR"] for _ in range(2)]

    def program(n):
        def body(own):
            s, r = tiles[n]
            stores = (Store(s, (const(0, INT32),), own), Store(r, (own,), own + 3 + extra * n))
            return [Alloc(s), Alloc(r), *stores]

        return branch(n, body)

    before = launch(program(0), program(1), offsets=tuple(zip([*tiles[0], *tiles[1]], places, strict=True)))
    after = merge_consumers(before)
    assert done(before) == done(after)
    allocated = [s.buffer for s in walk(after.body) if isinstance(s, Alloc)]
    assert allocated == list(dict(after.plan.shared_offsets))
    for buffer, (mine, other) in zip(allocated, zip(places[:2], places[2:], strict=True), strict=True):
        assert buffer.bytes == abs(mine - other) + 512


def test_the_number_of_the_warpgroup_is_in_place_of_constants():
    stores = [Store(A, (THREAD + 1 - n,), const(15 - n, INT32)) for n in range(2)]
    made = merge_consumers(launch(*(branch(n, lambda own, n=n: [stores[n]]) for n in range(2))))
    expected = """\
if thread >= 0 and thread < 256:  # 256 threads together
    own = thread % 128
    member = thread // 128 % 2
    A[thread + 1 - member] = 15 - member
"""
    assert expected == to_text(groups(made)[0])


def one(index=lambda own: own, more=()):
    """A program of one store, behind others."""
    return lambda own: [*more, Store(A, (index(own),), const(1, INT32))]


F = Buffer("F", (as_expr(4),), FLOAT32, Scope.GLOBAL)
DIFFERENT = {
    "other statements": (one(), one(more=(Store(A, (const(0, INT32),), const(1, INT32)),))),
    "other operators": (one(lambda own: own * 2), one(lambda own: own // 2)),
    "other buffers": (one(), lambda own: [Store(dataclasses.replace(A), (own,), const(1, INT32))]),
    "numbers that are no indices": tuple(
        (lambda own, x=x: [Store(F, (const(0, INT32),), const(x, FLOAT32))]) for x in (0.0, -0.0)
    ),
    "tiles of other sizes": tuple(
        (lambda own, b=Buffer("L", (as_expr(n),), INT32, Scope.LOCAL): [Alloc(b)]) for n in (4, 8)
    ),
    "groups inside": (lambda own: [branch(0, one(), 0, 32)], lambda own: [branch(1, one(), 128, 32)]),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_programs_that_are_not_alike_stay_two(name):
    first, second = DIFFERENT[name]
    node = launch(branch(0, first), branch(1, second))
    assert merge_consumers(node) is node


@pytest.mark.parametrize("schedule", [None, Schedule(consumers=2, stages=4)])
def test_without_ping_pong_programs_stay_as_they_are(schedule):
    node = launch(branch(0, one()), branch(1, one()), schedule=schedule)
    assert merge_consumers(node) is node


def two_results():
    """A product of which a second result is made behind the first, each through a staging tile."""

    @T.prim_func
    def main(
        X: T.Tensor((192, 96), "float16"),
        Y: T.Tensor((96, 128), "float16"),
        C: T.Tensor((192, 128), "float16"),
        D: T.Tensor((192, 128), "float16"),
    ):
        with T.Kernel(2, 3, threads=128) as (bx, by):
            X_s = T.alloc_shared((64, 32), "float16")
            Y_s = T.alloc_shared((32, 64), "float16")
            C_l = T.alloc_fragment((64, 64), "float32")
            T.clear(C_l)
            for k in T.Pipelined(3, num_stages=2):
                T.copy(X[by * 64, k * 32], X_s)
                T.copy(Y[k * 32, bx * 64], Y_s)
                T.gemm(X_s, Y_s, C_l)
            T.copy(C_l, C[by * 64, bx * 64])
            for i, j in T.Parallel(64, 64):
                C_l[i, j] = T.max(C_l[i, j], 0)
            T.copy(C_l, D[by * 64, bx * 64])

    return main


def test_a_kernel_in_ping_pong_is_one_program_with_the_same_results():
    made = lowered(two_results(), ping_pong=True, persistent=True)
    assert 1 == emit(made).text.count("tl_wgmma_commit();")
    assert "for (int turn = member;" in emit(made).text
    rng = np.random.default_rng(0)
    x, y = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((192, 96), (96, 128)))
    want = (x.astype(np.float32) @ y.astype(np.float32)).astype(np.float16)
    for lazy, seed in SCHEDULES:
        c, d = (np.full((192, 128), np.nan, np.float16) for _ in range(2))
        simulate(made, [x, y, c, d], target=TARGET, lazy=lazy, seed=seed)
        np.testing.assert_array_equal(want, c)
        np.testing.assert_array_equal(np.maximum(want, 0), d)
