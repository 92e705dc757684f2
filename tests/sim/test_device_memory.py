"""Memory that threads share: bounds, alignment, contents, neighbors, and the strides of arguments."""

import re

import numpy as np
import pytest

from tilelang.dtypes import as_dtype
from tilelang.errors import DataRace, MisalignedAccess, OutOfBounds, ReadBeforeWrite, SimulationError
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Const, Load, as_expr, cast
from tilelang.ir.launch import LaunchPlan
from tilelang.ir.stmt import Atomic, AtomicOp, Store
from tilelang.sim.counters import Counters
from tilelang.sim.device_memory import row_major
from tilelang.sim.run import simulate
from tilelang.targets.target import Target


def zeros(*shape, dtype=np.float32):
    return np.zeros(shape, dtype)


def vector(buffer, lanes, *indices):
    return Load(buffer, tuple(as_expr(i) for i in indices), as_dtype(f"{buffer.dtype}x{lanes}"))


def fails(kind, threads, *arguments, **options):
    with pytest.raises(kind) as error:
        threads.simulate(*arguments, **options)
    return error.value


# -- bounds ---------------------------------------------------------------------------------------------------
def test_a_store_outside_of_an_argument(threads):
    out = threads.tensor("out", (40,))
    with threads.kernel(1):
        threads.store(out, (threads.thread,), 1)
    error = fails(OutOfBounds, threads, zeros(40))
    assert "out[40]: thread 40 accesses index 40 of dimension 0, which has extent 40" == error.message
    assert 1 == error.loc.line


def test_a_guard_keeps_lanes_inside(threads):
    out = threads.tensor("out", (40,))
    with threads.kernel(1):
        with threads.branch(threads.thread < 40):
            threads.store(out, (threads.thread,), 1)
    result = zeros(40)
    threads.simulate(result)
    assert 40 == result.sum()


def test_each_dimension_has_its_bounds(threads):
    a, out = threads.tensor("A", (4, 8)), threads.tensor("out", (64,))
    with threads.kernel(1, threads=32):
        threads.store(out, (threads.thread,), threads.load(a, 1, threads.thread % 9))
    error = fails(OutOfBounds, threads, zeros(4, 8), zeros(64))
    assert error.message.startswith("A[1, 8]: thread 8 accesses index 8 of dimension 1")


def test_an_index_that_all_share_has_bounds_too(threads):
    a, out = threads.tensor("A", (4,)), threads.tensor("out", (64,))
    with threads.kernel(1, threads=32):
        threads.store(out, (threads.thread,), threads.load(a, -1))
    assert "A[-1]: thread 0 accesses index -1" in fails(OutOfBounds, threads, zeros(4), zeros(64)).message


def test_a_vector_must_lie_inside_its_row(threads):
    a, out = threads.tensor("A", (4, 8)), threads.tensor("out", (64, 4))
    with threads.kernel(1, threads=32):
        threads.emit(Store(out, (threads.thread, as_expr(0)), vector(a, 4, 1, 4 + threads.thread % 2 * 2)))
    error = fails(OutOfBounds, threads, zeros(4, 8), zeros(64, 4))
    assert "A[1, 6]: thread 1 accesses index 6 of 4 elements of dimension 1" in error.message


def test_shared_memory_has_bounds(threads):
    with threads.kernel(1):
        tile = threads.shared("tile", (32,))
        threads.store(tile, (threads.thread,), 1)
    assert fails(OutOfBounds, threads).message.startswith("tile[32]: thread 32")


# -- alignment ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("shift", [0, 1, 2])
def test_a_vector_access_must_be_aligned(threads, shift):
    a, out = threads.tensor("A", (300,)), threads.tensor("out", (32, 4))
    with threads.kernel(1, threads=32):
        threads.emit(Store(out, (threads.thread, as_expr(0)), vector(a, 4, threads.thread * 4 + shift)))
    array = np.arange(300, dtype=np.float32)
    if shift == 0:
        result = zeros(32, 4)
        threads.simulate(array, result)
        np.testing.assert_array_equal(result.reshape(-1), array[:128])
    else:
        error = fails(MisalignedAccess, threads, array, zeros(32, 4))
        assert f"A[{shift}]: thread 0 accesses 4 elements (16 bytes) at byte {4 * shift}" in error.message


def test_the_beginning_of_an_argument_counts(threads):
    a, out = threads.tensor("A", (256,)), threads.tensor("out", (64, 4))
    with threads.kernel(1):
        threads.emit(Store(out, (threads.thread, as_expr(0)), vector(a, 4, threads.thread * 4)))
    whole = np.zeros(260, np.float32)
    threads.simulate(whole[4:], zeros(64, 4))
    fails(MisalignedAccess, threads, whole[1:257], zeros(64, 4))


def test_the_place_in_shared_memory_counts(threads):
    tile = Buffer("tile", (as_expr(256),), as_dtype("float32"), Scope.SHARED)
    plan = LaunchPlan(shared_offsets=((tile, 8),), shared_bytes=8 + 1024)
    with threads.kernel(1, plan=plan, threads=32):
        threads.emit(Store(tile, (threads.thread * 4,), Const(0.0, as_dtype("float32x4"))))
    func = threads.finish()
    with pytest.raises(MisalignedAccess, match="at byte 8"):
        simulate(func, (), target=Target("cuda", "sm_80"))


