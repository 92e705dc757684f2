"""Uniform scalars depend only on what all threads can read, and on nothing that single threads compute."""

import pytest
from specialized import launch_of

import tilelang.language as T
from tilelang.analysis.uniform_scalars import UniformScalars
from tilelang.ir.stmt import Alloc, Break, If, Store
from tilelang.ir.visit import walk
from tilelang.schedule.load_groups import flatten_sequences


def launch(body):
    """A launch with this body, and the value that its last statement stores."""

    @T.prim_func
    def main(n: T.Tensor((8,), "int32"), out: T.Tensor((8,), "int32"), size: T.int32):
        with T.Kernel(4, threads=128) as bx:
            tile = T.alloc_shared((8,), "int32")
            few = T.alloc_local((4,), "int32")
            body(n, out, size, bx, tile, few)

    made = flatten_sequences(launch_of(main))
    return made, [s for s in walk(made.body) if isinstance(s, Store)][-1].value


@T.macro
def sizes_and_blocks(n, out, size, bx, tile, few):
    count = T.alloc_var("int32", init=0)
    count = size + bx
    out[0] = count


@T.macro
def read_only_memory(n, out, size, bx, tile, few):
    count = T.alloc_var("int32", init=0)
    other = T.alloc_var("int32", init=0)
    for i in T.serial(8):
        count = T.max(count, n[i] + other)
    out[0] = count


@T.macro
def arrays(n, out, size, bx, tile, few):
    for i in T.serial(4):
        few[i] = n[bx + i]
    out[0] = few[few[0] % 4]


@T.macro
def loops_left_early(n, out, size, bx, tile, few):
    count = T.alloc_var("int32", init=0)
    while count < 8:
        if n[count] == bx:
            break
        count = count + 1
    out[0] = count


@pytest.mark.parametrize("body", [sizes_and_blocks, read_only_memory, arrays, loops_left_early])
def test_values_that_are_uniform(body):
    made, value = launch(body)
    assert UniformScalars(made).is_uniform(value)


@T.macro
def shared_memory(n, out, size, bx, tile, few):
    count = T.alloc_var("int32", init=0)
    T.copy(n, tile)
    count = tile[0]
    out[0] = count


@T.macro
def written_memory(n, out, size, bx, tile, few):
    count = T.alloc_var("int32", init=0)
    count = out[1]
    out[0] = count


@T.macro
def by_way_of_another(n, out, size, bx, tile, few):
    count = T.alloc_var("int32", init=0)
    other = T.alloc_var("int32", init=0)
    other = out[1]
    for i in T.serial(other):
        count = i
    out[0] = count


@T.macro
def left_early_for_reasons_unknown(n, out, size, bx, tile, few):
    count = T.alloc_var("int32", init=0)
    for i in T.serial(8):
        if out[i] == 0:
            break
        count = i
    out[0] = count


@T.macro
def branches_unknown(n, out, size, bx, tile, few):
    if out[1] > 0:
        few[0] = 1
    out[0] = few[0]


@T.macro
def old_values(n, out, size, bx, tile, few):
    out[0] = T.atomic_add(out[1], 1, return_prev=True)


@T.macro
def by_some_threads(n, out, size, bx, tile, few):
    for i in T.Parallel(8):
        few[0] = n[i]
    out[0] = few[0]


@T.macro
def other_names(n, out, size, bx, tile, few):
    pairs = T.view(few, (2,), "int64")
    pairs[0] = 1
    out[0] = few[0]


@pytest.mark.parametrize(
    "body",
    [
        shared_memory,
        written_memory,
        by_way_of_another,
        left_early_for_reasons_unknown,
        branches_unknown,
        old_values,
        by_some_threads,
        other_names,
    ],
)
def test_values_that_only_consumers_have(body):
    made, value = launch(body)
    assert not UniformScalars(made).is_uniform(value)


def test_a_backward_slice_holds_all_that_has_to_be_executed():
    made, value = launch(loops_left_early)
    backward_slice = UniformScalars(made).backward_slice((value,))
    assert {"count"} == {buffer.name for buffer in backward_slice.buffers}
    assert {made.block_vars[0]} == backward_slice.variables
    assert {Alloc: 1, Store: 1, Break: 1} == {
        kind: sum(isinstance(s, kind) for s in backward_slice.statements) for kind in (Alloc, Store, Break)
    }


def test_scalars_change_within_what_assigns_them():
    made, value = launch(read_only_memory)
    scalars = UniformScalars(made)
    assert scalars.changes_within(value, made.body)
    assert not any(scalars.changes_within(value, s) for s in walk(made.body) if isinstance(s, If))
