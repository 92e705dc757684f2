"""The accesses of a launch's statements: those that may conflict, each computed once."""

from tilelang.analysis.context_facts import ContextFacts
from tilelang.analysis.launch_accesses import AccessSummary, LaunchAccesses
from tilelang.analysis.uniformity import uniformity
from tilelang.arith.domain import Domain
from tilelang.dtypes import INT32, as_dtype
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Const, Load, Var, const
from tilelang.ir.printer import to_text
from tilelang.ir.stmt import CallStmt, For, ForKind, Group, If, Launch, Seq, Store
from tilelang.targets.gpu.isa.sync import SYNC_THREADS, SYNC_WARP

HALF = as_dtype("float16")
T, K, BX = (Var(name, INT32, index=True) for name in ("t", "k", "bx"))
S, OTHER = (Buffer(name, (const(64, INT32),), HALF, Scope.SHARED) for name in ("S", "other"))
FACTS = ContextFacts(Domain(), {}, ())


def write(index):
    return Store(S, (index,), Const(0.0, HALF))


def accesses_of(body, threads=64):
    launch = Launch((BX,), (const(4, INT32),), (threads, 1, 1), body, thread=T)
    return LaunchAccesses(launch, 32, uniformity(launch), lambda buffer: buffer is S)


def test_only_relevant_accesses_and_the_same_ones_each_time():
    read = Store(S, (T,), Load(OTHER, (T,), HALF))
    accesses = accesses_of(read)
    (own,) = accesses.own(read, FACTS)
    assert (own.buffer, own.write) == (S, True)
    assert accesses.own(read, FACTS)[0] is own
    assert accesses.inside(read, FACTS)[0][0] is accesses.inside(read, FACTS)[0][0]


def test_accesses_of_a_loop_are_expressed_after_it():
    loop = For(K, const(0, INT32), const(4, INT32), 1, ForKind.SERIAL, write(T + K * 64))
    (access,) = accesses_of(loop).inside(loop, FACTS)[0]
    assert [range(4)] == [free.values for free in access.free]
    assert "k" not in to_text(access.start[0]).split()


def test_a_branch_of_one_thread_and_a_divergent_one():
    single = If(T == 0, write(T), group=Group(0, 1))
    (access,) = accesses_of(single).inside(single, FACTS)[0]
    assert access.single_thread == Group(0, 1)
    assert not access.by_all_threads
    uniform = If(BX == 0, write(T))
    (access,) = accesses_of(uniform).inside(uniform, FACTS)[0]
    assert access.by_all_threads


def test_summaries_cover_sub_statements():
    barrier = CallStmt(SYNC_THREADS, ())
    body = Seq((If(BX == 0, write(T)), Store(OTHER, (T,), Const(0.0, HALF)), barrier))
    accesses = accesses_of(body)
    branch, other, _ = body.body
    assert AccessSummary(relevant=True, writes=True, syncs=False) == accesses.summary(branch)
    assert AccessSummary(relevant=False, writes=False, syncs=False) == accesses.summary(other)
    assert AccessSummary(relevant=True, writes=False, syncs=True) == accesses.summary(barrier)
    assert AccessSummary(relevant=True, writes=True, syncs=True) == accesses.summary(body)


def test_a_barrier_of_a_warp_is_one_of_a_block_of_one_warp():
    barrier = CallStmt(SYNC_WARP, (const(0xFFFFFFFF, as_dtype("uint32")),))
    assert [True, False] == [accesses_of(barrier, threads).syncs_block(barrier) for threads in (32, 64)]
