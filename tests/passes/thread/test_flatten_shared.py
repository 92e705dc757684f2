"""Shared memory becomes flat, and every element lies where its layout says."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from thread_kernels import buffer, index

from tilelang.dtypes import BOOL, FLOAT32, INT32, as_dtype
from tilelang.errors import CompilerBug
from tilelang.ir.buffer import Region, Scope
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Binary, Const, Load, as_expr, const
from tilelang.ir.launch import LaunchPlan
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.stmt import Alloc, Atomic, AtomicOp, CallStmt, For, ForKind, Launch, Seq, Store
from tilelang.ir.visit import variables_of, walk, walk_expr
from tilelang.layout.layout import Layout
from tilelang.layout.shared_memory import offsets, padded
from tilelang.passes.thread.flatten_shared import element_offset, flatten_launch
from tilelang.targets.nvidia.isa.cp_async import cp_async

I, J, K, THREAD = (index(name) for name in "ijkt")
OUT = buffer("out", (1,), "float32", Scope.LOCAL)
SWIZZLED = Layout((16, 64), lambda i, j: (i, (j // 8 ^ i % 8) * 8 + j % 8))
TURNED = Layout((16, 64), lambda i, j: (j, i))


def tile(*shape, dtype="float32", name="S", **more):
    return buffer(name, shape, dtype, Scope.SHARED, **more)


def flattened(*body, versions_first=False, **plan):
    launch = Launch((index("bx"),), (const(1, INT32),), (32, 1, 1), Seq(body), thread=THREAD, plan=LaunchPlan(**plan))
    return flatten_launch(launch, versions_first=versions_first)


@given(st.sampled_from([SWIZZLED, TURNED, padded((16, 64), 8)]), st.integers(1, 3), st.integers(0, 15), st.integers(0, 63))
def test_versions_follow_one_another_and_each_is_laid_out_alike(layout, versions, i, j):
    shared = tile(versions, 16, 64)
    box = int(np.prod(layout.output_shape))
    for version in range(versions):
        at = element_offset(shared, layout, (K, I, J))
        assert version * box + int(offsets(layout)[i, j]) == evaluate(at, {K: version, I: i, J: j})


@pytest.mark.parametrize("versions_first", [False, True])
@pytest.mark.parametrize("outermost", [False, True])
@pytest.mark.parametrize("places", [1, 2])
@pytest.mark.parametrize("rows", [16, 24])  # versions of 24 rows do not begin at multiples of a power of two
def test_the_number_of_a_version_is_added_before_an_xor_only_where_no_result_is_needed_again(
    rows, places, outermost, versions_first
):
    shared = tile(3, rows, 64, dtype="float16")
    layout = Layout((rows, 64), lambda i, j: (i, (j // 8 ^ i % 8) * 8 + j % 8))
    element = Load(shared, (K, THREAD % 8 + J * 8, I * 16 + THREAD // 16 * 8), FLOAT32)
    nest = Seq((Store(OUT, (const(0, INT32),), element),) * places)
    for var, trips in ((J, 2), (I, 4)) if outermost else ((I, 4), (J, 2)):
        nest = For(var, const(0, INT32), const(trips, INT32), 1, ForKind.UNROLLED, nest)
    loops = For(K, const(0, INT32), const(3, INT32), 1, ForKind.SERIAL, nest)
    plan = {"shared_layouts": ((shared, layout),), "shared_offsets": ((shared, 0),), "versions": ((shared, 3),)}
    made = flattened(loops, versions_first=versions_first, **plan)
    at = next(s for s in walk(made.body) if isinstance(s, Store)).value.indices[0]
    xors = [e for e in walk_expr(at) if isinstance(e, Binary) and e.op is BinaryOp.BITXOR]
    assert any(I in variables_of(e) for e in xors)
    assert (outermost and places == 1 and versions_first) == any(K in variables_of(e) for e in xors)
    for version, step, block, thread in ((0, 0, 1, 5), (1, 3, 0, 17), (2, 2, 1, 31)):
        place = thread % 8 + block * 8, step * 16 + thread // 16 * 8
        expected = version * rows * 64 + int(offsets(layout)[place])
        assert expected == evaluate(at, {K: version, I: step, J: block, THREAD: thread})


def test_without_a_layout_elements_lie_row_by_row():
    shared = tile(3, 4, 5)
    assert 2 * 20 + 3 * 5 + 4 == evaluate(element_offset(shared, None, (K, I, J)), {K: 2, I: 3, J: 4})


def test_loads_stores_and_atomics_name_one_flat_buffer():
    shared = tile(16, 64)
    load = Store(OUT, (const(0, INT32),), Load(shared, (I, J), FLOAT32))
    store = Store(shared, (I, J), Const(1.0, FLOAT32))
    add = Atomic(AtomicOp.ADD, shared, (I, J), Const(1.0, FLOAT32))
    plan = {"shared_layouts": ((shared, SWIZZLED),), "shared_offsets": ((shared, 256),), "versions": ((shared, 1),)}
    result = flattened(Alloc(shared), load, store, add, **plan)
    alloc, *accesses = result.body.body
    (flat, offset), (versioned, _) = result.plan.shared_offsets[0], result.plan.versions[0]
    assert (flat, flat, 256, (1024,), ()) == (
        alloc.buffer, versioned, offset, flat.static_shape, result.plan.shared_layouts,
    )  # fmt: skip
    for access in accesses:
        node = access.value if access is accesses[0] else access
        assert flat is node.buffer
        assert int(offsets(SWIZZLED)[5, 20]) == evaluate(node.indices[0], {I: 5, J: 20})


def test_vector_accesses_keep_their_width():
    shared = tile(16, 64, dtype="float16")
    wide = as_dtype("float16x8")
    result = flattened(Store(shared, (I, J * 8), Const(0, wide)), shared_layouts=((shared, SWIZZLED),))
    (store,) = result.body.body
    assert wide == store.value.dtype
    assert 5 * 64 + (3 ^ 5) * 8 == evaluate(store.indices[0], {I: 5, J: 3})


def test_indices_that_are_data_are_computed_exactly():
    shared = tile(200, 4)
    table = buffer("table", (8,), "uint8")
    result = flattened(Store(shared, (Load(table, (I,), as_dtype("uint8")), J), Const(0.0, FLOAT32)))
    (store,) = result.body.body
    at = evaluate(store.indices[0], {I: 0, J: 1}, exact=True, load=lambda node, where: np.uint8(199))
    assert 199 * 4 + 1 == at


def test_addresses_of_calls_are_those_of_their_first_element():
    shared, source = tile(2, 16, 64, dtype="float16"), buffer("A", (64, 64), "float16")
    dst = Region(shared, tuple(map(as_expr, (K, I, J * 8))), tuple(map(as_expr, (1, 1, 8))))
    src = Region(source, (I, J * 8), tuple(map(as_expr, (1, 8))))
    call = CallStmt(cp_async(16), (dst, src, Const(True, BOOL)), (src,), (dst,))
    plain, laid_out = (
        flattened(call, shared_layouts=layouts).body.body[0] for layouts in ((), ((shared, SWIZZLED),))
    )
    for result, place_in_tile, span in ((plain, 5 * 64 + 24, 8), (laid_out, 5 * 64 + (3 ^ 5) * 8, 1)):
        region = result.args[0]
        assert region.buffer.static_shape == (2048,)
        assert 1024 + place_in_tile == evaluate(region.start[0], {K: 1, I: 5, J: 3})
        assert (span,) == region.static_extent
        assert result.args[1] is src
        assert result.writes[0].buffer is region.buffer


def test_views_name_the_bytes_of_the_flat_buffer():
    base = tile(16, 64)
    view = tile(32, 64, dtype="float16", name="V", view_of=base)
    result = flattened(Store(base, (I, J), Const(0.0, FLOAT32)), Store(view, (I, J), Const(0.0, view.dtype)))
    first, second = result.body.body
    assert second.buffer.view_of is first.buffer
    assert ((1024,), (2048,)) == (first.buffer.static_shape, second.buffer.static_shape)
    with pytest.raises(CompilerBug, match="'V' and 'S' share memory, but one has no layout"):
        flattened(Store(view, (I, J), Const(0.0, view.dtype)), shared_layouts=((base, SWIZZLED),))


def test_launches_without_shared_memory_stay_as_they_are():
    launch = Launch((index("bx"),), (const(1, INT32),), (32, 1, 1), Seq(()), thread=THREAD)
    assert flatten_launch(launch) is launch
