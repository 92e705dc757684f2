"""Shared buffers share bytes only when they never live together, and what does not fit says what would."""

import dataclasses
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from thread_kernels import buffer, index

from tilelang.dtypes import BOOL, FLOAT32, INT32, SCALARS
from tilelang.errors import ResourceError
from tilelang.ir.buffer import Region, Scope
from tilelang.ir.expr import Const, Load, const
from tilelang.ir.launch import LaunchPlan
from tilelang.ir.stmt import Alloc, CallStmt, For, ForKind, If, Launch, Seq, Store
from tilelang.ir.visit import walk
from tilelang.layout.boxes import boxed
from tilelang.layout.layout import Layout
from tilelang.layout.shared_memory import padded
from tilelang.passes.thread.allocate_shared_memory import Tile, allocate_launch, assign_offsets
from tilelang.targets.nvidia.isa.cp_async import CP_ASYNC_COMMIT, CP_ASYNC_WAIT, cp_async
from tilelang.targets.nvidia.isa.wgmma import atom_of, wgmma, wgmma_wait
from tilelang.targets.target import Target

SM80, SM86 = Target("cuda", "sm_80"), Target("cuda", "sm_86")
MULTIPLY = wgmma(atom_of(SCALARS["float16"], SCALARS["float16"], FLOAT32, 64))
TRUE = Const(True, BOOL)
THREAD = index("t")
X = buffer("x", (1,), "float32", Scope.LOCAL)


def tile(name, *shape, dtype="float32"):
    return buffer(name, shape, dtype, Scope.SHARED)


def use(*buffers):
    zero = const(0, INT32)
    return Seq(tuple(Store(b, tuple(zero for _ in b.shape), Const(0.0, b.dtype)) for b in buffers))


def look(source):
    return Store(X, (const(0, INT32),), Load(source, tuple(const(0, INT32) for _ in source.shape), FLOAT32))


def loop(*body):
    return For(index("k"), const(0, INT32), const(4, INT32), 1, ForKind.SERIAL, Seq(body))


def planned(*body, target=SM80, **plan):
    launch = Launch(
        (index("bx"),),
        (const(1, INT32),),
        (32, 1, 1),
        Seq((Alloc(X), *body)),
        thread=THREAD,
        plan=LaunchPlan(**plan),
    )
    result = allocate_launch(launch, target).plan
    return {b.name: offset for b, offset in result.shared_offsets}, result.shared_bytes


@given(st.lists(st.tuples(st.integers(1, 3000), st.integers(0, 20), st.integers(0, 8), st.booleans()), max_size=9))
def test_tiles_that_live_together_never_share_bytes_and_all_are_aligned(drawn):
    tiles = [
        Tile(tile(f"b{n}", 1), size, 1024 if wide else 128, first, first + length)
        for n, (size, first, length, wide) in enumerate(drawn)
    ]
    offsets, total = assign_offsets(tiles)
    for t in tiles:
        assert 0 == offsets[t.buffer] % t.align
        assert offsets[t.buffer] + t.bytes <= total
    for a, b in itertools.combinations(tiles, 2):
        apart = offsets[a.buffer] + a.bytes <= offsets[b.buffer] or offsets[b.buffer] + b.bytes <= offsets[a.buffer]
        assert apart or not a.overlaps(b)


def test_what_is_dead_leaves_its_bytes_to_what_follows():
    a, b, d = tile("a", 64), tile("b", 64), tile("d", 32)
    offsets, total = planned(Alloc(a), Alloc(b), Alloc(d), use(a), look(a), use(b), use(d), look(b))
    assert ({"a": 0, "b": 0, "d": 256}, 384) == (offsets, total)


def test_a_branch_that_some_threads_take_is_one_moment_since_no_barrier_stands_in_it():
    a, b = tile("a", 64), tile("b", 64)
    for condition, shared in [(THREAD < 16, False), (TRUE, True)]:
        offsets, _ = planned(Alloc(a), Alloc(b), use(a), If(condition, Seq((look(a), use(b)))), look(b))
        assert shared == (offsets["a"] == offsets["b"])


