"""Pipelines, order barriers and their statements as text."""

from tilelang.dtypes import INT32
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import Var, const
from tilelang.ir.pipeline import (
    Acquire,
    Commit,
    InitPipelines,
    OrderArrive,
    OrderBarrier,
    OrderWait,
    Pipeline,
    Release,
    ReleaseTo,
    StoreWait,
    Wait,
    barriers,
)
from tilelang.ir.printer import to_text
from tilelang.ir.stmt import Group, Seq
from tilelang.ir.visit import expressions, substitute_stmt

ZERO, ONE = const(0, INT32), const(1, INT32)
INDEX, PHASE = Var("version", INT32, index=True), Var("phase", INT32, index=True)
TILE = Buffer("K_s", (const(2, INT32), const(64, INT32)), INT32, Scope.SHARED)
PRODUCER, CONSUMERS = Group(256, 32), Group(0, 256)
K = Pipeline("K", (TILE,), 2, barriers("K_full", 2), barriers("K_empty", 2), PRODUCER, CONSUMERS, 256, bytes=256)
SLOTS = Pipeline("slots", (TILE,), 1, barriers("slots_full", 1), None, PRODUCER, CONSUMERS, 256)
GEMMS, TILES = OrderBarrier("gemms", 3, 128), OrderBarrier("tiles", 2, 128, barriers("order", 2))
SUMS = Region(barriers("sums", 1), (ZERO,), (ONE,))
INIT = InitPipelines((K, SLOTS), (GEMMS, TILES), (SUMS,))


def test_statements_are_printed_with_what_they_do():
    statements = (
        INIT,
        *(Acquire(K, INDEX, PHASE), Commit(K, INDEX)),
        *(ReleaseTo(K, (ZERO, ONE)), Wait(K, INDEX, PHASE), Release(K, INDEX)),
        *(OrderWait(GEMMS), OrderArrive(GEMMS), OrderWait(TILES, 1, phase=PHASE), OrderArrive(TILES, 1)),
        *(StoreWait(True), StoreWait(False)),
    )
    expected = """\
pipeline K: init 2 stages of K_s; threads 256 to 287 copy 256 bytes; threads 0 to 255 read
pipeline slots: init 1 stage of K_s; threads 256 to 287 store elements; threads 0 to 255 read
order gemms: init 3 groups of 128 threads
order tiles: init 2 groups of 128 threads
barrier sums: init
pipeline K: acquire(version, phase)
pipeline K: commit(version)
pipeline K: release to blocks (0, 1)
pipeline K: wait(version, phase)
pipeline K: release(version)
order gemms: wait()
order gemms: arrive()
order tiles: wait(1, phase)
order tiles: arrive(1)
wait for stores(read=True)
wait for stores(read=False)
"""
    assert expected == to_text(Seq(statements))


def test_the_text_of_a_pipeline_says_who_reads_it():
    shared = Pipeline("K", (TILE,), 2, K.full, K.empty, PRODUCER, CONSUMERS, 128, bytes=8, only_mma_reads=True, blocks=4)
    reads = "128 of threads 0 to 255 read by matrix units only"
    assert f"2 stages of K_s; threads 256 to 287 copy 8 bytes; {reads}; shared by 4 blocks" == str(shared)


def test_barriers_are_those_in_memory():
    assert ["K_full", "K_empty", "slots_full", "order", "sums"] == [each.name for each in INIT.barriers]


def test_states_are_expressions_that_passes_rewrite():
    wait = Wait(K, INDEX, PHASE)
    assert (INDEX, PHASE) == expressions(wait)
    moved = substitute_stmt(wait, {INDEX: ONE})
    assert (K, ONE, PHASE) == (moved.pipeline, moved.index, moved.phase)
