"""Races between blocks: what is one, what is none, and what the report says."""

import re

import numpy as np
import pytest
from tensor_copies import HOPPER, plan_of, tensor_map

from tilelang.dtypes import INT32
from tilelang.errors import DataRace
from tilelang.ir.buffer import Scope
from tilelang.ir.expr import as_expr
from tilelang.ir.stmt import Atomic, AtomicOp
from tilelang.ops.atomic import AtomicTile
from tilelang.ops.copy import Copy
from tilelang.ops.fill import Fill
from tilelang.targets.nvidia.isa.fence import FENCE_PROXY_ASYNC
from tilelang.targets.nvidia.isa.tma import TMA_STORE_COMMIT, tma_store, tma_store_wait


def zeros(*shape):
    return np.zeros(shape, np.float32)


def race_of(program, *arguments, seed=None):
    with pytest.raises(DataRace) as error:
        program.run(*arguments, seed=seed)
    return error.value


def test_two_blocks_that_write_one_element(program):
    out = program.tensor("out", (4,))
    with program.launch(2):
        program.store(out, (3,), 1)
    error = race_of(program, zeros(4))
    assert (
        "out[3] is written by block 0 and written by block 1 of one launch, and blocks run in no order"
        == error.message
    )
    assert "written here by block 0" == error.notes[0].text
    assert [1, 1] == [error.notes[0].loc.line, error.loc.line]
    assert (
        "let every block write its own part of 'out' and combine the parts in a second T.Kernel, or use T.atomic_add"
        == error.hint
    )


def test_splits_that_all_write_the_same_tile(program):
    """The form of the MLA decode example: every KV split stores its partial sums in one output tile."""
    out = program.tensor("Output", (2, 4, 8))
    with program.launch(2, 3) as (batch, _split):
        acc = program.alloc("acc_o", (4, 8), scope=Scope.FRAGMENT)
        program.emit(Fill(program.region(acc), as_expr(1.0)))
        program.emit(Copy(program.region(acc), program.region(out, (batch, 1), (0, 4), (0, 8))))
    error = race_of(program, zeros(2, 4, 8))
    assert error.message.startswith("Output[0, 0, 0] is written by block (0, 0) and written by block (0, 1)")
    assert 3 == error.loc.line


def test_tiles_that_overlap_are_reported_at_the_first_common_element(program):
    out = program.tensor("out", (8,))
    with program.launch(2) as (bx,):
        program.emit(Fill(program.region(out, (bx * 3, 4)), as_expr(0.0)))
    assert race_of(program, zeros(8)).message.startswith("out[3] is written by block 0")


def test_parts_of_different_blocks_do_not_race(program):
    out = program.tensor("out", (2, 4))
    with program.launch(2) as (bx,):
        program.emit(Fill(program.region(out, (bx, 1), (0, 4)), as_expr(1.0)))
        program.store(out, (bx, 0), program.load(out, bx, 1) + 1)
    result = zeros(2, 4)
    program.run(result)
    assert [[2, 1, 1, 1]] * 2 == result.tolist()


@pytest.mark.parametrize("seed", [None, 0, 1, 2])
def test_a_read_of_what_another_block_writes(program, seed):
    out = program.tensor("out", (4,))
    with program.launch(4) as (bx,):
        program.store(out, (bx,), program.load(out, (bx + 1) % 4))
    error = race_of(program, zeros(4), seed=seed)
    assert re.match(r"out\[\d\] is (read by block \d and written|written by block \d and read) by", error.message)
    assert (
        "if this adds to 'out', write T.atomic_add; otherwise let a second T.Kernel read 'out', which starts when all blocks "
        "of the first are done"
    ) == error.hint


@pytest.mark.parametrize("seed", [None, 0, 1, 2, 3])
def test_the_verdict_does_not_depend_on_the_order_of_blocks(program, seed):
    """All blocks read the element, and one of them, which also read it, writes it."""
    out = program.tensor("out", (1,))
    other = program.tensor("other", (3,))
    with program.launch(3) as (bx,):
        program.store(other, (bx,), program.load(out, 0))
        with program.branch(bx == 1):
            program.store(out, (0,), 1)
    assert "out[0]" in race_of(program, zeros(1), zeros(3), seed=seed).message


