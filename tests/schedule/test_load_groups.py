"""Load groups are copies that a producer can do: their tiles are read in one place, their sources are not written."""

import dataclasses

import pytest
from specialized import gemm_kernel, launch_of

import tilelang.language as T
from tilelang.ir.evaluate import evaluate
from tilelang.ir.stmt import For, If, ParallelLoop
from tilelang.ir.visit import walk
from tilelang.ops.gemm import Gemm
from tilelang.schedule.load_groups import (
    by_tiles,
    find_load_groups,
    flatten_sequences,
    pipelined_loops,
    trip_count,
)


def load_groups(func):
    return find_load_groups(flatten_sequences(launch_of(func)), lambda copy: "")


def names(found):
    return [[tile.name for tile in load_group.tiles] for load_group in found.found]


def test_tiles_that_one_statement_reads_first_are_full_together():
    (load_group,) = load_groups(gemm_kernel(256, 256, 256)).found
    assert ["A_s", "B_s"] == [tile.name for tile in load_group.tiles]
    assert 2 * 2 * 128 * 64 == load_group.bytes
    assert load_group.pipelined
    assert load_group.first is load_group.last
    assert 4 == load_group.fill_count().maximum


def attention(trips_of_rows=False):
    @T.prim_func
    def main(Q: T.Tensor((256, 64), "float16"), K: T.Tensor((256, 64), "float16"), V: T.Tensor((256, 64), "float16"),
             O: T.Tensor((256, 64), "float32")):  # fmt: skip
        with T.Kernel(4, threads=128) as bx:
            Q_s = T.alloc_shared((64, 64), "float16")
            K_s = T.alloc_shared((64, 64), "float16")
            V_s = T.alloc_shared((64, 64), "float16")
            S = T.alloc_fragment((64, 64), "float32")
            P = T.alloc_fragment((64, 64), "float16")
            out = T.alloc_fragment((64, 64), "float32")
            for row in T.serial(3):
                T.copy(Q[bx * 64, 0], Q_s)
                T.clear(out)
                for k in T.Pipelined(row + 1 if trips_of_rows else 4, num_stages=2):
                    T.copy(K[k * 64, 0], K_s)
                    T.copy(V[k * 64, 0], V_s)
                    T.gemm(Q_s, K_s, S, transpose_B=True, clear_accum=True)
                    T.copy(S, P)
                    T.gemm(P, V_s, out)
                T.copy(out, O[bx * 64, 0])

    return main


def test_tiles_with_different_first_readers_are_groups_of_their_own():
    found = load_groups(attention())
    assert [["Q_s"], ["K_s"], ["V_s"]] == names(found)
    assert [False, True, True] == [load_group.pipelined for load_group in found.found]
    query, key, _ = found.found
    assert isinstance(query.first, For)
    (row,), (_, k) = ([s for s in load_group.path if isinstance(s, For)] for load_group in (query, key))
    assert 3 == query.fill_count().maximum
    assert 12 == key.fill_count().maximum
    assert 2 * 4 + 3 == evaluate(key.fill_count().preceding, {row.var: 2, k.var: 3})


def test_trip_counts_that_differ_between_outer_iterations_must_be_counted():
    query, key, _ = load_groups(attention(trips_of_rows=True)).found
    assert key.fill_count().preceding is None
    assert query.fill_count().maximum == 3


def refused(body):
    """Why the copy of A is in no ring, when a loop has this body."""

    @T.prim_func
    def main(A: T.Tensor((256, 64), "float16"), C: T.Tensor((64, 64), "float32"), n: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=128):
            A_s = T.alloc_shared((64, 64), "float16")
            C_l = T.alloc_fragment((64, 64), "float32")
            count = T.alloc_local((1,), "int32")
            T.clear(C_l)
            count[0] = 0
            for k in T.Pipelined(4, num_stages=2):
                body(A, A_s, C_l, C, n, count, k)
            T.copy(C_l, C)

    found = load_groups(main)
    assert [] == names(found)
    ((_, reason),) = found.refused
    return reason


def read_before(A, A_s, C_l, C, n, count, k):
    T.gemm(A_s, A_s, C_l)
    T.copy(A[k * 64, 0], A_s)