def wgmma_call(*buffers):
    zero, one = const(0, INT32), const(1, INT32)
    regions = tuple(Region(b, tuple(zero for _ in b.shape), tuple(one for _ in b.shape)) for b in buffers)
    return CallStmt(MULTIPLY, (), regions)


def wait(count):
    return CallStmt(wgmma_wait(count), ())


def cp_async_call(target):
    source = buffer("source", (64,), "float32", Scope.GLOBAL)
    into, out_of = (Region(b, (const(0, INT32),), (const(4, INT32),)) for b in (target, source))
    return CallStmt(cp_async(16), (into, out_of, TRUE), (out_of,), (into,))


def cp_wait(count):
    return CallStmt(CP_ASYNC_WAIT, (const(count, INT32),))


def test_a_tile_that_nobody_reads_keeps_its_bytes_until_the_copy_into_it_is_there():
    a, b = tile("a", 64), tile("b", 64)
    start = (Alloc(a), Alloc(b), cp_async_call(a), CallStmt(CP_ASYNC_COMMIT, ()))
    cases = [
        ((use(b), cp_wait(0)), False),
        ((use(b),), False),
        ((cp_wait(0), use(b)), True),
        ((cp_wait(1), use(b)), False),  # the newest group may be that of this copy
        ((If(THREAD < 1, cp_wait(0)), use(b)), False),
        ((cp_wait(1), look(a), use(b)), True),  # who reads it has waited
    ]
    for following, shares in cases:
        offsets, _ = planned(*start, *following)
        assert shares == (offsets["a"] == offsets["b"])


def test_what_a_product_reads_is_kept_until_somebody_waits_for_it():
    a, b = tile("a", 64), tile("b", 64)
    following = (use(b), look(b))
    for between in [(wait(0),), (wgmma_call(a), wait(0))]:
        offsets, _ = planned(Alloc(a), Alloc(b), use(a), wgmma_call(a), *between, *following)
        assert offsets["a"] == offsets["b"]
    for between in [(wait(1),), (), (If(TRUE, wait(0)),), (loop(wait(0)),)]:
        for last in [(wait(0),), ()]:
            offsets, _ = planned(Alloc(a), Alloc(b), use(a), wgmma_call(a), *between, *following, *last)
            assert offsets["a"] != offsets["b"]


def test_what_a_product_of_a_loop_reads_is_kept_for_the_next_iteration():
    a, b = tile("a", 30000), tile("b", 30000)  # more than a block has, if they do not share bytes
    body = Alloc(b), use(b), look(b), Alloc(a), use(a), wgmma_call(a)
    assert 120000 == planned(loop(*body, wait(0)), wait(0))[1]
    with pytest.raises(ResourceError):
        planned(loop(*body, wait(1)), wait(0))


def test_there_is_memory_behind_tiles_of_which_instructions_fetch_more():
    def total(small, *others):
        """Of the multiplied tile `a` and others, which live as long."""
        a, rest = tile("a", small), [tile(f"b{n}", size) for n, size in enumerate(others)]
        call = dataclasses.replace(wgmma_call(a), routine=dataclasses.replace(MULTIPLY, overhang=1024))
        body = (*map(Alloc, (a, *rest)), use(a, *rest), call, wait(0), look(a), *map(look, rest))
        offsets, total = planned(*body)
        assert offsets["a"] + small * 4 + 1024 <= total
        return total

    assert 256 + 1024 == total(64)
    assert 256 + 1024 == total(64, 128)
    assert 256 + 4096 == total(64, 1024)
    assert 256 + 4096 + 256 == total(64, 64, 1024)


def test_a_buffer_from_outside_lives_as_long_as_the_loop_that_uses_it():
    a, b = tile("a", 64), tile("b", 64)
    offsets, _ = planned(Alloc(a), Alloc(b), loop(use(a), look(a), use(b), look(b)))
    assert offsets["a"] != offsets["b"]
    offsets, _ = planned(Alloc(a), Alloc(b), loop(use(a), look(a)), loop(use(b), look(b)))
    assert offsets["a"] == offsets["b"]


