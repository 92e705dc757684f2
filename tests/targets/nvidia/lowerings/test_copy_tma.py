"""The copy engine moves every element of a tile once, to where the tile's layout says."""

import dataclasses
import math

import numpy as np
import pytest
from answers import reason
from hypothesis import given, settings
from hypothesis import strategies as st
from thread_kernels import buffer, index

from tilelang.dtypes import INT64
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.builder import Builder
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Var, as_expr, int_const
from tilelang.ir.stmt import CallStmt, If, Seq
from tilelang.ir.visit import walk
from tilelang.isa.simulated import TensorMapView
from tilelang.layout.boxes import boxed, find_boxes
from tilelang.layout.layout import Layout
from tilelang.layout.shared_memory import offsets, padded, row_major
from tilelang.layout.xor_swizzle import swizzled
from tilelang.lowering.lowering import LoweringContext
from tilelang.lowering.regions import whole
from tilelang.ops.copy import Copy
from tilelang.options import CompileOptions
from tilelang.passes.thread.flatten_shared import element_offset
from tilelang.targets.nvidia.isa.tensor_box import map_fault, shared_pieces, tensor_pieces
from tilelang.targets.nvidia.isa.tma import TMA_STORE_COMMIT
from tilelang.targets.nvidia.lowerings.copy_tma import TmaLoad, TmaPlan, widest_swizzle
from tilelang.targets.nvidia.lowerings.copy_tma_store import TmaStore
from tilelang.targets.nvidia.requests import request_tma
from tilelang.targets.target import Target

BY_NAME = request_tma("T.tma_copy", load=True)
BX, K, M = index("bx"), index("k"), index("M")
THREAD = index("t")


def region(source, start, extent):
    return Region(source, tuple(map(as_expr, start)), tuple(map(as_expr, extent)))


def context(arch="sm_90a", threads=1, **more):
    return LoweringContext(Target("cuda", arch), CompileOptions(), threads, **more)


def a_barrier():
    barriers = Buffer("full", (as_expr(4),), buffer("x", (1,), "uint64").dtype, Scope.BARRIER)
    return region(barriers, (0,), (1,))


def tile(shape, dtype="float16"):
    return buffer("S", shape, dtype, Scope.SHARED)


def load(shape=(64, 64), dtype="float16", source=(1024, 1024), start=None, **more):
    source = (*(4 for _ in shape[2:]), *source)
    start = (*(0 for _ in shape[2:]), BX * shape[-2], K * shape[-1]) if start is None else start
    more.setdefault("barrier", a_barrier())
    return Copy(region(buffer("A", source, dtype), start, shape), whole(tile(shape, dtype)), **more)


def store(op):
    return Copy(op.dst, op.src, is_async=True)