def test_reads_alone_are_no_race(program):
    a, out = program.tensor("A", (1,)), program.tensor("out", (3,))
    with program.launch(3) as (bx,):
        program.store(out, (bx,), program.load(a, 0))
    program.run(zeros(1), zeros(3))


def test_stores_out_of_bounds_are_no_race(program):
    out = program.tensor("out", (2,))
    with program.launch(3):
        program.store(out, (5,), 1)
        program.emit(Fill(program.region(out, (2, 4)), as_expr(0.0)))
    program.run(zeros(2))


def test_launches_do_not_race_with_each_other(program):
    out = program.tensor("out", (2,))
    for shift in (0, 1):
        with program.launch(2) as (bx,):
            program.store(out, ((bx + shift) % 2,), program.load(out, (bx + shift) % 2) + 1)
    result = zeros(2)
    program.run(result)
    assert [2, 2] == result.tolist()


def test_atomics_do_not_race_with_each_other(program):
    out, tile = program.tensor("out", (1,), "int32"), program.tensor("tile", (2,))
    with program.launch(3):
        program.emit(Atomic(AtomicOp.ADD, out, (as_expr(0),), as_expr(1, INT32)))
        program.emit(Atomic(AtomicOp.MAX, out, (as_expr(0),), as_expr(0, INT32)))
        program.emit(AtomicTile(AtomicOp.ADD, as_expr(1.0), program.region(tile)))
    result, sums = np.zeros(1, np.int32), zeros(2)
    program.run(result, sums)
    assert ([3], [3, 3]) == (result.tolist(), sums.tolist())


@pytest.mark.parametrize("first", [0, 1, 2])
def test_an_atomic_races_with_a_plain_write(program, first):
    out = program.tensor("out", (1,))
    with program.launch(3) as (bx,):
        with program.branch(bx == first):
            program.store(out, (0,), 1)
        with program.branch(bx != first):
            program.emit(Atomic(AtomicOp.ADD, out, (as_expr(0),), as_expr(1.0)))
    error = race_of(program, zeros(1))
    assert "updated by an atomic" in error.message
    assert "use atomics for all accesses to 'out', or write it in a T.Kernel of its own" == error.hint


@pytest.mark.parametrize("first", [0, 1, 2])
def test_an_atomic_races_with_a_plain_read(program, first):
    out, other = program.tensor("out", (1,)), program.tensor("other", (3,))
    with program.launch(3) as (bx,):
        with program.branch(bx == first):
            program.store(other, (bx,), program.load(out, 0))
        with program.branch(bx != first):
            program.emit(Atomic(AtomicOp.ADD, out, (as_expr(0),), as_expr(1.0)))
    assert "out[0]" in race_of(program, zeros(1), zeros(3)).message


def test_a_tensor_without_elements_is_touched_by_nobody(program):
    out = program.tensor("out", (3, 0))
    with program.launch(2):
        program.emit(Fill(program.region(out), as_expr(1.0)))
    program.run(zeros(3, 0))


def test_one_block_may_mix_atomics_and_plain_accesses(program):
    out = program.tensor("out", (2,))
    with program.launch(2) as (bx,):
        program.store(out, (bx,), 1)
        program.emit(Atomic(AtomicOp.ADD, out, (bx,), as_expr(1.0)))
        program.store(out, (bx,), program.load(out, bx) + 1)
    result = zeros(2)
    program.run(result)
    assert [3, 3] == result.tolist()


def test_views_are_watched_by_their_bytes(program):
    out = program.tensor("out", (2,), "int32")
    halves = program.view(out, "halves", (4,), "int16")
    with program.launch(4) as (bx,):
        program.store(halves, (bx,), bx)
    result = np.zeros(2, np.int32)
    program.run(result)
    assert [0 | 1 << 16, 2 | 3 << 16] == result.tolist()