def written_twice(A, A_s, C_l, C, n, count, k):
    T.copy(A[k * 64, 0], A_s)
    A_s[0, 0] = 0
    T.gemm(A_s, A_s, C_l)


def writes_the_source(A, A_s, C_l, C, n, count, k):
    T.copy(A[k * 64, 0], A_s)
    T.gemm(A_s, A_s, C_l)
    A[0, 0] = 0


def computed_from_tiles(A, A_s, C_l, C, n, count, k):
    T.copy(A[count[0] * 64, 0], A_s)
    T.gemm(A_s, A_s, C_l)
    count[0] = count[0] + T.cast(A_s[0, 0], "int32")


def in_part(A, A_s, C_l, C, n, count, k):
    T.copy(A[k * 64 : k * 64 + 32, 0:64], A_s[0:32, 0:64])
    T.gemm(A_s, A_s, C_l)


@pytest.mark.parametrize(
    "body,reason",
    [
        (read_before, "'A_s' is also read elsewhere than after the copy"),
        (written_twice, "'A_s' is written in several places"),
        (writes_the_source, "the kernel also writes 'A'"),
        (computed_from_tiles, "what it copies depends on what the block computes"),
        (in_part, "'A_s' is not filled as a whole"),
    ],
)
def test_copies_that_a_producer_cannot_do_are_refused(body, reason):
    assert reason == refused(body)


def halves(A, B, tile, k):
    T.copy(A[k * 64, 0], tile[:, 0:32])
    T.copy(B[k * 64, 0], tile[:, 32:64])


def overlapping(A, B, tile, k):
    T.copy(A[k * 64, 0], tile[:, 0:32])
    T.copy(B[k * 64, 0], tile[:, 16:48])


def without_the_end(A, B, tile, k):
    T.copy(A[k * 64, 0], tile[:, 0:16])
    T.copy(B[k * 64, 0], tile[:, 16:48])