# -- what is refused -------------------------------------------------------------------------------------------
def test_what_it_cannot_do_is_refused_in_words():
    plain, lowering = load(), TmaLoad()

    def why(op, at=context()):
        return reason(lowering, op, at)

    assert "" == why(plain)
    assert "no barrier counts its bytes" == why(dataclasses.replace(plain, barrier=None))
    assert "sm_80 has no copy engine for tiles" == why(plain, context("sm_80"))
    assert "the copy does not allow it" == why(load(allow_bulk=False))
    assert "copies between global and shared memory only" == why(dataclasses.replace(plain, src=plain.dst))
    wide = dataclasses.replace(plain, dst=whole(tile((64, 64), "float32")))
    assert "does not convert float16 to float32" == why(wide)
    assert "the user fixes which thread copies what" == why(load(coalesced_width=2))
    assert "the extents are not constant" == why(
        dataclasses.replace(plain, src=region(buffer("A", (M, 64), "float16"), (0, 0), (M, 64)))
    )
    assert "rows of 12 bytes are no multiple of 16" == why(load((64, 6), start=(0, 0)))
    assert "the tensor has 6 dimensions, and a map 1 to 5" == why(
        dataclasses.replace(
            plain, src=region(buffer("A", (2, 2, 2, 2, 64, 64), "float16"), (0,) * 6, (1, 1, 1, 1, 64, 64))
        )
    )
    assert "a stride of the tensor is not proven to be a multiple of 16 bytes" == why(load(source=(1024, 1023)))
    assert "the last dimension is not the one that is contiguous in memory" == why(
        dataclasses.replace(plain, src=region(buffer("A", (64, 64, 8), "float16"), (0, 0, 0), (64, 64, 1)))
    )
    part = region(tile((64, 128)), (0, 64), (64, 64))
    assert "" == why(dataclasses.replace(plain, dst=part))  # a whole number of boxes
    between = region(tile((64, 128)), (0, 32), (64, 64))
    assert "the tile is a part of its buffer" == why(dataclasses.replace(plain, dst=between))
    narrow = context(shared_layouts={between.buffer: boxed((64, 128), 16, 64)})
    assert "" == why(dataclasses.replace(plain, dst=between), narrow)
    some_rows = region(tile((128, 64)), (64, 0), (64, 64))
    assert "" == why(dataclasses.replace(plain, dst=some_rows))
    assert "rows of 520 elements are longer than a box" == why(load((4, 520)))
    begins = "what is copied is not proven to begin at a multiple of 16 bytes of a row"
    assert begins == why(load(start=(64, 4)))
    assert begins == why(load(start=(64, BX * 100)))
    assert "" == why(load(start=(3, BX * 104 + 8)))
    assert "" == why(load(start=(0, BX * 100), request=BY_NAME))  # the user answers for it
    assert begins == why(load(start=(0, 4), request=BY_NAME))
    unaligned = dataclasses.replace(buffer("A", (1024, 1024), "float16"), alignment_bytes=2)
    view = dataclasses.replace(buffer("A", (1024, 1024), "float16"), view_of=unaligned)
    assert "the tensor is not proven to begin at a multiple of 16 bytes" == why(
        dataclasses.replace(plain, src=region(view, (0, 0), (64, 64)))
    )
    placed = dataclasses.replace(buffer("A", (1024, 1024), "float16"), address=Var("p", INT64, index=True))
    assert "the host has no descriptor of the tensor, which is given by an address" == why(
        dataclasses.replace(plain, src=region(placed, (0, 0), (64, 64)))
    )


def test_layouts_that_boxes_do_not_make_are_refused():
    def why(shape, layout):
        op = load(shape)
        return reason(TmaLoad(), op, context(shared_layouts={op.dst.buffer: layout}))

    assert "" == why((64, 64), boxed((64, 64), 16, 128))
    assert "" == why((2, 64, 128), boxed((2, 64, 128), 16, 64))
    assert "" == why((64, 256), row_major((64, 256)))
    assert "'S' has a layout that the copy engine does not write" == why((64, 64), padded((64, 64), 8))
    assert "'S' has a layout that the copy engine does not write" == why((64, 128), swizzled((64, 128), 16, 128))
    # boxes of half a row would lie one behind the other, and not side by side
    assert "'S' has a layout with rows of 512 elements, longer than a box" == why((64, 512), row_major((64, 512)))


def test_stores_are_for_programs_that_await_them():
    op = store(load())
    assert reason(TmaStore(), op, context()) == ""
    waiting = dataclasses.replace(op, is_async=False)
    assert reason(TmaStore(), waiting, context()) == "all threads together store faster than one that waits for TMA"
    assert reason(TmaStore(), load(), context()) == "barriers count the bytes of loads"


def test_edges_that_tiles_do_not_divide_need_nothing():
    assert reason(TmaLoad(), load((128, 64), source=(1000, 1016)), context()) == ""


def constraints_of(op):
    """What a load wants of the layout of its tile."""
    plan = TmaPlan(widest_swizzle(op.dst))
    return list(TmaLoad().constrain(op, plan, context()))


# -- what is moved ---------------------------------------------------------------------------------------------
def emitted(op, lowering, layout=None, threads=1):
    shared = next(r.buffer for r in (op.src, op.dst) if r.buffer.scope is Scope.SHARED)
    layouts = {} if layout is None else {shared: layout}
    at = context(threads=threads, thread=THREAD, shared_layouts=layouts)
    build = Builder()
    lowering.lower(op, TmaPlan(widest_swizzle(whole(shared))), at, build)
    return at, build.finish()