def test_a_vector_along_a_dimension_with_gaps_is_an_error(threads):
    a = threads.tensor("A", (64, 4), strides=(1, 64))
    with threads.kernel(1):
        threads.emit(Store(a, (threads.thread, as_expr(0)), Const(0.0, as_dtype("float32x4"))))
    assert "whose neighbors are 64 elements apart" in fails(SimulationError, threads, zeros(4, 64).T).message


# -- contents -------------------------------------------------------------------------------------------------
def test_shared_memory_begins_undefined_in_every_block(threads):
    out = threads.tensor("out", (2, 64))
    with threads.kernel(2) as (bx,):
        tile = threads.shared("tile", (64,))
        with threads.branch(threads.thread < 63):
            threads.store(tile, (threads.thread,), 1)
        threads.store(out, (bx, threads.thread), threads.load(tile, threads.thread) + 0)
    error = fails(ReadBeforeWrite, threads, zeros(2, 64))
    assert "tile[63] is read by thread 63 before anything was written there" == error.message


def test_undefined_contents_may_be_moved_but_not_computed_with(threads):
    out = threads.tensor("out", (64,))
    with threads.kernel(1):
        tile, other = threads.shared("tile", (64,)), threads.shared("other", (64,), "float16")
        with threads.branch(threads.thread < 32):
            threads.store(tile, (threads.thread,), 1)
        threads.emit(
            Store(other, (threads.thread,), cast(threads.load(tile, threads.thread), as_dtype("float16")))
        )
        with threads.branch(threads.thread < 32):
            threads.store(out, (threads.thread,), threads.load(other, threads.thread) * 2)
        with threads.branch(threads.thread > 32):
            threads.store(out, (threads.thread,), threads.load(other, threads.thread) * 2)
    assert fails(ReadBeforeWrite, threads, zeros(64)).message.startswith("other[33]")


def test_a_workspace_is_undefined_until_it_is_written(threads):
    out = threads.tensor("out", (64,))
    work = threads.alloc("work", (64,), scope=Scope.GLOBAL)
    for _ in range(2):
        with threads.kernel(1):
            threads.store(out, (threads.thread,), threads.load(work, threads.thread) + 1)
    error = fails(ReadBeforeWrite, threads, zeros(64))
    assert "a workspace is undefined until a kernel writes it; launch one that does first" == error.hint


def test_one_launch_reads_what_an_earlier_one_wrote(threads):
    out = threads.tensor("out", (4, 64))
    work = threads.alloc("work", (4, 64), scope=Scope.GLOBAL)
    with threads.kernel(4) as (bx,):
        threads.store(work, (bx, threads.thread), bx)
    with threads.kernel(4) as (bx,):
        threads.store(out, (bx, threads.thread), threads.load(work, 3 - bx, threads.thread) + 1)
    result = zeros(4, 64)
    threads.simulate(result)
    assert [4, 3, 2, 1] == result[:, 5].tolist()


def test_tiles_that_share_bytes_do_not_hold_what_the_other_wrote(threads):
    out = threads.tensor("out", (64,))
    halves = Buffer("halves", (as_expr(128),), as_dtype("float16"), Scope.SHARED)
    words = Buffer("words", (as_expr(64),), as_dtype("uint32"), Scope.SHARED)
    plan = LaunchPlan(shared_offsets=((halves, 16), (words, 16)), shared_bytes=272)
    with threads.kernel(1, plan=plan):
        for place in (0, 1):
            threads.store(halves, (threads.thread * 2 + place,), 1)
        threads.store(out, (threads.thread,), threads.load(words, threads.thread))
    with pytest.raises(ReadBeforeWrite, match="was read before anything was written to it"):
        simulate(threads.finish(), (zeros(64),), target=Target("cuda", "sm_80"))


# -- races ----------------------------------------------------------------------------------------------------
def test_threads_of_two_warps_race_without_a_barrier(threads):
    out = threads.tensor("out", (64,))
    t = threads.thread
    with threads.kernel(1):
        tile = threads.shared("tile", (64,))
        threads.store(tile, (t,), t)
        threads.sync()
        threads.store(out, (t,), threads.load(tile, 63 - t))
        threads.store(tile, (t,), 0)
    error = fails(DataRace, threads, zeros(64))
    assert "of one block, and nothing orders the two" in error.message
    assert {4, 5} == {error.loc.line, error.notes[0].loc.line}
    assert error.notes[0].text.startswith(("read here by thread", "written here by thread"))
    assert "put T.sync_threads() between the two" == error.hint


def test_lanes_of_one_warp_race_too(threads):
    out = threads.tensor("out", (32,))
    t = threads.thread
    with threads.kernel(1, threads=32):
        tile = threads.shared("tile", (32,))
        threads.store(tile, (t,), t)
        threads.store(out, (t,), threads.load(tile, 31 - t))
    error = fails(DataRace, threads, zeros(32))
    assert "put T.sync_warp() or T.sync_threads() between the two" == error.hint


