"""Loops that are distributed: what all iterations load in front of what all iterations store."""

import dataclasses

import numpy as np
import pytest
from by_hand import ThreadProgram
from hypothesis import given, settings
from hypothesis import strategies as st

from tilelang.dtypes import FLOAT32, INT32
from tilelang.ir.expr import cast, const, select
from tilelang.ir.printer import to_text
from tilelang.ir.stmt import Alloc, ForKind, Launch
from tilelang.ir.verify import verify
from tilelang.ir.visit import walk
from tilelang.sim.run import simulate
from tilelang.targets.gpu.isa.sync import SYNC_WARP
from tilelang.targets.nvidia.passes.loads_first import loads, loads_first, stores
from tilelang.targets.target import Target

THREADS, SIZE = 32, 1024
REGISTERS = 16


def distributed(program, registers=REGISTERS):
    """The function, and the same with the body of its launch rewritten."""
    func = program.finish()
    verify(func)
    launch = next(stmt for stmt in walk(func.body) if isinstance(stmt, Launch))
    body = loads_first(launch, registers)
    changed = dataclasses.replace(func, body=dataclasses.replace(launch, body=body))
    verify(changed)
    return func, changed


def loads_late(func):
    """Whether something is loaded where, or behind where, something is stored in the order of the program."""
    stored = False
    for stmt in walk(func.body):
        stored = stored or stores(stmt)
        if stored and loads(stmt):
            return True
    return False


def results(func):
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-99, 99, SIZE).astype(np.float32) for _ in range(2)] + [np.zeros(SIZE, np.float32)]
    simulate(func, arrays, target=Target("cuda", "sm_90a"))
    return arrays


def tensors(program):
    return [program.tensor(name, (SIZE,)) for name in "ABC"]


def unrolled(program, trips):
    return program.serial(0, trips, kind=ForKind.UNROLLED)


@settings(max_examples=25)
@given(
    outer=st.integers(2, 4), inner=st.integers(1, 3), guarded=st.booleans(), chosen=st.booleans(), bound=st.booleans(),
    through_registers=st.booleans(),
)  # fmt: skip
def test_values_stay_the_same(outer, inner, guarded, chosen, bound, through_registers):
    p = ThreadProgram()
    a, b, c = tensors(p)
    with p.kernel(1, threads=THREADS), unrolled(p, outer) as v, unrolled(p, inner) as u:
        at = (v * inner + u) * THREADS + p.thread
        at = p.bind("at", at, index=True) if bound else at
        with p.branch(at < (70 if guarded else SIZE)):
            left = p.load(a, at)
            right = select(at < 50, p.load(b, SIZE - 1 - at), const(3.0, FLOAT32)) if chosen else p.load(b, at)
            if through_registers:
                kept = p.local("kept", (1,))
                p.store(kept, (0,), left)
                left = p.load(kept, 0)
            p.store(c, (at,), left * 2 + right)
    before, after = distributed(p, 2 * outer * inner)
    assert not loads_late(after)
    np.testing.assert_array_equal(results(before), results(after))


def one_loop(program, store, trips=4, kind=ForKind.UNROLLED):
    """A loop whose body is made by a function of the program, its tensors, and the element."""
    all_tensors = tensors(program)
    with program.kernel(1, threads=THREADS), program.serial(0, trips, kind=kind) as v:
        store(program, *all_tensors, v * THREADS + program.thread)


def plain(p, a, b, c, at):
    p.store(c, (at,), p.load(a, at) + p.load(b, at))


def in_place(p, a, b, c, at):
    p.store(c, (at,), p.load(c, at) + p.load(b, at))


def gathered(p, a, b, c, at):
    p.store(c, (at,), p.load(b, cast(p.load(a, at), INT32)))


def bound_to_registers(p, a, b, c, at):
    count = p.var("count", "int32", init=0)
    place = p.bind("place", p.load(count), index=False)
    p.store(c, (at,), p.load(b, place))


def synchronized(p, a, b, c, at):
    p.call(SYNC_WARP, 0xFFFFFFFF)
    p.store(c, (at,), p.load(a, at))