@pytest.mark.parametrize("view_writes_first", [True, False])
def test_a_view_races_with_its_buffer(program, view_writes_first):
    out = program.tensor("out", (2,), "int32")
    halves = program.view(out, "halves", (4,), "int16")
    with program.launch(2) as (bx,):
        with program.branch(bx == int(not view_writes_first)):
            program.store(halves, (3,), 1)
        with program.branch(bx == int(view_writes_first)):
            program.store(out, (1,), 1)
    expected = "out[1] is written" if view_writes_first else "halves[3] is written"
    assert race_of(program, np.zeros(2, np.int32)).message.startswith(expected)


def test_on_chip_memory_is_each_blocks_own(program):
    with program.launch(2):
        shared = program.alloc("S", (1,))
        program.store(shared, (0,), 1)
    program.run()


@pytest.mark.parametrize("first", [0, 1, 2])
def test_an_atomic_that_only_reads_does_not_race_with_reads(program, first):
    out, other = program.tensor("out", (1,)), program.tensor("other", (3,))
    with program.launch(3) as (bx,):
        with program.branch(bx == first):
            program.store(other, (bx,), program.load(out, 0))
        with program.branch(bx != first):
            program.emit(Atomic(AtomicOp.LOAD, out, (as_expr(0),), None))
    result = zeros(3)
    program.run(np.full(1, 5, np.float32), result)
    assert 5 == result[first] == result.sum()


@pytest.mark.parametrize("first", [0, 1, 2])
def test_an_atomic_that_only_reads_races_with_a_plain_write(program, first):
    out = program.tensor("out", (1,))
    with program.launch(3) as (bx,):
        with program.branch(bx == first):
            program.store(out, (0,), 1)
        with program.branch(bx != first):
            program.emit(Atomic(AtomicOp.LOAD, out, (as_expr(0),), None))
    assert "by an atomic" in race_of(program, zeros(1)).message


def stored_by_engine(p, overlapping):
    """Every block lets the engine store a tile of zeros, at its own place or at one for all."""
    out = p.tensor("out", (2, 64), "float16")
    there = tensor_map(out, (64, 1))
    with p.kernel(2, threads=32, plan=plan_of(there)) as (bx,):
        tile = p.shared("tile", (64,), "float16")
        for i in range(2):
            p.store(tile, (p.thread + i * 32,), 0)
        p.call(FENCE_PROXY_ASYNC)
        p.sync()
        with p.branch(p.thread == 0):
            p.call(tma_store(2), there.var, p.at(tile, 0), 0, 0 if overlapping else bx)
            p.call(TMA_STORE_COMMIT)
            p.call(tma_store_wait(0))


def test_what_engines_store_by_maps_is_watched(threads):
    stored_by_engine(threads, True)
    with pytest.raises(DataRace, match=r"out\[0, 0\] is written by block . and written by block"):
        threads.simulate(np.zeros((2, 64), np.float16), arch=HOPPER)


def test_engines_may_store_to_places_of_their_own(threads):
    stored_by_engine(threads, False)
    threads.simulate(np.zeros((2, 64), np.float16), arch=HOPPER)


def test_several_threads_that_start_one_store_race(threads):
    out = threads.tensor("out", (64,), "float16")
    there = tensor_map(out, (64,))
    with threads.kernel(1, threads=32, plan=plan_of(there)):
        tile = threads.shared("tile", (64,), "float16")
        for i in range(2):
            threads.store(tile, (threads.thread + i * 32,), 0)
        threads.call(FENCE_PROXY_ASYNC)
        threads.sync()
        threads.call(tma_store(1), there.var, threads.at(tile, 0), 0)
        threads.call(TMA_STORE_COMMIT)
        threads.call(tma_store_wait(0))
    for lazy in (True, False):
        with pytest.raises(DataRace, match=r"out\[0\] is written by"):
            threads.simulate(np.zeros(64, np.float16), arch=HOPPER, lazy=lazy)