def test_global_memory_races_within_a_block(threads):
    out = threads.tensor("out", (64,))
    t = threads.thread
    with threads.kernel(1):
        threads.store(out, (t,), t)
        threads.store(out, (63 - t,), threads.load(out, t) + 1)
    fails(DataRace, threads, zeros(64))


def test_threads_that_write_different_values_in_one_statement_race(threads):
    with threads.kernel(1, threads=32):
        tile = threads.shared("tile", (8,))
        threads.store(tile, (threads.thread // 4,), threads.thread)
    error = fails(DataRace, threads)
    assert "is written by threads" in error.message
    assert "in one statement, with different values" in error.message


def test_threads_may_write_the_same_value(threads):
    out = threads.tensor("out", (8,))
    with threads.kernel(1):
        threads.store(out, (threads.thread // 8,), threads.thread // 8)
    result = zeros(8)
    threads.simulate(result)
    assert list(range(8)) == result.tolist()


@pytest.mark.parametrize("seed", range(3))
def test_blocks_race(threads, seed):
    out = threads.tensor("out", (2, 64))
    with threads.kernel(3) as (bx,):
        threads.store(out, (bx // 2, threads.thread), bx)
    error = fails(DataRace, threads, zeros(2, 64), seed=seed)
    assert re.match(r"out\[0, \d+\] is written by block [01] and written by block [01] of one", error.message)
    assert "blocks run in no order" in error.message


def test_blocks_may_update_one_element_by_atomics(threads):
    out = threads.tensor("out", (2,), "int32")
    with threads.kernel(3):
        threads.emit(Atomic(AtomicOp.ADD, out, (threads.thread % 2,), as_expr(1)))
    result = zeros(2, dtype=np.int32)
    threads.simulate(result)
    assert [96, 96] == result.tolist()


def test_an_atomic_and_a_plain_access_of_blocks_race(threads):
    out = threads.tensor("out", (2,), "int32")
    with threads.kernel(3):
        threads.emit(Atomic(AtomicOp.ADD, out, (as_expr(0),), as_expr(1)))
        with threads.branch(threads.thread < 1):
            threads.store(out, (1,), threads.load(out, 0))
    fails(DataRace, threads, zeros(2, dtype=np.int32))


# -- strides --------------------------------------------------------------------------------------------------
def test_arguments_may_have_any_strides(threads):
    m, n = threads.symbol("m"), threads.symbol("n")
    s, t = threads.symbol("s"), threads.symbol("t")
    a = threads.tensor("A", (m, n), strides=(s, t))
    out = threads.tensor("out", (m, n))
    with threads.kernel(m) as (bx,):
        with threads.branch(threads.thread < n):
            threads.store(out, (bx, threads.thread), threads.load(a, bx, threads.thread) * 2)
    base = np.arange(600, dtype=np.float32).reshape(20, 30)
    for array in (base, base.T, base[::2, 3:9], base[::-1, ::-2], np.broadcast_to(base[0], (4, 30))):
        result = zeros(*array.shape)
        threads.simulate(array, result)
        np.testing.assert_array_equal(result, array * 2)


def test_outputs_may_have_gaps(threads):
    s = threads.symbol("s")
    out = threads.tensor("out", (4, 16), strides=(s, 1))
    with threads.kernel(1):
        threads.store(out, (threads.thread // 16, threads.thread % 16), threads.thread)
    base = np.full((4, 40), -1, np.float32)
    threads.simulate(base[:, 8:24])
    np.testing.assert_array_equal(base[:, 8:24].reshape(-1), np.arange(64))
    assert (base[:, :8] == -1).all() and (base[:, 24:] == -1).all()


def test_a_view_of_an_argument_names_its_bytes(threads):
    out = threads.tensor("out", (64,), "float32")
    words = threads.view(out, "words", (16, 4), "uint32")
    with threads.kernel(1):
        threads.store(words, (threads.thread // 4, threads.thread % 4), 0x3F800000)
    result = zeros(64)
    threads.simulate(result)
    assert (result == 1).all()


def test_strides_of_dense_arrays():
    assert (12, 4, 1) == row_major((2, 3, 4))
    assert () == row_major(())


# -- counts ---------------------------------------------------------------------------------------------------
def test_accesses_are_counted_where_they_happen(threads):
    a, out = threads.tensor("A", (64, 33)), threads.tensor("out", (64,))
    t = threads.thread
    with threads.kernel(1):
        tile = threads.shared("tile", (64, 32))
        with threads.serial(0, 32) as i:
            threads.store(tile, (t, i), threads.load(a, t, i))
        with threads.branch(t < 1):
            threads.store(out, (t,), 1)
    report = Counters()
    threads.simulate(zeros(64, 33), zeros(64), report=report)
    store = report.traffic["shared store"]
    assert 64 == store.requests
    assert 64 * 32 == store.transactions  # a column of words, all in one bank
    assert 64 == report.instructions["load global 32"] == report.traffic["global load"].requests
    assert (1, 4, 1) == tuple(vars(report.traffic["global store"]).values())[:3]