def moved(op, lowering, tensor, layout, env):
    """Shared memory after the boxes of a load, in bytes, and how often each byte was written."""
    at, body = emitted(op, lowering, layout)
    views = {
        m.var: TensorMapView(
            m.tensor, tuple(map(int_const, m.dims)), tuple(map(int_const, m.strides)), m.box, m.swizzle
        )
        for m in at.tensor_maps.found
    }
    memory = np.zeros(1 << 18, np.uint8)
    counts = np.zeros_like(memory, np.int64)
    flat = np.ascontiguousarray(tensor).view(np.uint8).ravel()
    for call in (s for s in walk(body) if isinstance(s, CallStmt)):
        if call.routine is TMA_STORE_COMMIT:
            continue
        var = next(a for a in call.args if a in views)
        shared = next(a for a in call.args if isinstance(a, Region) and a.buffer.scope is Scope.SHARED)
        view, first = views[var], 3 if "load" in call.routine.name else 2
        coordinates = call.args[first : first + len(view.box)]
        assert map_fault(view.dims, view.strides, view.box, view.swizzle, view.itemsize) == ""
        begin = int(evaluate(element_offset(shared.buffer, layout, shared.start), env)) * view.itemsize
        assert begin % 128 == 0
        source = tensor_pieces(view, [int(evaluate(c, env)) for c in coordinates])
        target = shared_pieces(view, begin, source.size)
        for n, (here, there) in enumerate(zip(source.starts, target, strict=True)):
            counts[there : there + source.size] += 1
            if source.inside is None or source.inside[n]:
                memory[there : there + source.size] = flat[here : here + source.size]
    return memory, counts


def check(shape, source, start, layout, dtype="float16", versions=0, version=0, parts=1):
    """A load moves every element to its offset, zeros from beyond the tensor, and nothing anywhere else."""
    rng = np.random.default_rng(0)
    tensor = rng.integers(1, 100, source).astype(dtype)
    kept = (versions, *shape) if versions else shape
    shared = tile(kept, dtype)
    at = (version, *(0,) * len(shape)) if versions else (0,) * len(shape)
    whole_tile = region(shared, at, (1, *shape) if versions else shape)
    squeezed = (1,) * (len(source) - len(shape)) + tuple(shape)
    op = Copy(region(buffer("A", source, dtype), start, squeezed), whole_tile, barrier=a_barrier())
    own = dataclasses.replace(op, part=BX, parts=parts, multicast_mask=as_expr(3)) if parts > 1 else op
    assert reason(TmaLoad(), own, context()) == ""
    each = [moved(own, TmaLoad(), tensor, layout, {BX: number}) for number in range(parts)]
    assert len({int(counts.sum()) for _, counts in each}) == 1
    memory, counts = (sum(values) for values in zip(*each, strict=True))
    padded_source = np.zeros([d + 2048 for d in source], dtype)
    padded_source[tuple(slice(0, d) for d in source)] = tensor
    expected = padded_source[tuple(slice(s, s + e) for s, e in zip(start, squeezed, strict=True))].reshape(shape)
    size = np.dtype(dtype).itemsize
    tile_places = np.arange(math.prod(shape)).reshape(shape)
    if layout is not None:
        matrix = offsets(layout)
        leading = np.arange(math.prod(shape[:-2])).reshape((*shape[:-2], 1, 1)) * matrix.size
        tile_places = leading + matrix
    first = version * math.prod(shape)
    elements = memory.view(dtype)[first + tile_places]
    np.testing.assert_array_equal(elements, expected)
    assert (counts[first * size : (first + math.prod(shape)) * size] == 1).all()
    assert counts.sum() == math.prod(shape) * size


@pytest.mark.parametrize(
    "shape,source,start",
    [
        ((64, 64), (256, 256), (64, 128)),
        ((64, 128), (256, 256), (64, 128)),  # two boxes, side by side
        ((64, 128), (250, 248), (192, 128)),  # rows of the tensor are no whole number of boxes
        ((512, 64), (600, 64), (0, 0)),  # more rows than a box has
        ((64, 32), (100, 128), (64, 96)),  # rows of 64 bytes
        ((3, 16, 64), (5, 32, 64), (1, 8, 0)),
        ((64, 64), (3, 128, 256), (2, 64, 192)),  # a matrix of a batch
        ((256,), (1024,), (512,)),
        ((1024,), (1024,), (0,)),
        ((5, 24), (64, 32), (60, 8)),  # rows that no swizzle divides
    ],
)
def test_a_load_brings_every_element_to_its_place(shape, source, start):
    constraint = (constraints_of(load(shape, start=(0,) * len(shape), source=shape)))
    check(shape, source, start, constraint[0].layout if constraint else None)


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_any_boxes_will_do(data):
    rows = 8 * data.draw(st.integers(1, 12))
    row_bytes = data.draw(st.sampled_from((16, 32, 64, 128)))
    columns = data.draw(st.integers(1, 3)) * row_bytes // 2
    source = (data.draw(st.integers(1, 200)), 8 * data.draw(st.integers(1, 40)))
    start = (data.draw(st.integers(0, 150)), 8 * data.draw(st.integers(0, 25)))
    versions = data.draw(st.sampled_from((0, 3)))
    layout = boxed((rows, columns), 16, row_bytes)
    assert find_boxes(layout, (rows, columns), 16) is not None
    check((rows, columns), source, start, layout, versions=versions, version=2 if versions else 0)


