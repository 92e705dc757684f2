"""Statements with an effect: allocations, atomics, instructions, assertions and prints, on the active lanes."""

import numpy as np
import pytest

from tilelang.dtypes import INT32
from tilelang.errors import CompilerBug, DeviceAssertError, ReadBeforeWrite
from tilelang.ir.callee import Routine
from tilelang.ir.expr import Var, as_expr, binary, cast
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.stmt import Assert, Atomic, AtomicOp, Print
from tilelang.isa.instruction import Instruction
from tilelang.sim.counters import Counters
from tilelang.targets.nvidia.machines import Feature


def zeros(*shape, dtype=np.float32):
    return np.zeros(shape, dtype)


def test_an_allocation_in_a_loop_is_new_each_time(threads):
    with threads.kernel(1, threads=32):
        with threads.serial(0, 2) as i:
            fresh = threads.local("fresh", (1,))
            with threads.branch(i == 0):
                threads.store(fresh, (0,), 1)
            threads.bind("x", threads.load(fresh, 0) + 1)
    with pytest.raises(ReadBeforeWrite, match=r"fresh\[0\] of thread 0"):
        threads.simulate()


def test_registers_may_be_read_as_another_dtype(threads):
    out = threads.tensor("out", (64,), "uint32")
    with threads.kernel(1):
        regs = threads.local("regs", (2,), "float16")
        words = threads.view(regs, "words", (1,), "uint32")
        for i in range(2):
            threads.store(regs, (i,), 1)
        threads.store(out, (threads.thread,), threads.load(words, 0))
    result = zeros(64, dtype=np.uint32)
    threads.simulate(result)
    assert (result == 0x3C003C00).all()


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        (AtomicOp.ADD, 5 + sum(range(64))),
        (AtomicOp.MAX, 63),
        (AtomicOp.MIN, 0),
        (AtomicOp.OR, 63),
        (AtomicOp.AND, 0),
        (AtomicOp.XOR, 5),
    ],
)
def test_atomics_combine(threads, op, expected):
    out = threads.tensor("out", (1,), "int32")
    with threads.kernel(1):
        threads.emit(Atomic(op, out, (as_expr(0),), cast(threads.thread, INT32)))
    result = np.array([5], np.int32)
    threads.simulate(result)
    assert expected == result[0]


def test_atomics_give_the_previous_value(threads):
    out, old = threads.tensor("out", (1,), "int32"), threads.tensor("old", (64,), "int32")
    previous = Var("previous", INT32)
    with threads.kernel(1):
        threads.emit(Atomic(AtomicOp.EXCHANGE, out, (as_expr(0),), cast(threads.thread, INT32), previous))
        threads.store(old, (threads.thread,), previous)
    result, seen = np.array([-1], np.int32), zeros(64, dtype=np.int32)
    threads.simulate(result, seen)
    assert [-1, *range(64)] == sorted([*seen.tolist(), int(result[0])])


def test_an_atomic_load_changes_nothing_and_a_store_needs_no_contents(threads):
    out = threads.tensor("out", (1,), "int32")
    value = Var("value", INT32)
    with threads.kernel(1, threads=1):
        tile = threads.shared("tile", (1,), "int32")
        threads.emit(Atomic(AtomicOp.STORE, tile, (as_expr(0),), as_expr(6)))
        threads.emit(Atomic(AtomicOp.LOAD, tile, (as_expr(0),), None, value))
        threads.store(out, (0,), value)
    result = zeros(1, dtype=np.int32)
    threads.simulate(result)
    assert 6 == result[0]


def test_an_assertion_names_thread_and_block(threads):
    with threads.kernel(2) as (bx,):
        threads.emit(Assert(binary(BinaryOp.LT, threads.thread + bx * 64, 100), "too many"))
    with pytest.raises(DeviceAssertError, match="too many") as error:
        threads.simulate()
    assert error.value.notes[0].text in ("in thread 36 of block (1,)", "in thread 32 of block (1,)")
    assert 1 == error.value.loc.line


def test_every_active_lane_prints(threads):
    with threads.kernel(1, threads=32):
        with threads.branch(threads.thread % 16 == 3):
            threads.emit(Print(threads.thread * 2, "twice"))
            threads.emit(Print(as_expr(1.5), "", "x"))
    threads.simulate()
    assert ["twice: 6", "twice: 38", "x = 1.5", "x = 1.5"] == threads.printed


def test_tiles_are_printed_with_what_is_undefined(threads):
    with threads.kernel(1, threads=32):
        with threads.branch(threads.thread == 0):
            tile, scalar = threads.shared("tile", (2, 2), "int32"), threads.var("n", "int32", 4)
            threads.store(tile, (0, 1), 5)
            threads.emit(Print(threads.region(tile), "now"))
            threads.emit(Print(threads.region(scalar), ""))
    threads.simulate()
    assert ["now: tile (2, 2) int32\n[[?, 5],\n [?, ?]]", "n = 4"] == threads.printed


def test_a_routine_without_a_meaning_is_our_fault(threads):
    with threads.kernel(1):
        threads.call(Routine("memcpy", {}, {}))
    with pytest.raises(CompilerBug, match="memcpy: has no meaning for the simulator"):
        threads.simulate()


def test_an_instruction_that_the_target_lacks_is_our_fault(threads):
    with threads.kernel(1):
        threads.call(Instruction("wgmma", {}, {}, lambda warp: None, needs=Feature.WGMMA))
    with pytest.raises(CompilerBug, match="wgmma: cuda:sm_80 cannot do that"):
        threads.simulate(arch="sm_80")
    threads.simulate(arch="sm_90a")


def test_operations_are_counted_per_warp(threads):
    a, out = threads.tensor("A", (64,)), threads.tensor("out", (64,))
    t = threads.thread
    with threads.kernel(1):
        with threads.branch(t < 8):
            threads.store(out, (t,), threads.load(a, t) * 2.0 + 1.0)
        threads.sync()
    report = Counters()
    threads.simulate(zeros(64), zeros(64), report=report)
    counts = report.instructions
    assert (2, 1, 1, 2) == (
        counts["float op"], counts["load global 32"], counts["store global 32"], counts["sync_threads"]
    )
    assert (1, 1, 2, 1) == (report.launches, report.blocks, report.warps, report.barriers)
