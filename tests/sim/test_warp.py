"""What instructions may ask of a warp."""

import itertools

import numpy as np
import pytest

from tilelang.dtypes import FLOAT32, INT32, SCALARS
from tilelang.errors import BarrierDivergence, DataRace, MisalignedAccess, OutOfBounds, ReadBeforeWrite
from tilelang.ir.expr import Var
from tilelang.isa.instruction import ExecutionScope, Instruction
from tilelang.isa.simulated import Pointer
from tilelang.sim.pointers import RegisterPointer
from tilelang.targets.gpu.isa.sync import SYNC_WARP
from tilelang.targets.gpu.isa.warp import shuffle
from tilelang.targets.nvidia.isa.atomic import atomic

EVERYONE = 0xFFFFFFFF


def instruction(simulate, result=None, execution_scope=ExecutionScope.WARP):
    return Instruction("test", {}, {}, simulate, execution_scope=execution_scope, result=result)


def zeros(*shape, dtype=np.float32):
    return np.zeros(shape, dtype)


def test_regions_arrive_as_pointers_and_expressions_as_lanes(threads):
    seen = []

    def simulate(warp, region, constant, value):
        seen.append((warp.index, warp.active.sum(), region.buffer.name, region.offset.tolist(), constant, value.tolist()))

    a = threads.tensor("A", (4, 32))
    with threads.kernel(1, threads=40):
        threads.call(instruction(simulate), threads.at(a, 2, threads.thread % 8), 7, threads.thread * 2)
    threads.simulate(zeros(4, 32))
    lanes = np.arange(32)
    for warp, count in ((0, 32), (1, 8)):
        expected = (warp, count, "A", (64 + lanes % 8).tolist(), 7, ((lanes + 32 * warp) * 2).tolist())
        assert expected in seen


def test_a_result_is_visible_to_what_follows(threads):
    out = threads.tensor("out", (64,))
    result = Var("r", FLOAT32)
    with threads.kernel(1):
        threads.call(instruction(lambda warp: warp.lane.astype(np.float32), FLOAT32), result=result)
        threads.store(out, (threads.thread,), result)
    array = zeros(64)
    threads.simulate(array)
    np.testing.assert_array_equal(array, np.arange(64) % 32)


def test_an_index_result_is_exact(threads):
    out = threads.tensor("out", (64,), "int64")
    result = Var("r", INT32, index=True)
    with threads.kernel(1):
        threads.call(instruction(lambda warp: np.full(32, 2**20, np.int32), INT32), result=result)
        threads.store(out, (threads.thread,), result * result)
    array = zeros(64, dtype=np.int64)
    threads.simulate(array)
    assert 2**40 == array[0]


def accesses(threads, act, *, dtype="float16", fill=True, shape=(64,), **options):
    """Runs an instruction on a shared tile, registers and an argument, once per warp of a block of one."""
    a = threads.tensor("A", shape, dtype)
    with threads.kernel(1, threads=32):
        tile, regs = threads.shared("tile", (256,), dtype), threads.local("regs", (8,), dtype)
        if fill:
            with threads.serial(0, 8) as i:
                threads.store(tile, (threads.thread * 8 + i,), threads.thread)
                threads.store(regs, (i,), i)
        threads.call(SYNC_WARP, EVERYONE)
        start = [0] * (len(shape) - 1) + [threads.thread]
        threads.call(instruction(act), threads.at(tile, threads.thread * 8), threads.at(regs, 2), threads.at(a, *start))
    array = np.arange(np.prod(shape)).reshape(shape).astype(np.float32).astype(SCALARS[dtype].numpy)
    threads.simulate(array, **options)
    return array


def test_reads_of_every_memory(threads):
    def act(warp, tile, regs, a):
        np.testing.assert_array_equal(warp.read(tile, 8), np.repeat(np.arange(32), 8).reshape(32, 8))
        np.testing.assert_array_equal(warp.read(regs, 2), [[2, 3]] * 32)
        np.testing.assert_array_equal(warp.read(regs + 1), [[3]] * 32)
        np.testing.assert_array_equal(warp.read(regs + np.arange(32) % 2), 2 + np.arange(32)[:, None] % 2)
        np.testing.assert_array_equal(warp.read(a), np.arange(32)[:, None])
        few = warp.read(tile + 100000, 8, where=np.zeros(32, bool))
        assert (32, 8) == few.shape

    accesses(threads, act)


def test_writes_of_every_memory(threads):
    def act(warp, tile, regs, a):
        warp.write(a, np.full((32, 1), 5), where=warp.lane < 3)
        warp.write(regs, np.full((32, 2), 9))
        assert 9 == warp.read(regs, 2)[0, 1]
        warp.write(tile, np.zeros((32, 8)))
        assert 0 == warp.read(tile, 8).sum()

    array = accesses(threads, act)
    assert [5, 5, 5, 3] == array[:4].tolist()