def by_registers(p, a, b, c, at):
    flag = p.var("flag", init=1.0)
    with p.branch(p.load(flag) > 0):
        p.store(c, (at,), p.load(a, at))


def test_a_loop_that_is_distributed_has_registers_for_all_it_loads():
    p = ThreadProgram()
    one_loop(p, plain)
    _, after = distributed(p)
    held = [s.buffer for s in walk(after.body) if isinstance(s, Alloc)]
    assert [("A_ahead", (4,)), ("B_ahead", (4,))] == [(buffer.name, buffer.static_shape) for buffer in held]
    assert not loads_late(after)


@pytest.mark.parametrize("body", [in_place, gathered, bound_to_registers, synchronized, by_registers])
def test_a_loop_stays_where_its_stores_or_registers_decide_what_it_loads(body):
    p = ThreadProgram()
    one_loop(p, body)
    before, after = distributed(p)
    assert to_text(before) == to_text(after)


def test_a_loop_stays_that_loads_more_than_registers_hold():
    for registers, stays in ((8, False), (7, True)):
        p = ThreadProgram()
        one_loop(p, plain)
        before, after = distributed(p, registers)
        assert stays == (to_text(before) == to_text(after))


def test_a_loop_stays_that_is_not_unrolled():
    p = ThreadProgram()
    one_loop(p, plain, kind=ForKind.SERIAL)
    before, after = distributed(p)
    assert to_text(before) == to_text(after)


def scaled_rows(p, *, writes_factors=False, late_index=False):
    """Rows of A, of which a barrier stands behind the first loads, times factors of B."""
    a, b, c = tensors(p)
    with p.kernel(1, threads=THREADS):
        row = p.local("row", (4,))
        with unrolled(p, 4) as v:
            p.store(row, (v,), p.load(a, v * THREADS + p.thread))
        if writes_factors:
            p.store(b, (p.thread + SIZE // 2,), 1)
        p.sync()
        shift = p.bind("shift", p.thread * 1 + 1, index=True) if late_index else p.thread
        with unrolled(p, 4) as v:
            p.store(row, (v,), p.load(row, v) * p.load(b, v * THREADS + shift))
        with unrolled(p, 4) as v:
            p.store(c, (v * THREADS + p.thread,), p.load(row, v))


@pytest.mark.parametrize(("case", "early"), [({}, True), ({"writes_factors": True}, False), ({"late_index": True}, False)])
def test_loops_behind_a_barrier_load_where_the_first_loads_are(case, early):
    p = ThreadProgram()
    scaled_rows(p, **case)
    before, after = distributed(p)
    text = to_text(after)
    assert early == (0 <= text.find("= B[") < text.index("sync_threads()"))
    np.testing.assert_array_equal(results(before), results(after))


def test_what_is_loaded_ahead_fits_in_registers_together():
    for registers, early in ((4, True), (3, False)):
        p = ThreadProgram()
        scaled_rows(p)
        text = to_text(distributed(p, registers)[1])
        assert early == (0 <= text.find("= B[") < text.index("sync_threads()"))


def test_a_loop_that_loads_where_it_stands_takes_no_registers():
    p = ThreadProgram()
    a, b, c = tensors(p)
    with p.kernel(1, threads=THREADS):
        row = p.local("row", (4,))
        p.store(row, (0,), p.load(a, p.thread))
        p.store(b, (p.thread,), 1)
        p.sync()
        for tensor in (b, a):  # one that is written, and one that is not
            with unrolled(p, 4) as v:
                p.store(row, (v,), p.load(tensor, v * THREADS + p.thread))
        with unrolled(p, 4) as v:
            p.store(c, (v * THREADS + p.thread,), p.load(row, v))
    before, after = distributed(p, 4)
    assert ["A_ahead"] == [s.buffer.name for s in walk(after.body) if isinstance(s, Alloc) and "ahead" in s.buffer.name]
    np.testing.assert_array_equal(results(before), results(after))