def filled_by(copies):
    """A loop whose tile several copies fill."""

    @T.prim_func
    def main(A: T.Tensor((256, 32), "float16"), B: T.Tensor((256, 32), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((64, 64), "float16")
            C_l = T.alloc_fragment((64, 64), "float32")
            T.clear(C_l)
            for k in T.Pipelined(4, num_stages=2):
                copies(A, B, tile, k)
                T.gemm(tile, tile, C_l)
            T.copy(C_l, C)

    return main


def test_a_tile_may_be_filled_in_parts():
    (group,) = load_groups(filled_by(halves)).found
    assert (["tile"], 2) == ([tile.name for tile in group.tiles], len(group.copies))
    assert 64 * 64 * 2 == group.bytes


@pytest.mark.parametrize("copies", [overlapping, without_the_end])
def test_parts_that_do_not_divide_a_tile_are_refused(copies):
    found = load_groups(filled_by(copies))
    assert not found.found
    assert {"'tile' is not filled as a whole"} == {reason for _, reason in found.refused}


def test_a_tile_is_refused_where_one_of_its_parts_is():
    launch = flatten_sequences(launch_of(filled_by(halves)))
    found = find_load_groups(launch, lambda copy: "no map" if copy.src.buffer.name == "B" else "")
    assert not found.found
    assert ["no map", "no map"] == [reason for _, reason in found.refused]


def test_loops_with_early_exits_are_refused():
    @T.prim_func
    def main(A: T.Tensor((256, 64), "float16"), C: T.Tensor((64, 64), "float32"), n: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=128):
            A_s = T.alloc_shared((64, 64), "float16")
            C_l = T.alloc_fragment((64, 64), "float32")
            T.clear(C_l)
            for k in T.serial(4):
                T.copy(A[k * 64, 0], A_s)
                T.gemm(A_s, A_s, C_l)
                if n[k] == 0:
                    break
            T.copy(C_l, C)

    ((_, reason),) = load_groups(main).refused
    assert "a loop around it has a break or continue in the middle of an iteration" == reason


def test_source_indices_may_be_loaded_from_memory_that_the_kernel_does_not_write():
    @T.prim_func
    def main(A: T.Tensor((256, 64), "float16"), C: T.Tensor((64, 64), "float32"), n: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=128):
            A_s = T.alloc_shared((64, 64), "float16")
            C_l = T.alloc_fragment((64, 64), "float32")
            T.clear(C_l)
            for k in T.Pipelined(4, num_stages=2):
                page = n[k]
                if page >= 0:
                    T.copy(A[page * 64, 0], A_s)
                    T.gemm(A_s, A_s, C_l)
            T.copy(C_l, C)

    (load_group,) = load_groups(main).found
    assert load_group.pipelined
    assert load_group.fill_count().preceding is None  # the branch may be left out


def test_loops_of_any_step_have_a_trip_count():
    @T.prim_func
    def main(C: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=128):
            for i in T.serial(2, 11, 3):
                C[i] = 0
            for j in T.serial(9, -1, -4):
                C[j] = 0

    loops = [s for s in walk(main.body) if isinstance(s, For)]
    assert [3, 3] == [evaluate(trip_count(loop), {}) for loop in loops]


def with_small_tile(bytes_of_row=4, *, behind=False):
    """A gemm whose result is scaled by values that each iteration loads; `behind` the last reader of its operands."""
    rows, dtype = 64 * bytes_of_row // 4, "float32"

    @T.prim_func
    def main(K: T.Tensor((256, 64), "float16"), V: T.Tensor((rows * 4,), dtype), O: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            K_s = T.alloc_shared((64, 64), "float16")
            V_s = T.alloc_shared((rows,), dtype)
            S = T.alloc_fragment((64, 64), "float32")
            out = T.alloc_fragment((64, 64), "float32")
            P = T.alloc_fragment((64, 64), "float16")
            T.clear(out)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(K[k * 64, 0], K_s)
                T.copy(V[k * rows], V_s)
                T.gemm(K_s, K_s, S, transpose_B=True, clear_accum=True)
                if not behind:
                    for i, j in T.Parallel(64, 64):
                        S[i, j] *= V_s[i]
                T.copy(S, P)
                T.gemm(P, K_s, out)
                if behind:
                    for i, j in T.Parallel(64, 64):
                        out[i, j] *= V_s[i]
            T.copy(out, O)

    return main


def test_a_small_tile_joins_one_that_is_in_use_for_longer():
    (together,) = load_groups(with_small_tile()).found
    assert ["K_s", "V_s"] == [tile.name for tile in together.tiles]
    assert isinstance(together.first, Gemm) and isinstance(together.last, Gemm) and 3 == len(together.readers)
    assert [["K_s"], ["V_s"]] == names(load_groups(with_small_tile(behind=True)))  # which it would hold for longer
    assert [["K_s"], ["V_s"]] == names(load_groups(with_small_tile(bytes_of_row=32)))  # 2048 bytes


def with_computed_operand(scope=T.alloc_fragment, *, read_again=False):
    """A gemm of which threads compute one operand from packed words; `read_again`: gemms read the other one twice."""

    @T.prim_func
    def main(A: T.Tensor((16, 256), "float16"), W: T.Tensor((4, 64, 64), "uint8"), O: T.Tensor((64, 16), "float32")):
        with T.Kernel(1, threads=128):
            A_s, W_s = T.alloc_shared((16, 64), "float16"), T.alloc_shared((64, 64), "uint8")
            operand, out = scope((64, 64), "float16"), T.alloc_fragment((64, 16), "float32")
            T.clear(out)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[0, k * 64], A_s)
                T.copy(W[k, 0, 0], W_s)
                for i, j in T.Parallel(64, 64):
                    operand[i, j] = T.cast(W_s[i, j], "float16") - 8
                T.gemm(operand, A_s, out, transpose_B=True)
                if read_again:
                    T.gemm(operand, A_s, out, transpose_B=True)
            T.copy(out, O)

    return main


def test_tiles_from_which_an_operand_is_computed_are_full_with_the_other_operand():
    (together,) = load_groups(with_computed_operand()).found
    assert ["A_s", "W_s"] == [tile.name for tile in together.tiles]
    assert isinstance(together.first, ParallelLoop)
    assert isinstance(together.last, Gemm)
    assert [["A_s"], ["W_s"]] == names(load_groups(with_computed_operand(T.alloc_shared)))
    assert [["A_s"], ["W_s"]] == names(load_groups(with_computed_operand(read_again=True)))


def test_loops_without_stages_are_not_pipelined():
    launch = launch_of(attention())
    assert ["row", "k"] == [s.var.name for s in walk(launch) if isinstance(s, For)]
    assert ["k"] == [loop.var.name for loop in pipelined_loops(launch)]


def test_fills_of_whole_loops_are_counted_unless_a_branch_decides():
    _, key, value = load_groups(attention(trips_of_rows=True)).found
    assert key.loop is key.fills_each_iteration_of() is value.fills_each_iteration_of()
    branch = If(key.loop.var > 2, key.parent)
    assert dataclasses.replace(key, path=(*key.path, branch)).fills_each_iteration_of() is None


def loaded_in(what):
    """Loads of one tile in several places."""

    @T.prim_func
    def main(A: T.Tensor((512, 64), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(2, threads=128) as bx:
            tile = T.alloc_shared((64, 64), "float16")
            C_l = T.alloc_fragment((64, 64), "float32")
            T.clear(C_l)
            for turn in T.serial(2):
                T.copy(A[0, 0], tile)
                if what != "not read everywhere":
                    T.gemm(tile, tile, C_l)
                for k in T.Pipelined(4 if what != "loops of its own length" else turn + 1, num_stages=2):
                    if what == "read before":
                        T.gemm(tile, tile, C_l)
                    T.copy(A[k * 64, 0], tile)
                    T.gemm(tile, tile, C_l)
                    if what == "twice in an iteration":
                        T.copy(A[k * 64 + 64, 0], tile)
                        T.gemm(tile, tile, C_l)
                if what == "in a branch":
                    for k in T.Pipelined(4, num_stages=2):
                        if k > bx:
                            T.copy(A[k * 64, 0], tile)
                            T.gemm(tile, tile, C_l)
            for k in T.Pipelined(bx + 1, num_stages=2):
                if what == "by threads, too":
                    for i, j in T.Parallel(64, 64):
                        tile[i, j] = A[k * 64 + i, j]
                else:
                    T.copy(A[k * 64, 0], tile)
                T.gemm(tile, tile, C_l)
            T.copy(C_l, C)

    return main


@pytest.mark.parametrize("what", ["", "loops of its own length"])
def test_groups_may_fill_the_same_tile_in_turn(what):
    found = load_groups(loaded_in(what)).found
    assert [list(found)] == by_tiles(found)
    first, inner, last = found
    assert (last.parent, inner.parent) == first.others[::-1]
    # the first load is within a loop that holds another one, whose fills are counted beside it
    assert [None, inner.loop, last.loop] == [each.fills_each_iteration_of() for each in found]
    assert all(each.fill_count().preceding is None for each in found)
    assert all(isinstance(each.first, Gemm) and each.first is each.last for each in found)


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        ("not read everywhere", "'tile' is also read elsewhere than after the copy"),
        ("read before", "'tile' is also read elsewhere than after the copy"),
        ("twice in an iteration", "'tile' is written in several places"),
        ("in a branch", "'tile' is written in several places"),
        ("by threads, too", "'tile' is written in several places"),
    ],
)
def test_other_tiles_that_are_filled_in_several_places_are_refused(what, reason):
    found = load_groups(loaded_in(what))
    assert not found.found
    assert {reason} == {text for _, text in found.refused}


def test_tiles_that_several_groups_fill_are_full_by_themselves():
    @T.prim_func
    def main(A: T.Tensor((512, 64), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            A_s, B_s = T.alloc_shared((64, 64), "float16"), T.alloc_shared((64, 64), "float16")
            C_l = T.alloc_fragment((64, 64), "float32")
            T.clear(C_l)
            for first in (0, 4):
                for k in T.Pipelined(first, first + 4, num_stages=2):
                    T.copy(A[k * 64, 0], A_s)
                    T.copy(A[k * 64, 0], B_s)
                    T.gemm(A_s, B_s, C_l)
            T.copy(C_l, C)

    assert [["A_s"], ["B_s"]] * 2 == names(load_groups(main))