def test_buffers_of_one_loop_share_bytes_only_where_the_block_would_not_fit_otherwise():
    def body(size):
        a, b = tile("a", size), tile("b", size)
        return loop(Alloc(a), use(a), look(a), Alloc(b), use(b), look(b))

    assert 40064 + 40000 == planned(body(10000))[1]  # the second one begins at a multiple of 128
    assert 120000 == planned(body(30000))[1]  # 240000 bytes are more than a block has


def test_layouts_count_with_their_gaps_and_permuted_ones_begin_at_multiples_of_their_period():
    a, b, small = tile("a", 16, 32), tile("b", 64, 64, dtype="float16"), tile("s", 8)
    swapped = Layout((64, 64), lambda i, j: (i, j ^ (i % 8 * 8)))
    offsets, total = planned(
        Alloc(a), Alloc(b), Alloc(small), use(a, b, small), look(small), look(a), look(b),
        shared_layouts=((a, padded((16, 32), 4)), (b, swapped)),
    )  # fmt: skip
    assert {"b": 0, "a": 8192, "s": 8192 + 2304} == offsets  # (15 * 36 + 32) * 4 = 2288 bytes, rounded up
    assert 8192 + 2304 + 32 == total


def test_a_buffer_that_nothing_touches_takes_nothing():
    assert ({}, 0) == planned(Alloc(tile("a", 64)))


def test_barriers_of_the_user_keep_their_bytes_to_themselves():
    bar, a = buffer("bar", (2,), "uint64", Scope.BARRIER), tile("a", 64)
    offsets, total = planned(Alloc(bar), Alloc(a), use(a), look(a))
    assert ({"a": 0, "bar": 256}, 272) == (offsets, total)


def test_what_does_not_fit_is_listed_with_the_stages_that_would():
    a, b, acc = tile("A_s", 4, 128, 64), tile("B_s", 4, 64, 128), tile("C_s", 16)
    with pytest.raises(ResourceError) as caught:
        planned(
            Alloc(a), Alloc(b), Alloc(acc), use(a, b, acc), look(acc), look(a), look(b),
            target=SM86, versions=((a, 4), (b, 4)),
        )  # fmt: skip
    error = caught.value
    assert "T.Kernel: a block needs 262208 bytes of shared memory, but sm_86 has 101376" == error.message
    assert [
        "'A_s' takes 131072 bytes: 4 stages of 32768",
        "'B_s' takes 131072 bytes: 4 stages of 32768",
        "'C_s' takes 64 bytes",
    ] == [note.text for note in error.notes]
    assert "num_stages=1 fits, with 65600 bytes" == error.hint


def test_tiles_that_are_too_large_by_themselves_are_told_by_how_much():
    a = tile("A_s", 2, 512, 128)
    with pytest.raises(ResourceError) as caught:
        planned(Alloc(a), use(a), look(a), target=SM86, versions=((a, 2),))
    assert "make the tiles 3 times smaller: even with num_stages=1 they take 262144 bytes" == caught.value.hint
    b = tile("B_s", 300, 128)
    with pytest.raises(ResourceError) as caught:
        planned(Alloc(b), use(b), look(b), target=SM86)
    assert "make the tiles 2 times smaller: they take 153600 bytes" == caught.value.hint


def test_what_nothing_touches_is_not_allocated():
    a, unused = tile("a", 64), tile("unused", 0, 8)
    launch = Launch(
        (index("bx"),), (const(1, INT32),), (32, 1, 1), Seq((Alloc(a), Alloc(unused), use(a))), thread=index("t")
    )
    result = allocate_launch(launch, SM80)
    assert [a] == [stmt.buffer for stmt in walk(result.body) if isinstance(stmt, Alloc)]
    assert [a] == [buffer for buffer, _ in result.plan.shared_offsets]


@pytest.mark.parametrize(("row_bytes", "offset"), [(64, 3072), (32, 3072), (16, 2560)])
def test_boxes_that_the_hardware_permutes_begin_where_its_pattern_does(row_bytes, offset):
    wide, boxes = tile("wide", 640), tile("boxes", 24, 32, dtype="float16")
    layouts = ((boxes, boxed((24, 32), 16, row_bytes)),)
    offsets, _ = planned(Alloc(wide), Alloc(boxes), loop(use(wide, boxes)), shared_layouts=layouts)
    assert {"wide": 0, "boxes": offset} == offsets
