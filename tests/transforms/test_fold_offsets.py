"""Offsets of swizzled tiles in shorter form: the same place for every thread and every iteration."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilelang.dtypes import INT32
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Load, Select, Var, const
from tilelang.ir.stmt import Bind, For, ForKind, Launch, Seq
from tilelang.layout.layout import Layout
from tilelang.layout.shared_memory import offsets, padded
from tilelang.layout.xor_swizzle import swizzled
from tilelang.transforms.fold_offsets import OffsetFolder

THREAD = Var("thread", INT32, index=True)
S, G = (Var(name, INT32, index=True) for name in "sg")
LANE = THREAD % 32
LOADED = Load(Buffer("A", (const(64, INT32),), INT32, Scope.GLOBAL), (LANE,), INT32)


def folded(layout, indices, loops, binds=(), kind=ForKind.UNROLLED, threads=128):
    block = Var("bx", INT32, index=True)
    launch = Launch((block,), (const(1, INT32),), (threads, 1, 1), Seq(()), thread=THREAD)
    folder = OffsetFolder(launch)
    for bind in binds:
        folder.bind(bind)
    return enter(folder, layout, indices, list(loops.items()), kind)


def enter(folder, layout, indices, loops, kind):
    if not loops:
        return folder.fold(layout, indices)
    (var, extent), *rest = loops
    with folder.loop(For(var, const(0, INT32), const(extent, INT32), 1, kind, Seq(()))):
        return enter(folder, layout, indices, rest, kind)


def place(layout, indices, env):
    at = [int(evaluate(index, env)) for index in indices]
    return int(offsets(layout)[tuple(at)])


def agrees(layout, indices, loops, found, threads=128):
    for thread in range(threads):
        for trip in itertools.product(*(range(extent) for extent in loops.values())):
            env = {THREAD: thread, **dict(zip(loops, trip, strict=True))}
            offset = const(place(layout, found.base, env), INT32)
            if place(layout, indices, env) != int(evaluate(found.apply(offset), env)):
                return False
    return True


@pytest.mark.parametrize(
    ("layout", "indices", "flips", "steps"),
    [
        # 16 rows of a matrix load, a step along K: rows add, columns flip
        (swizzled((64, 64), 16, 128), (LANE % 16 + G * 16, LANE // 16 * 8 + S * 16), {S: 16}, {G: 1024}),
        # the other order: K goes along rows
        (swizzled((64, 64), 16, 128), (LANE % 16 + S * 16, LANE // 16 * 8 + G * 16), {G: 16}, {S: 1024}),
        # rows of two swizzle spans
        (swizzled((32, 128), 16, 128), (LANE % 16 + G * 16, LANE // 16 * 8 + S * 16), {S: 16}, {G: 2048}),
        (padded((64, 64), 8), (LANE % 16 + G * 16, LANE // 16 * 8 + S * 16), {}, {G: 1152, S: 16}),
    ],
)
def test_rows_are_added_and_chunks_are_flipped(layout, indices, flips, steps):
    loops = {S: 4, G: 2}
    found = folded(layout, indices, loops)
    assert (flips, steps) == (found.flips, found.steps)
    assert agrees(layout, indices, loops, found, threads=32)


def test_bits_of_a_variable_have_factors_of_their_own():
    # rows of two spans of a swizzle: a step along K flips chunks of a span, or goes to the next one
    wide = swizzled((32, 128), 16, 128)
    indices, loops = (LANE % 16 + G * 16, LANE // 16 * 8 + S * 16), {S: 8, G: 2}
    found = folded(wide, indices, loops)
    assert ([("s % 4", 16)], [("s // 4", 64), ("g", 2048)]) == (shown(found.flips), shown(found.steps))
    assert agrees(wide, indices, loops, found, threads=32)


def test_a_variable_may_number_rows_and_chunks():
    # pieces of a row of an operand of 16 lanes, then rows, of which each second four have other keys
    layout = Layout((64, 64), lambda i, j: i * 64 + ((j // 8) ^ (i % 8 ^ i // 16 % 2 * 2)) * 8 + j % 8)
    indices, loops = (LANE % 16 + G // 2 * 16, G % 2 * 8 + S * 16), {S: 4, G: 8}
    found = folded(layout, indices, loops)
    assert ([("s", 16), ("g % 4", 8)], [("g // 2", 1024)]) == (shown(found.flips), shown(found.steps))
    assert agrees(layout, indices, loops, found, threads=32)


def shown(terms):
    return [(str(digits), factor) for digits, factor in terms.items()]


@given(
    mode=st.sampled_from([32, 64, 128]),
    stride=st.sampled_from([1, 2, 4, 8, 12, 16]),
    step=st.sampled_from([1, 2, 4, 8, 16, 24]),
    lanes=st.sampled_from([(16, 8), (8, 16), (4, 2), (1, 8)]),
)
def test_what_is_found_is_right(mode, stride, step, lanes):
    layout = swizzled((64, 64), 16, mode)
    rows, width = lanes
    indices = (LANE % rows + G * stride, LANE // rows % 4 * width + S * step)
    loops = {S: 2, G: 3}
    if any(index.max() >= 64 for index in (np.arange(16) + 2 * stride, 3 * width + np.array([step]))):
        return
    found = folded(layout, indices, loops)
    assert found is None or agrees(layout, indices, loops, found, threads=32)


def test_names_stand_for_their_values():
    row = Var("row", INT32, index=True)
    layout = swizzled((64, 64), 16, 128)
    indices = (row + G * 16, LANE // 16 * 8 + S * 16)
    found = folded(layout, indices, {S: 4, G: 2}, [Bind(row, LANE % 16)])
    assert ({S: 16}, {G: 1024}) == (found.flips, found.steps)
    assert folded(layout, indices, {S: 4, G: 2}) is None


def test_what_depends_on_memory_is_not_known():
    row = Var("row", INT32, index=True)
    layout = swizzled((64, 64), 16, 128)
    chosen, column = Select(LOADED > 2, LANE % 16, const(0, INT32), INT32), LANE // 16 * 8 + S * 16
    assert folded(layout, (row + G * 16, column), {S: 4, G: 2}, [Bind(row, chosen)]) is None
    assert folded(layout, (chosen + G * 16, column), {S: 4, G: 2}) is None


def test_versions_of_a_tile_come_before_it():
    stage = Var("k", INT32, index=True)
    layout = swizzled((64, 64), 16, 128)
    found = folded(layout, (stage % 3, LANE % 16 + G * 16, LANE // 16 * 8 + S * 16), {S: 4, G: 2})
    assert {S: 16} == found.flips


@pytest.mark.parametrize(
    ("layout", "indices", "kind"),
    [
        (swizzled((64, 64), 16, 128), (LANE % 16 + G, LANE // 16 * 8 + S * 16), ForKind.UNROLLED),  # keys change
        (swizzled((64, 64), 16, 128), (LANE % 16 + G * 16, LANE // 16 * 8 + S * 16), ForKind.SERIAL),
        (swizzled((64, 64), 16, 128), (LANE % 16 + G * 56, LANE // 16 * 8 + S * 16), ForKind.UNROLLED),  # outside
        (swizzled((64, 64), 16, 128), (LANE % 16, LANE // 16 * 8), ForKind.UNROLLED),  # nothing is unrolled
        (Layout((3, 8), lambda i, j: i * 12 + (j ^ 1)), (G % 3, S * 2 % 8, S), ForKind.UNROLLED),  # versions change
    ],
)
def test_what_has_no_such_form_stays(layout, indices, kind):
    assert folded(layout, indices, {S: 4, G: 2}, kind=kind) is None