@pytest.mark.parametrize(
    "shape,parts",
    [((64, 256), 2), ((64, 256), 4), ((64, 256), 8), ((128, 64), 4), ((256, 32), 2), ((64, 128), 4), ((2, 32, 64), 4)],
)
def test_blocks_of_a_cluster_bring_all_of_a_tile_in_equal_parts(shape, parts):
    source = (*(4,) * (len(shape) - 2), 300, 512)
    start = (*(1,) * (len(shape) - 2), 192, 64)
    (constraint,) = constraints_of(load(shape, start=(0,) * len(shape), source=shape))
    check(shape, source, start, constraint.layout, parts=parts)
    check(shape, source, start, constraint.layout, parts=parts, versions=3, version=2)


def test_parts_are_whole_boxes_if_they_can_be():
    _, body = emitted(load((64, 256), part=BX, parts=2, multicast_mask=as_expr(3)), TmaLoad(), boxed((64, 256), 16, 128))
    assert isinstance(body, CallStmt) and "tma_load_3d_multicast" == body.routine.name
    _, body = emitted(load((64, 256), part=BX, parts=8, multicast_mask=as_expr(3)), TmaLoad(), boxed((64, 256), 16, 128))
    assert ["tma_load_2d_multicast"] * 4 == [s.routine.name for s in walk(body) if isinstance(s, CallStmt)]


def test_tiles_without_equal_parts_are_refused():
    def why(shape, parts):
        return reason(TmaLoad(), load(shape, start=(0,) * len(shape), part=BX, parts=parts), context())

    assert "3 blocks cannot load equal parts of 64 rows and 64 columns" == why((64, 64), 3)
    assert "2 blocks cannot load equal parts of 8 rows and 64 columns" == why((8, 64), 2)
    alone = Copy(region(buffer("A", (512,), "float16"), (0,), (128,)), whole(tile((128,))), barrier=a_barrier())
    assert "a tile of one dimension has no parts" == reason(
        TmaLoad(), dataclasses.replace(alone, part=BX, parts=2), context()
    )


def test_columns_side_by_side_are_one_instruction():
    op = load((64, 256), source=(1024, 1024))
    layout = boxed((64, 256), 16, 128)
    at, body = emitted(op, TmaLoad(), layout)
    assert isinstance(body, CallStmt)
    (one,) = at.tensor_maps.found
    assert [int_const(d) for d in one.dims] == [64, 1024, 16]
    assert [int_const(s) for s in one.strides] == [2048, 128]
    assert (one.box, one.swizzle) == ((64, 64, 4), 128)


def test_the_cache_is_told_how_long_to_keep_what_is_read():
    def calls(**more):
        _, body = emitted(load(**more), TmaLoad(), boxed((64, 64), 16, 128))
        return [s for s in walk(body) if isinstance(s, CallStmt)]

    asking, once = calls(eviction="evict_first")
    assert ("l2_policy_evict_first", "tma_load_2d_hint") == (asking.routine.name, once.routine.name)
    assert asking.result is once.args[-1]
    known = index("policy")
    (once,) = calls(eviction="evict_first", cache_policy=known)
    assert "tma_load_2d_hint" == once.routine.name
    assert known is once.args[-1]
    (plain,) = calls(eviction="evict_normal")
    assert "tma_load_2d" == plain.routine.name


def test_one_of_several_threads_starts_it_and_closes_the_group():
    _, body = emitted(store(load()), TmaStore(), boxed((64, 64), 16, 128), threads=128)
    assert isinstance(body, If)
    calls = [s for s in walk(body) if isinstance(s, CallStmt)]
    assert len(calls) == 2 and calls[-1].routine is TMA_STORE_COMMIT
    _, alone = emitted(store(load()), TmaStore(), boxed((64, 64), 16, 128), threads=1)
    assert isinstance(alone, Seq)


def test_a_layout_without_boxes_is_our_mistake():
    from tilelang.errors import CompilerBug

    for layout in (padded((64, 64), 8), Layout((64, 64), lambda i, j: (j, i))):
        with pytest.raises(CompilerBug, match="'S': its layout is not one that the copy engine writes"):
            emitted(load(), TmaLoad(), layout)