def test_what_is_taken_may_be_undefined(threads):
    def act(warp, tile, regs, a):
        values, defined = warp.read_raw(tile, 8)
        assert (32, 8) == values.shape and not defined.any()
        warp.write(regs, values[:, :4], defined=defined[:, :4])
        _, still = warp.read_raw(regs, 4)
        assert not still.any()
        assert warp.read_raw(a)[1].all()
        warp.read(tile)

    with pytest.raises(ReadBeforeWrite, match=r"tile\[0\]"):
        accesses(threads, act, fill=False)


def test_pointers_to_registers_move_like_others(threads):
    def act(warp, tile, regs, a):
        assert isinstance(regs, RegisterPointer) and isinstance(regs + 1, RegisterPointer)
        moved = regs + np.arange(32) % 3
        assert type(moved) is Pointer
        np.testing.assert_array_equal(moved.offset, 2 + np.arange(32) % 3)

    accesses(threads, act)


@pytest.mark.parametrize(
    ("kind", "act"),
    [
        (OutOfBounds, lambda warp, tile, regs, a: warp.read(tile + 8, 8)),
        (OutOfBounds, lambda warp, tile, regs, a: warp.read(regs, 8)),
        (OutOfBounds, lambda warp, tile, regs, a: warp.write(a + 40, np.zeros((32, 1)))),
        (OutOfBounds, lambda warp, tile, regs, a: warp.read(tile + -1)),
        (MisalignedAccess, lambda warp, tile, regs, a: warp.read(tile + 1, 4)),
        (MisalignedAccess, lambda warp, tile, regs, a: warp.read(a, 2)),
    ],
)
def test_instructions_are_checked(threads, kind, act):
    with pytest.raises(kind) as error:
        accesses(threads, act)
    assert 7 == error.value.loc.line


def test_the_row_of_an_element_bounds_its_neighbors(threads):
    def act(warp, tile, regs, a):
        warp.read(a, 2, where=warp.lane % 2 == 0)

    accesses(threads, act, shape=(2, 32))
    other = type(threads)()
    with pytest.raises(OutOfBounds, match=r"A\[0, 31\]"):
        accesses(other, lambda warp, tile, regs, a: warp.read(a, 2, where=warp.lane == 31), shape=(2, 32))


def test_updates_happen_lane_after_lane(threads):
    out = threads.tensor("out", (64,), "int32")
    total = threads.tensor("total", (2,), "int32")
    result = Var("r", INT32)
    with threads.kernel(1):
        threads.call(atomic("add", INT32), threads.at(total, threads.thread % 2), 1, result=result)
        threads.store(out, (threads.thread,), result)
    array, sums = zeros(64, dtype=np.int32), zeros(2, dtype=np.int32)
    threads.simulate(array, sums)
    assert [32, 32] == sums.tolist()
    assert list(range(32)) == sorted(array[::2].tolist())


@pytest.mark.parametrize("mask", [0x0000FFFF, EVERYONE])
def test_lanes_exchange_values_under_their_mask(threads, mask):
    out = threads.tensor("out", (32,))
    result = Var("r", FLOAT32)
    t = threads.thread
    with threads.kernel(1, threads=32):
        with threads.branch(t < 16):
            threads.call(shuffle("xor", FLOAT32), mask, threads.load(out, t), 1, 32, result=result)
            threads.store(out, (t,), result + 100)
    array = np.arange(32, dtype=np.float32)
    if mask == EVERYONE:
        with pytest.raises(BarrierDivergence, match="lanes 0-15 of warp 0 execute it together, but their mask names"):
            threads.simulate(array)
    else:
        threads.simulate(array)
        np.testing.assert_array_equal(array[:16], 100 + (np.arange(16) ^ 1))


@pytest.mark.parametrize("sync", [True, False])
def test_lanes_that_meet_see_each_others_writes(threads, sync):
    out = threads.tensor("out", (32,))
    t = threads.thread
    with threads.kernel(1, threads=32):
        tile = threads.shared("tile", (32,))
        threads.store(tile, (t,), t)
        if sync:
            threads.call(SYNC_WARP, EVERYONE)
        threads.store(out, (t,), threads.load(tile, 31 - t) + 0)
    array = zeros(32)
    if sync:
        threads.simulate(array)
        np.testing.assert_array_equal(array, np.arange(32)[::-1])
    else:
        with pytest.raises(DataRace):
            threads.simulate(array)


def test_state_belongs_to_a_block(threads):
    seen = []

    def simulate(warp):
        seen.append(next(warp.state("count", itertools.count)))

    with threads.kernel(2):
        threads.call(instruction(simulate))
    threads.simulate()
    assert [0, 1, 0, 1] == seen


def test_warps_can_report(threads):
    with threads.kernel(1, threads=32):
        threads.call(instruction(lambda warp: warp.report("hello")))
        threads.call(instruction(lambda warp: warp.fence()))
    threads.simulate()
    assert ["hello"] == threads.printed
